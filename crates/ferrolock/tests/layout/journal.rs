//! Everything that is published on a server, step by step.

use testkit::fixtures::Message;
use testkit::{Connection, Server};

const END: &str = "journal-end-of-step";

/// Listens to every channel.
pub(crate) struct Journal {
    ears: Connection,
    voice: Connection,
}

impl Journal {
    pub(crate) fn of(server: &Server) -> Self {
        let mut ears = server.connect();
        ears.command(&["PSUBSCRIBE", "*"]);
        Self {
            ears,
            voice: server.connect(),
        }
    }

    /// What was published since the last call, in order.
    pub(crate) fn take(&mut self) -> Vec<Message> {
        self.voice.command(&["PUBLISH", END, ""]);
        let mut heard = Vec::new();
        loop {
            let mut words = self.ears.receive().unwrap().texts().into_iter().skip(2);
            let (channel, payload) = (words.next().unwrap(), words.next().unwrap());
            if channel == END {
                return heard;
            }
            heard.push(Message { channel, payload });
        }
    }
}
