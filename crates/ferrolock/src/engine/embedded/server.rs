//! What commands act on: the keys, the channels, and one moment of time.

use std::sync::Arc;

use super::channels::Channels;
use super::keyspace::{Keyspace, Millis};
use crate::engine::{Ear, Signal};

/// The state of one server.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) keys: Keyspace,
    pub(super) channels: Channels,
    /// Unix time in microseconds: it stands still while a script runs.
    micros: i64,
    /// What was published since [`Server::begin`].
    outbox: Vec<Message>,
    random: fastrand::Rng,
}

#[derive(Debug)]
struct Message {
    channel: Vec<u8>,
    payload: Vec<u8>,
}

impl Default for Server {
    /// Every server draws the same numbers, so that a simulation repeats.
    fn default() -> Self {
        Self {
            keys: Keyspace::default(),
            channels: Channels::default(),
            micros: 0,
            outbox: Vec::new(),
            random: fastrand::Rng::with_seed(1),
        }
    }
}

impl Server {
    /// Sets the time that the next script sees and removes what is due by it.
    pub(super) fn begin(&mut self, micros: i64) {
        debug_assert!(self.outbox.is_empty());
        // Two threads may read the clock in one order and get here in the other.
        self.micros = self.micros.max(micros);
        let now = self.now();
        self.keys.purge(now);
    }

    pub(super) fn now(&self) -> Millis {
        self.micros / 1000
    }

    pub(super) fn micros(&self) -> i64 {
        self.micros
    }

    /// A source of random numbers, another one each time.
    pub(super) fn random(&mut self) -> fastrand::Rng {
        self.random.fork()
    }

    /// Takes a message for after the script; how many will hear it.
    pub(super) fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let heard = self.channels.count(channel);
        if heard > 0 {
            self.outbox.push(Message {
                channel: channel.to_vec(),
                payload: payload.to_vec(),
            });
        }
        heard
    }

    /// What was published, for each ear that is to hear it.
    pub(super) fn take_mail(&mut self) -> Vec<(Arc<dyn Ear>, Signal)> {
        let mut mail = Vec::new();
        for message in self.outbox.drain(..) {
            for ear in self.channels.ears(&message.channel) {
                mail.push((ear, Signal::Message(message.payload.clone())));
            }
        }
        mail
    }
}
