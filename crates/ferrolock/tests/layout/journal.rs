//! Records everything that is published on a server, and every key that is written, step by step.

use std::collections::BTreeSet;

use testkit::fixtures::Message;
use testkit::{Connection, Kind, Server};

const END: &str = "journal-end-of-step";

/// What the server's own messages about its keys begin with.
const WRITTEN: &str = "__keyspace@0__:";

/// Listens to every channel.
pub(crate) struct Journal {
    ears: Connection,
    voice: Connection,
}

/// What was recorded between two calls of [`Journal::take`].
#[derive(Debug, Default)]
pub(crate) struct Heard {
    /// What was published, in order.
    pub(crate) messages: Vec<Message>,
    /// The keys that were written, expired or deleted, also those that no longer exist; only of a [`talkative`] server.
    pub(crate) touched: BTreeSet<String>,
}

/// A server that publishes a message for every key that is written.
pub(crate) fn talkative(kind: Kind) -> Server {
    let builder = Server::builder(kind);
    builder.config("notify-keyspace-events KA").start()
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

    /// What happened since the last call.
    pub(crate) fn take(&mut self) -> Heard {
        self.voice.command(&["PUBLISH", END, ""]);
        let mut heard = Heard::default();
        loop {
            let mut words = self.ears.receive().unwrap().texts().into_iter().skip(2);
            let (channel, payload) = (words.next().unwrap(), words.next().unwrap());
            if channel == END {
                return heard;
            }
            match channel.strip_prefix(WRITTEN) {
                Some(key) => drop(heard.touched.insert(key.to_owned())),
                None => heard.messages.push(Message { channel, payload }),
            }
        }
    }
}

#[test]
fn a_key_that_comes_and_goes_within_a_script_is_noticed() {
    for kind in testkit::servers() {
        let server = talkative(kind);
        let mut journal = Journal::of(&server);
        let script = "redis.call('SET', KEYS[1], '1', 'PX', 9) return redis.call('DEL', KEYS[1])";

        server.command(&["EVAL", script, "1", "latch"]);

        let heard = journal.take();
        assert!(heard.touched.iter().eq(["latch"]), "{heard:?}");
        assert_eq!(heard.messages, []);
        assert!(journal.take().touched.is_empty());
    }
}
