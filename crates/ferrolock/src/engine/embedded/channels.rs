//! Who listens on which channel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::engine::Ear;

/// The ears of every channel, in the order in which they came.
#[derive(Default)]
pub(super) struct Channels {
    ears: BTreeMap<Box<[u8]>, Vec<Listener>>,
    next: u64,
}

struct Listener {
    id: ListenerId,
    ear: Arc<dyn Ear>,
}

/// One subscription: whose it is, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListenerId {
    engine: u64,
    number: u64,
}

impl Channels {
    /// Adds an ear of an engine to a channel.
    pub(super) fn add(&mut self, channel: &[u8], engine: u64, ear: Arc<dyn Ear>) -> ListenerId {
        let number = self.next;
        self.next += 1;
        let id = ListenerId { engine, number };
        self.ears
            .entry(channel.into())
            .or_default()
            .push(Listener { id, ear });
        id
    }

    /// Takes one ear off a channel.
    pub(super) fn remove(&mut self, channel: &[u8], id: ListenerId) {
        if let Some(ears) = self.ears.get_mut(channel) {
            ears.retain(|listener| listener.id != id);
            if ears.is_empty() {
                self.ears.remove(channel);
            }
        }
    }

    /// Takes every ear of an engine off.
    pub(super) fn remove_engine(&mut self, engine: u64) {
        self.ears.retain(|_, ears| {
            ears.retain(|listener| listener.id.engine != engine);
            !ears.is_empty()
        });
    }

    /// How many engines listen on a channel: one with several ears there is one, as a server counts the connections that are
    /// subscribed. Who releases subtracts itself from that count to learn how many others compete.
    pub(super) fn count(&self, channel: &[u8]) -> usize {
        let ears = self.ears.get(channel).into_iter().flatten();
        let engines: BTreeSet<u64> = ears.map(|listener| listener.id.engine).collect();
        engines.len()
    }

    /// The ears of a channel.
    pub(super) fn ears(&self, channel: &[u8]) -> impl Iterator<Item = Arc<dyn Ear>> + '_ {
        self.ears
            .get(channel)
            .into_iter()
            .flatten()
            .map(|listener| listener.ear.clone())
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self
            .ears
            .iter()
            .map(|(channel, ears)| (String::from_utf8_lossy(channel), ears.len()));
        f.debug_map().entries(counts).finish()
    }
}
