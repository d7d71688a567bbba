//! What commands act on: the keys, the channels, and one moment of time.

use std::sync::Arc;

use super::channels::Channels;
use super::keyspace::{Keyspace, Millis};
use crate::engine::{Listener, Signal};

/// The state of one server.
#[derive(Debug)]
pub(in super::super) struct Server {
    pub(in super::super) keys: Keyspace,
    pub(in super::super) channels: Channels,
    /// Unix time in microseconds: it stands still while a script runs.
    micros: i64,
    /// By how much a test has set the clock back, in microseconds.
    #[cfg(test)]
    behind: i64,
    far: Far,
    /// What was published since [`Server::begin`].
    outbox: Vec<Message>,
    random: fastrand::Rng,
}

/// The listeners of other processes.
#[derive(Debug)]
enum Far {
    /// There are no other processes.
    Nowhere,
    /// Counted for the channels that the next script is likely to publish on.
    #[cfg(target_os = "linux")]
    Counted {
        counts: Vec<(Vec<u8>, usize)>,
        /// Channels that were published on and not counted.
        missing: Vec<Vec<u8>>,
    },
}

/// A published message, and its channel.
#[derive(Debug)]
pub(in super::super) struct Message {
    pub(in super::super) channel: Vec<u8>,
    pub(in super::super) payload: Vec<u8>,
}

impl Default for Server {
    /// Every server draws the same numbers, so that a simulation repeats.
    fn default() -> Self {
        Self::seeded(1)
    }
}

impl Server {
    /// A server whose random numbers begin at that seed.
    pub(in super::super) fn seeded(seed: u64) -> Self {
        Self {
            keys: Keyspace::default(),
            channels: Channels::default(),
            micros: 0,
            #[cfg(test)]
            behind: 0,
            far: Far::Nowhere,
            outbox: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Sets the time that the next script sees and removes keys past their deadlines.
    pub(in super::super) fn begin(&mut self, micros: i64) {
        debug_assert!(self.outbox.is_empty());
        #[cfg(test)]
        let micros = micros - self.behind;
        // Two threads may read the clock in one order and get here in the other.
        self.micros = self.micros.max(micros);
        let now = self.now();
        self.keys.purge(now);
    }

    /// Sets the clock back, as nothing but a test does: deadlines stay, so that keys live for longer by as much.
    #[cfg(test)]
    pub(in super::super) fn set_back(&mut self, by: std::time::Duration) {
        let by = i64::try_from(by.as_micros()).unwrap_or(i64::MAX);
        self.behind += by;
        self.micros -= by;
    }

    pub(in super::super) fn now(&self) -> Millis {
        self.micros / 1000
    }

    pub(in super::super) fn micros(&self) -> i64 {
        self.micros
    }

    /// A source of random numbers, another one each time.
    pub(in super::super) fn random(&mut self) -> fastrand::Rng {
        self.random.fork()
    }

    /// Sets how many listen to each of these channels in other processes.
    #[cfg(target_os = "linux")]
    pub(in super::super) fn set_far(&mut self, counts: Vec<(Vec<u8>, usize)>) {
        let missing = Vec::new();
        self.far = Far::Counted { counts, missing };
    }

    /// The channels that were published on without being counted: the replies of `PUBLISH` to the script may be wrong.
    #[cfg(target_os = "linux")]
    pub(in super::super) fn missing_channels(&self) -> &[Vec<u8>] {
        match &self.far {
            Far::Nowhere => &[],
            Far::Counted { missing, .. } => missing,
        }
    }

    /// Keeps a message until the script has ended; returns how many will get it.
    pub(in super::super) fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        self.outbox.push(Message {
            channel: channel.to_vec(),
            payload: payload.to_vec(),
        });
        self.channels.count(channel) + self.far.count(channel)
    }

    /// What was published since [`Server::begin`].
    pub(in super::super) fn take_outbox(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.outbox)
    }

    /// Each published message, for each of its listeners.
    pub(in super::super) fn take_mail(&mut self) -> Vec<(Arc<dyn Listener>, Signal)> {
        let outbox = self.take_outbox();
        outbox
            .iter()
            .flat_map(|message| self.mail_of(message))
            .collect()
    }

    /// Whether a message has listeners here.
    #[cfg(target_os = "linux")]
    pub(in super::super) fn has_listeners(&self, message: &Message) -> bool {
        self.channels.count(&message.channel) > 0
    }

    /// A message, for each of its listeners here.
    pub(in super::super) fn mail_of(
        &self,
        message: &Message,
    ) -> impl Iterator<Item = (Arc<dyn Listener>, Signal)> {
        let payload = &message.payload;
        self.channels
            .listeners(&message.channel)
            .map(|listener| (listener, Signal::Message(payload.clone())))
    }
}

impl Far {
    fn count(&mut self, channel: &[u8]) -> usize {
        match self {
            #[cfg(target_os = "linux")]
            Far::Counted { counts, missing } => {
                let counted = counts.iter().find(|(of, _)| of == channel);
                if counted.is_none() && !missing.iter().any(|of| of == channel) {
                    missing.push(channel.to_vec());
                }
                counted.map_or(0, |(_, count)| *count)
            }
            Far::Nowhere => 0,
        }
    }
}
