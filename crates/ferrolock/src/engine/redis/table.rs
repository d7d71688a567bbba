//! Which channels are listened to, and how far each one is. No I/O.
//!
//! | phase | meaning | goes on with |
//! |---|---|---|
//! | wanted | SUBSCRIBE has to be sent on this connection | [`Table::ask`] |
//! | asked | SUBSCRIBE was sent | a confirmation, a refusal |
//! | confirmed | the ear hears | a new connection: wanted again |
//! | postponed | the server refused what it had granted before, or is busy | [`Table::resume`] |

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::{Ear, Failure};

/// The channels of a client.
#[derive(Default)]
pub(super) struct Table {
    /// The connection that phases speak of; none: it will want everything anew, so nothing is queued meanwhile.
    generation: Option<u64>,
    entries: HashMap<Arc<str>, Entry>,
    /// Channels in the phase wanted, and some that have left it since.
    wanted: VecDeque<Arc<str>>,
    /// Nobody listens any more; UNSUBSCRIBE has to be sent.
    leaving: HashSet<Arc<str>>,
    /// UNSUBSCRIBE was sent.
    parting: HashSet<Arc<str>>,
    postponed: usize,
    tickets: u64,
    over: Option<&'static str>,
}

struct Entry {
    /// Tells this listener from an earlier one of the same channel.
    ticket: u64,
    ear: Arc<dyn Ear>,
    phase: Phase,
    /// Whoever waits for the first confirmation.
    waiter: Option<oneshot::Sender<Result<(), Failure>>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Wanted,
    Asked,
    Confirmed,
    Postponed,
}

/// A place in the table, and the news of its first confirmation.
pub(super) struct Entered {
    pub(super) ticket: u64,
    pub(super) confirmed: oneshot::Receiver<Result<(), Failure>>,
}

impl Table {
    /// Adds a listener, in place of an earlier one of that channel.
    pub(super) fn enter(
        &mut self,
        channel: Arc<str>,
        ear: Arc<dyn Ear>,
    ) -> Result<Entered, &'static str> {
        if let Some(why) = self.over {
            return Err(why);
        }
        self.tickets += 1;
        let (waiter, confirmed) = oneshot::channel();
        let entry = Entry {
            ticket: self.tickets,
            ear,
            phase: Phase::Wanted,
            waiter: Some(waiter),
        };
        self.leaving.remove(&channel);
        if self.generation.is_some() {
            self.wanted.push_back(channel.clone());
        }
        self.forget(self.entries.get(&channel).map(|entry| entry.phase));
        self.entries.insert(channel, entry);
        Ok(Entered {
            ticket: self.tickets,
            confirmed,
        })
    }

    /// Takes a listener away, if it is still that one.
    pub(super) fn leave(&mut self, channel: &Arc<str>, ticket: u64) {
        match self.entries.get(channel) {
            Some(entry) if entry.ticket == ticket => {
                self.forget(Some(entry.phase));
                self.entries.remove(channel);
                if self.generation.is_some() {
                    self.leaving.insert(channel.clone());
                }
            }
            _ => {}
        }
    }

    fn forget(&mut self, phase: Option<Phase>) {
        if phase == Some(Phase::Postponed) {
            self.postponed -= 1;
        }
    }

    /// A new connection: nothing is subscribed there.
    pub(super) fn begin(&mut self, generation: u64) {
        self.suspend();
        self.generation = Some(generation);
        self.wanted = self.entries.keys().cloned().collect();
    }

    /// The connection is gone.
    pub(super) fn suspend(&mut self) {
        self.generation = None;
        self.wanted.clear();
        self.leaving.clear();
        self.parting.clear();
        self.postponed = 0;
        for entry in self.entries.values_mut() {
            entry.phase = Phase::Wanted;
        }
    }

    /// The next channels to subscribe to, at most `most`.
    pub(super) fn ask(&mut self, most: usize) -> Vec<Arc<str>> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(channel) = self.wanted.pop_front()
        {
            if let Some(entry) = self.entries.get_mut(&channel)
                && entry.phase == Phase::Wanted
            {
                entry.phase = Phase::Asked;
                batch.push(channel);
            }
        }
        batch
    }

    /// The next channels to unsubscribe from, at most `most`.
    pub(super) fn part(&mut self, most: usize) -> Vec<Arc<str>> {
        let batch: Vec<_> = self.leaving.iter().take(most).cloned().collect();
        for channel in &batch {
            self.leaving.remove(channel);
            self.parting.insert(channel.clone());
        }
        batch
    }

    /// The server confirmed a subscription. Gives the ear that has missed something.
    pub(super) fn confirm(&mut self, generation: u64, channel: &str) -> Option<Arc<dyn Ear>> {
        let entry = self.entry(generation, channel)?;
        if entry.phase != Phase::Asked {
            return None;
        }
        entry.phase = Phase::Confirmed;
        match entry.waiter.take() {
            Some(waiter) => {
                // Whoever does not wait any more takes its entry away itself.
                let _ = waiter.send(Ok(()));
                None
            }
            None => Some(entry.ear.clone()),
        }
    }

    /// The ear of a channel.
    pub(super) fn ear(&mut self, generation: u64, channel: &str) -> Option<Arc<dyn Ear>> {
        let entry = self.entry(generation, channel)?;
        (entry.phase == Phase::Confirmed).then(|| entry.ear.clone())
    }

    fn entry(&mut self, generation: u64, channel: &str) -> Option<&mut Entry> {
        if Some(generation) != self.generation {
            return None;
        }
        self.entries.get_mut(channel)
    }

    /// The server ended a subscription. Gives whether we had asked for it.
    pub(super) fn parted(&mut self, generation: u64, channel: &str) -> bool {
        Some(generation) != self.generation || self.parting.remove(channel)
    }

    /// The server refused a channel: told to whoever waits, tried again later for whoever listened before.
    pub(super) fn refuse(&mut self, channel: &Arc<str>, failure: Failure) {
        let Some(entry) = self.entries.get_mut(channel) else {
            return;
        };
        if entry.phase != Phase::Asked {
            return;
        }
        if let Some(waiter) = entry.waiter.take() {
            let _ = waiter.send(Err(failure));
            self.entries.remove(channel);
        } else {
            self.postpone(channel);
        }
    }

    /// The server cannot subscribe now.
    pub(super) fn postpone(&mut self, channel: &Arc<str>) {
        if let Some(entry) = self.entries.get_mut(channel)
            && entry.phase == Phase::Asked
        {
            entry.phase = Phase::Postponed;
            self.postponed += 1;
        }
    }

    pub(super) fn has_postponed(&self) -> bool {
        self.postponed > 0
    }

    /// Wants again what was postponed.
    pub(super) fn resume(&mut self) {
        self.postponed = 0;
        for (channel, entry) in &mut self.entries {
            if entry.phase == Phase::Postponed {
                entry.phase = Phase::Wanted;
                self.wanted.push_back(channel.clone());
            }
        }
    }

    /// The end of all listening.
    pub(super) fn end(&mut self, why: &'static str) {
        self.over.get_or_insert(why);
        for (_, mut entry) in self.entries.drain() {
            if let Some(waiter) = entry.waiter.take() {
                let _ = waiter.send(Err(super::link::closed(why)));
            }
        }
        self.suspend();
    }
}
