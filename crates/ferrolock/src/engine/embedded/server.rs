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
    /// How many listen to each channel elsewhere, as far as the next script may publish there.
    far: Vec<(Vec<u8>, usize)>,
    /// What was published since [`Server::begin`].
    outbox: Vec<Message>,
    random: fastrand::Rng,
}

/// What was published, and where.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) channel: Vec<u8>,
    pub(super) payload: Vec<u8>,
}

impl Default for Server {
    /// Every server draws the same numbers, so that a simulation repeats.
    fn default() -> Self {
        Self::seeded(1)
    }
}

impl Server {
    /// A server whose random numbers begin there.
    pub(super) fn seeded(seed: u64) -> Self {
        Self {
            keys: Keyspace::default(),
            channels: Channels::default(),
            micros: 0,
            far: Vec::new(),
            outbox: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

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

    /// So many listen to each of these channels elsewhere.
    #[cfg(target_os = "linux")]
    pub(super) fn set_far(&mut self, far: Vec<(Vec<u8>, usize)>) {
        self.far = far;
    }

    /// Takes a message for after the script; how many will hear it.
    pub(super) fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let far = self.far.iter().find(|(of, _)| of == channel);
        let heard = self.channels.count(channel) + far.map_or(0, |(_, count)| *count);
        if heard > 0 {
            self.outbox.push(Message {
                channel: channel.to_vec(),
                payload: payload.to_vec(),
            });
        }
        heard
    }

    /// What was published since [`Server::begin`].
    pub(super) fn take_outbox(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.outbox)
    }

    /// What was published, for each ear that is to hear it.
    pub(super) fn take_mail(&mut self) -> Vec<(Arc<dyn Ear>, Signal)> {
        let outbox = self.take_outbox();
        outbox
            .iter()
            .flat_map(|message| self.mail_of(message))
            .collect()
    }

    /// Whether anybody here hears a message.
    #[cfg(target_os = "linux")]
    pub(super) fn has_ears(&self, message: &Message) -> bool {
        self.channels.count(&message.channel) > 0
    }

    /// A message, for each ear here that is to hear it.
    pub(super) fn mail_of(
        &self,
        message: &Message,
    ) -> impl Iterator<Item = (Arc<dyn Ear>, Signal)> {
        let payload = &message.payload;
        self.channels
            .ears(&message.channel)
            .map(|ear| (ear, Signal::Message(payload.clone())))
    }
}
