//! The listeners of each channel.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::engine::Listener;

/// The listeners of every channel, in the order in which they came.
#[derive(Default)]
pub(in super::super) struct Channels {
    listeners: BTreeMap<Box<[u8]>, Vec<ListenerEntry>>,
    next: u64,
}

struct ListenerEntry {
    id: ListenerId,
    listener: Arc<dyn Listener>,
}

/// One subscription: its engine, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct ListenerId {
    engine: u64,
    number: u64,
}

impl Channels {
    /// Adds a listener of an engine to a channel.
    pub(in super::super) fn add(
        &mut self,
        channel: &[u8],
        engine: u64,
        listener: Arc<dyn Listener>,
    ) -> ListenerId {
        let number = self.next;
        self.next += 1;
        let id = ListenerId { engine, number };
        self.listeners
            .entry(channel.into())
            .or_default()
            .push(ListenerEntry { id, listener });
        id
    }

    /// Takes one listener off a channel.
    pub(in super::super) fn remove(&mut self, channel: &[u8], id: ListenerId) {
        if let Some(listeners) = self.listeners.get_mut(channel) {
            listeners.retain(|entry| entry.id != id);
            if listeners.is_empty() {
                self.listeners.remove(channel);
            }
        }
    }

    /// Takes every listener of an engine off.
    pub(in super::super) fn remove_engine(&mut self, engine: u64) {
        self.listeners.retain(|_, listeners| {
            listeners.retain(|entry| entry.id.engine != engine);
            !listeners.is_empty()
        });
    }

    /// How many engines listen on a channel: one with several listeners counts once, as a server counts the subscribed
    /// connections. A client that releases a lock subtracts itself from that count to learn how many others compete.
    pub(in super::super) fn count(&self, channel: &[u8]) -> usize {
        let listeners = self.listeners.get(channel).into_iter().flatten();
        let engines: BTreeSet<u64> = listeners.map(|entry| entry.id.engine).collect();
        engines.len()
    }

    /// The listeners of a channel.
    pub(in super::super) fn listeners(
        &self,
        channel: &[u8],
    ) -> impl Iterator<Item = Arc<dyn Listener>> + '_ {
        self.listeners
            .get(channel)
            .into_iter()
            .flatten()
            .map(|entry| entry.listener.clone())
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self
            .listeners
            .iter()
            .map(|(channel, listeners)| (String::from_utf8_lossy(channel), listeners.len()));
        f.debug_map().entries(counts).finish()
    }
}
