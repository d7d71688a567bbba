//! What a client knows of each name: its holders and waiters in this client.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use tokio::sync::Notify;

use crate::coordination::crowd::{Crowd, Owned};
use crate::coordination::holding::count::ReleaseEnd;
use crate::coordination::number_hash::ByNumber;
use crate::coordination::waiting::Request;
use crate::coordination::waiting::driver::Driver;
use crate::coordination::waiting::first::Begun;
use crate::coordination::{Core, Tenure};
use crate::engine::{Subscription, Tick};
use crate::error::{Error, ErrorCause, Result};
use crate::owner::Owner;
use crate::protocol::scheme::{OwnHold, Sibling, Subject};

/// All names that calls of this client hold or wait for.
#[derive(Debug, Default)]
pub(crate) struct Names {
    entries: ByNumber<Subject, NameEntry>,
}

/// One name.
#[derive(Debug)]
pub(super) struct NameEntry {
    tenures: Crowd<Arc<Tenure>>,
    /// The waiters. Kept for a while after the last one, for what it knows about other processes that wait.
    pub(super) driver: Option<Box<Driver<Arc<Request>>>>,
    pub(super) subscription: Option<Subscription>,
    /// A task runs the driver.
    pub(super) driven: bool,
    /// Releases of ours that are not answered yet.
    releases: u32,
    /// The caller whose own future makes the first attempt. If there are waiters as well, it is just reading the answer, and
    /// they wait for that.
    pub(crate) first: Option<Arc<Request>>,
    /// Callers of a shared kind, each of which makes its first attempt by itself, with that tenure.
    alone: Crowd<Alone>,
    /// A first attempt that the driver's task takes over, for the waiter with that number in the line.
    pub(super) goes_on: Option<(u64, Begun)>,
    /// Tenures whose first acquire is not answered yet.
    attempting: Crowd<Arc<Tenure>>,
    /// Wakes the driver's task.
    news: Option<Arc<Notify>>,
}

/// A caller that makes its first attempt by itself, and the tenure of that attempt.
type Alone = (Arc<Request>, Arc<Tenure>);

impl Owned for Arc<Tenure> {
    fn owner(&self) -> &Owner {
        &self.owner
    }
}

impl Owned for Alone {
    fn owner(&self) -> &Owner {
        &self.0.owner
    }
}

impl NameEntry {
    fn new() -> Self {
        Self {
            tenures: Crowd::new(),
            driver: None,
            first: None,
            alone: Crowd::new(),
            goes_on: None,
            subscription: None,
            driven: false,
            releases: 0,
            attempting: Crowd::new(),
            news: None,
        }
    }

    fn is_empty(&self) -> bool {
        let held = !self.tenures.is_empty() || !self.attempting.is_empty();
        !held
            && self.first.is_none()
            && self.alone.is_empty()
            && self.driver.is_none()
            && self.releases == 0
            && !self.driven
    }

    /// Whether that task has a hold on the name, and would wait for itself.
    pub(crate) fn is_held_in(&self, task: tokio::task::Id) -> bool {
        self.tenures.iter().any(|tenure| tenure.is_held_in(task))
    }

    pub(super) fn releases(&self) -> u32 {
        self.releases
    }

    fn attempt_ended(&mut self, tenure: &Arc<Tenure>) {
        let is_it = |other: &Arc<Tenure>| Arc::ptr_eq(other, tenure);
        self.attempting.remove(&tenure.owner, is_it);
    }

    /// Whether the field with that number holds the name here, or asks for it outside of the driver's line.
    pub(super) fn has_field(&self, number: u64) -> bool {
        let mut tenures = self.tenures.iter().chain(self.attempting.iter());
        let first = self.first.as_ref().and_then(|first| first.number());
        first == Some(number) || tenures.any(|tenure| tenure.id.number() == number)
    }

    /// What wakes the driver's task.
    pub(super) fn news(&mut self) -> &Arc<Notify> {
        self.news.get_or_insert_default()
    }

    /// Wakes the driver's task, if there is one.
    pub(super) fn tell_driver(&self) {
        if let Some(news) = &self.news {
            news.notify_one();
        }
    }

    /// The first attempt of the caller has ended, if `ended` returns true for it: from now on the driver may send attempts.
    pub(super) fn first_ended(&mut self, ended: impl FnOnce(&Arc<Request>) -> bool) {
        if self.first.take_if(|first| ended(first)).is_some() {
            self.tell_driver();
        }
    }

    /// A tenure ended.
    pub(crate) fn tenure_ended(&mut self, tenure: &Arc<Tenure>) {
        let is_it = |other: &Arc<Tenure>| Arc::ptr_eq(other, tenure);
        self.tenures.remove(&tenure.owner, is_it);
    }

    /// A release of ours was answered, or has become a debt.
    pub(super) fn release_ended(&mut self, core: &Core, end: ReleaseEnd) {
        self.releases = self.releases.saturating_sub(1);
        if let Some(driver) = &mut self.driver {
            driver.release_ended(core.now(), end, core.engine.round_trip());
        }
        self.tell_driver();
    }

    /// Whether a caller waits in its line.
    fn is_waited_for(&self) -> bool {
        self.driver
            .as_ref()
            .is_some_and(|driver| !driver.is_empty())
    }

    /// Whether a caller of a shared kind may ask for itself: no other waits before it (but for those that yield to what it
    /// does not mind), none of our releases is in its way, and its owner is not inside.
    fn is_open_to(&self, request: &Request) -> bool {
        let is_shared = request.scheme.waiting().is_shared && self.first.is_none();
        let waits = |other: &Arc<Request>| request.scheme.yields() || !other.scheme.yields();
        let driver = self.driver.as_ref();
        let is_before = driver.is_some_and(|driver| driver.find(waits).is_some());
        let is_open = is_shared && self.releases == 0 && !is_before;
        is_open && self.live_tenure(&request.owner).is_none()
    }

    /// The tenure that `owner` can enter again.
    pub(crate) fn live_tenure(&self, owner: &Owner) -> Option<Arc<Tenure>> {
        let tenure = self.tenures.find(owner, |tenure| tenure.is_enterable());
        tenure.cloned()
    }
}

impl Names {
    pub(super) fn entry(&mut self, subject: &Subject) -> &mut NameEntry {
        self.entries
            .entry(subject.clone())
            .or_insert_with(NameEntry::new)
    }

    pub(super) fn entry_if_any(&mut self, subject: &Subject) -> Option<&mut NameEntry> {
        self.entries.get_mut(subject)
    }

    pub(crate) fn live_tenure(&self, subject: &Subject, owner: &Owner) -> Option<Arc<Tenure>> {
        self.entries.get(subject)?.live_tenure(owner)
    }

    /// Whether the caller can make its first attempt by itself: no call of this client holds the name, waits for it or makes
    /// an attempt, or they do not mind.
    pub(super) fn is_open_to(&self, request: &Request) -> bool {
        let entry = self.entries.get(request.scheme.subject());
        entry.is_none_or(|entry| entry.is_open_to(request))
    }

    /// Fails if the request would wait for a hold of its own owner, in the sibling line.
    pub(super) fn check_own_hold(&self, request: &Request) -> Result<()> {
        let (subject, owner) = (request.scheme.subject(), &request.owner);
        let blocks = |sibling: &&Sibling| {
            let is_inside = |subject| self.live_tenure(subject, owner).is_some();
            let may_block = sibling.own_hold == OwnHold::Blocks;
            may_block && is_inside(&sibling.subject) && !is_inside(subject)
        };
        match request.scheme.sibling().filter(blocks) {
            Some(_) => Err(Error::new(ErrorCause::WouldDeadlock).of(request.scheme.name())),
            None => Ok(()),
        }
    }

    /// Whether a caller waits in that line.
    pub(super) fn is_waited_for(&self, subject: &Subject) -> bool {
        self.entries
            .get(subject)
            .is_some_and(NameEntry::is_waited_for)
    }

    /// Whether a call of this client holds that name, waits for it or makes an attempt.
    pub(super) fn is_known(&self, subject: &Subject) -> bool {
        self.entries.contains_key(subject)
    }

    /// The caller's own future makes the first attempt, with that tenure. False: others come before it.
    pub(crate) fn claim_first(&mut self, request: &Arc<Request>, tenure: &Arc<Tenure>) -> bool {
        let entry = match self.entries.entry(request.scheme.subject().clone()) {
            Entry::Vacant(place) => place.insert(NameEntry::new()),
            Entry::Occupied(place) if place.get().is_open_to(request) => place.into_mut(),
            Entry::Occupied(_) => return false,
        };
        entry.attempting.push(tenure.clone());
        match request.scheme.waiting().is_shared {
            true => entry.alone.push((request.clone(), tenure.clone())),
            false => entry.first = Some(request.clone()),
        }
        true
    }

    /// The caller's own future no longer makes the first attempt.
    pub(super) fn clear_first(&mut self, request: &Arc<Request>) {
        self.change(request.scheme.subject(), |entry| {
            entry.first_ended(|first| Arc::ptr_eq(first, request));
            let is_its = |(other, _): &Alone| Arc::ptr_eq(other, request);
            entry.alone.remove(&request.owner, is_its);
        });
    }

    /// An attempt is about to be sent.
    pub(crate) fn attempt_begins(&mut self, tenure: &Arc<Tenure>) {
        self.entry(tenure.scheme.subject())
            .attempting
            .push(tenure.clone());
    }

    /// The attempt was answered, or is given up.
    pub(crate) fn attempt_ended(&mut self, tenure: &Arc<Tenure>) {
        self.change(tenure.scheme.subject(), |entry| entry.attempt_ended(tenure));
    }

    /// Every acquire that is not answered yet, handed over to the keeper.
    pub(super) fn hand_attempts_over(&self) -> Vec<Arc<Tenure>> {
        let entries = self.entries.values();
        let attempts = entries.flat_map(|entry| entry.attempting.iter());
        attempts
            .inspect(|tenure| tenure.first.hand_over())
            .cloned()
            .collect()
    }

    /// A grant came. True: there may be waiters here, and those of its owner have yet to enter with it.
    pub(crate) fn tenure_began(&mut self, tenure: &Arc<Tenure>) -> bool {
        let sibling = tenure.scheme.sibling();
        let is_awaited_beside = sibling.is_some_and(|other| self.is_waited_for(&other.subject));
        let entry = self.entry(tenure.scheme.subject());
        entry.tenures.push(tenure.clone());
        entry.attempt_ended(tenure);
        let is_its = |(_, other): &Alone| Arc::ptr_eq(other, tenure);
        entry.alone.remove(&tenure.owner, is_its);
        let is_awaited = entry.driver.is_some() || is_awaited_beside;
        if !is_awaited {
            entry.first.take_if(|first| first.owner == tenure.owner);
        }
        is_awaited
    }

    /// Changes the entry of a name, if there is one, and removes it when no call holds or wants the name.
    pub(super) fn change(&mut self, subject: &Subject, f: impl FnOnce(&mut NameEntry)) {
        if let Some(entry) = self.entries.get_mut(subject) {
            f(entry);
            if entry.is_empty() {
                self.entries.remove(subject);
            }
        }
    }

    /// A release of ours is about to be sent: attempts wait for its answer.
    pub(super) fn release_begins(&mut self, subject: &Subject, now: Tick) {
        let entry = self.entry(subject);
        entry.releases += 1;
        if let Some(driver) = &mut entry.driver {
            driver.release_begins(now);
        }
    }

    /// Names that are known here.
    #[cfg(test)]
    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Every tenure of this client.
    pub(crate) fn tenures(&self) -> Vec<Arc<Tenure>> {
        self.entries
            .values()
            .flat_map(|entry| entry.tenures.iter().cloned())
            .collect()
    }

    /// Takes all waiters out of the lines. They are failed when the table is unlocked: their wakers are foreign code.
    #[must_use]
    pub(super) fn take_waiters(&mut self) -> Vec<Arc<Request>> {
        let mut waiters = Vec::new();
        for entry in self.entries.values_mut() {
            let drivers = entry.driver.iter_mut();
            waiters.extend(drivers.flat_map(|driver| driver.take(|_| true)));
            waiters.extend(entry.first.clone());
            waiters.extend(entry.alone.iter().map(|(request, _)| request.clone()));
            entry.tell_driver();
        }
        waiters
    }
}
