//! Which channels are listened to, and how far each one is. No I/O.
//!
//! | phase | meaning | goes on with |
//! |---|---|---|
//! | wanted | SUBSCRIBE has to be sent on this connection | [`ChannelTable::ask`] |
//! | asked | SUBSCRIBE was sent | a confirmation, a refusal |
//! | confirmed | its listeners get messages | a new connection: wanted again |
//! | postponed | the server refused a channel that it had granted before, or is busy | [`ChannelTable::resume`], one more listener |
//!
//! The server knows one subscription per channel, this table all its listeners: two kinds of lock may use one channel. The
//! first listener subscribes and the last one unsubscribes.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::engine::{Failure, Listener, Signal};

/// The channels of a client.
#[derive(Default)]
pub(in super::super) struct ChannelTable {
    /// The connection that the phases are about. None: the next one will want everything anew, so nothing is queued meanwhile.
    generation: Option<u64>,
    entries: HashMap<Arc<str>, Channel>,
    /// Channels in the phase wanted, and some that have left it since.
    wanted: VecDeque<Arc<str>>,
    /// The last listener has left; UNSUBSCRIBE has to be sent.
    leaving: HashSet<Arc<str>>,
    /// UNSUBSCRIBE was sent.
    parting: HashSet<Arc<str>>,
    postponed: usize,
    tickets: u64,
    over: Option<&'static str>,
}

/// A channel; it has at least one listener.
struct Channel {
    phase: ChannelPhase,
    /// Its listeners, by their tickets.
    members: BTreeMap<u64, Member>,
}

pub(in super::super) struct Member {
    listener: Arc<dyn Listener>,
    /// Gets the first confirmation, or a refusal. None: it got one, so messages missed from now on are a gap.
    waiter: Option<AnswerSender>,
}

type AnswerSender = oneshot::Sender<Result<(), Failure>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum ChannelPhase {
    Wanted,
    Asked,
    Confirmed,
    Postponed,
}

/// A place in the table, and the receiver of its first confirmation.
pub(in super::super) struct Entered {
    pub(in super::super) ticket: u64,
    pub(in super::super) confirmed: oneshot::Receiver<Result<(), Failure>>,
}

/// What the table has to send to its listeners. It is sent after the table was unlocked, because listeners and wakers run
/// code from outside this module: it may listen or leave right there.
#[derive(Default)]
#[must_use]
pub(in super::super) struct ListenerNews {
    answers: Vec<(AnswerSender, Result<(), Failure>)>,
    gaps: Vec<Arc<dyn Listener>>,
    /// Dropped with the news: dropping a listener runs code from outside this module too.
    gone: Vec<Member>,
}

impl ListenerNews {
    /// Removes a listener; if it waits for its confirmation, it fails with `why`.
    fn part(&mut self, mut member: Member, why: Failure) {
        let waiter = member.waiter.take();
        self.answers.extend(waiter.map(|waiter| (waiter, Err(why))));
        self.gone.push(member);
    }

    pub(in super::super) fn tell(self) {
        for (waiter, answer) in self.answers {
            // A caller that no longer waits removes its listener itself.
            let _ = waiter.send(answer);
        }
        for listener in self.gaps {
            listener.hear(Signal::Gap);
        }
    }
}

impl ChannelTable {
    /// Adds a listener. One that joins a confirmed channel is confirmed at once: the server sends that channel's messages
    /// already, and if they are interrupted, the listener gets a gap.
    pub(in super::super) fn enter(
        &mut self,
        channel: &Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Result<Entered, &'static str> {
        if let Some(why) = self.over {
            return Err(why);
        }
        self.tickets += 1;
        let (waiter, confirmed) = oneshot::channel();
        let before = self.entries.get(channel).map(|entry| entry.phase);
        let entry = self.entries.entry(channel.clone());
        let entry = entry.or_insert_with(|| Channel {
            phase: ChannelPhase::Wanted,
            members: BTreeMap::new(),
        });
        let mut waiter = Some(waiter);
        if before == Some(ChannelPhase::Confirmed) {
            let _ = waiter.take().map(|waiter| waiter.send(Ok(())));
        }
        if before == Some(ChannelPhase::Postponed) {
            // The new listener has to learn now whether the server still refuses.
            entry.phase = ChannelPhase::Wanted;
            self.postponed -= 1;
        }
        if matches!(before, None | Some(ChannelPhase::Postponed)) && self.generation.is_some() {
            self.wanted.push_back(channel.clone());
        }
        entry
            .members
            .insert(self.tickets, Member { listener, waiter });
        self.leaving.remove(channel);
        Ok(Entered {
            ticket: self.tickets,
            confirmed,
        })
    }

    /// Removes a listener, if it is still there. The caller drops it after unlocking the table.
    #[must_use]
    pub(in super::super) fn leave(&mut self, channel: &Arc<str>, ticket: u64) -> Option<Member> {
        let entry = self.entries.get_mut(channel)?;
        let member = entry.members.remove(&ticket)?;
        if entry.members.is_empty() {
            self.postponed -= usize::from(entry.phase == ChannelPhase::Postponed);
            self.entries.remove(channel);
            if self.generation.is_some() {
                self.leaving.insert(channel.clone());
            }
        }
        Some(member)
    }

    /// A new connection: nothing is subscribed there.
    pub(in super::super) fn begin(&mut self, generation: u64) {
        self.suspend();
        self.generation = Some(generation);
        self.wanted = self.entries.keys().cloned().collect();
    }

    /// The connection is gone.
    pub(in super::super) fn suspend(&mut self) {
        self.generation = None;
        self.wanted.clear();
        self.leaving.clear();
        self.parting.clear();
        self.postponed = 0;
        for entry in self.entries.values_mut() {
            entry.phase = ChannelPhase::Wanted;
        }
    }

    /// The next channels to subscribe to, at most `most`.
    pub(in super::super) fn ask(&mut self, most: usize) -> Vec<Arc<str>> {
        let mut batch = Vec::new();
        while batch.len() < most
            && let Some(channel) = self.wanted.pop_front()
        {
            if let Some(entry) = self.entries.get_mut(&channel)
                && entry.phase == ChannelPhase::Wanted
            {
                entry.phase = ChannelPhase::Asked;
                batch.push(channel);
            }
        }
        batch
    }

    /// The next channels to unsubscribe from, at most `most`.
    pub(in super::super) fn part(&mut self, most: usize) -> Vec<Arc<str>> {
        let batch: Vec<_> = self.leaving.iter().take(most).cloned().collect();
        for channel in &batch {
            self.leaving.remove(channel);
            self.parting.insert(channel.clone());
        }
        batch
    }

    /// The server confirmed a subscription: listeners that wait for it are confirmed, the others get a gap.
    pub(in super::super) fn confirm(&mut self, generation: u64, channel: &str) -> ListenerNews {
        let mut news = ListenerNews::default();
        let Some(entry) = self.entry(generation, channel) else {
            return news;
        };
        if entry.phase != ChannelPhase::Asked {
            return news;
        }
        entry.phase = ChannelPhase::Confirmed;
        for member in entry.members.values_mut() {
            match member.waiter.take() {
                Some(waiter) => news.answers.push((waiter, Ok(()))),
                None => news.gaps.push(member.listener.clone()),
            }
        }
        news
    }

    /// The listeners of a channel.
    pub(in super::super) fn listeners(
        &mut self,
        generation: u64,
        channel: &str,
    ) -> Vec<Arc<dyn Listener>> {
        let entry = self.entry(generation, channel);
        entry
            .filter(|entry| entry.phase == ChannelPhase::Confirmed)
            .into_iter()
            .flat_map(|entry| entry.members.values())
            .map(|member| member.listener.clone())
            .collect()
    }

    fn entry(&mut self, generation: u64, channel: &str) -> Option<&mut Channel> {
        if Some(generation) != self.generation {
            return None;
        }
        self.entries.get_mut(channel)
    }

    /// The server ended a subscription. Returns whether we had asked for it.
    pub(in super::super) fn parted(&mut self, generation: u64, channel: &str) -> bool {
        Some(generation) != self.generation || self.parting.remove(channel)
    }

    /// The server refused a channel: listeners that wait for their first confirmation fail; for those that were confirmed
    /// before, the channel is tried again later.
    pub(in super::super) fn refuse(
        &mut self,
        channel: &Arc<str>,
        failure: &Failure,
    ) -> ListenerNews {
        let mut news = ListenerNews::default();
        let Some(entry) = self.entries.get_mut(channel) else {
            return news;
        };
        if entry.phase != ChannelPhase::Asked {
            return news;
        }
        let all = std::mem::take(&mut entry.members).into_iter();
        let (waiting, granted) = all.partition(|(_, member)| member.waiter.is_some());
        entry.members = granted;
        if entry.members.is_empty() {
            self.entries.remove(channel);
        } else {
            self.postpone(channel);
        }
        let waiting: BTreeMap<u64, Member> = waiting;
        for member in waiting.into_values() {
            news.part(member, failure.clone());
        }
        news
    }

    /// The server cannot subscribe now.
    pub(in super::super) fn postpone(&mut self, channel: &Arc<str>) {
        if let Some(entry) = self.entries.get_mut(channel)
            && entry.phase == ChannelPhase::Asked
        {
            entry.phase = ChannelPhase::Postponed;
            self.postponed += 1;
        }
    }

    pub(in super::super) fn has_postponed(&self) -> bool {
        self.postponed > 0
    }

    /// Wants the postponed channels again.
    pub(in super::super) fn resume(&mut self) {
        self.postponed = 0;
        for (channel, entry) in &mut self.entries {
            if entry.phase == ChannelPhase::Postponed {
                entry.phase = ChannelPhase::Wanted;
                self.wanted.push_back(channel.clone());
            }
        }
    }

    /// The end of all listening.
    pub(in super::super) fn end(&mut self, why: &'static str) -> ListenerNews {
        self.over.get_or_insert(why);
        let mut news = ListenerNews::default();
        for (_, entry) in self.entries.drain() {
            for member in entry.members.into_values() {
                news.part(member, super::super::connection::link::closed(why));
            }
        }
        self.suspend();
        news
    }
}
