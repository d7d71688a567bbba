//! Which hold is due for what, and when.
//!
//! A state machine without I/O and clock. `H` stands for a hold; the shell gives it meaning. One timer per hold: the
//! nearest of what it waits for.
//!
//! | a hold is | waits for | then |
//! |---|---|---|
//! | offered | the end of its offer: 1 s, or a third of the lease | given back: its caller did not take it |
//! | kept, fixed lease | its deadline | lost |
//! | kept, renewed | the next renewal (a third of the lease, up to a tenth earlier: on a grid, where holds with the same interval meet), or its deadline | asked for, or lost |
//! | kept, renewal under way | the renewal's limit (the command limit, or a sixth of the lease), or its deadline | tried again after a thirtieth of the lease, every other time over the spare connection; or lost |
//! | kept, the call it shared was refused | nothing | asked for at once, alone until it is confirmed |

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::coordination::keeper::batch::Grid;
use crate::coordination::number_hash::ByNumber;
use crate::engine::Tick;
use crate::options::Terms;

/// Holds by number, and their timers in order.
#[derive(Debug)]
pub(super) struct Watch<H> {
    entries: ByNumber<u64, Entry<H>>,
    timers: BTreeSet<(Tick, u64)>,
    grid: Grid,
    /// How many renewed holds have which lease.
    leases: BTreeMap<Duration, usize>,
    next_id: u64,
}

#[derive(Debug)]
struct Entry<H> {
    hold: H,
    terms: Terms,
    deadline: Tick,
    phase: WatchPhase,
    /// How many renewals failed or hung since the last confirmed one.
    troubles: u32,
    /// Its renewal goes out alone until one is confirmed.
    alone: bool,
    timer: Tick,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchPhase {
    /// Until when.
    Offered(Tick),
    /// The next renewal; `None`: a fixed lease.
    Kept(Option<Tick>),
    /// Until when it may take.
    Renewing(Tick),
}

/// Something to do for a hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due<H> {
    /// Its caller did not take it; it is no longer watched.
    OfferOver(H),
    /// Ask the server to keep it.
    Renew(Renewal<H>),
    /// Its deadline has passed; it is no longer watched.
    Over(H),
}

/// A renewal that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Renewal<H> {
    pub(crate) id: u64,
    pub(super) hold: H,
    /// How many tries before it failed or hung.
    pub(super) troubles: u32,
    /// It shares its call with no other.
    pub(super) alone: bool,
}

impl<H: Clone> Watch<H> {
    pub(super) fn new(grid: Grid) -> Self {
        Self {
            entries: ByNumber::default(),
            timers: BTreeSet::new(),
            grid,
            leases: BTreeMap::new(),
            next_id: 1,
        }
    }

    /// A grant is offered to its caller until `until`.
    pub(crate) fn offer(&mut self, hold: H, terms: Terms, deadline: Tick, until: Tick) -> u64 {
        self.add(hold, terms, deadline, WatchPhase::Offered(until))
    }

    /// A hold that its caller has, which is kept from now on.
    pub(crate) fn keep(&mut self, hold: H, terms: Terms, deadline: Tick, sent: Tick) -> u64 {
        let phase = kept(self.grid, &terms, sent);
        self.add(hold, terms, deadline, phase)
    }

    fn add(&mut self, hold: H, terms: Terms, deadline: Tick, phase: WatchPhase) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let timer = phase.next().min(deadline);
        let entry = Entry {
            hold,
            terms,
            deadline,
            phase,
            troubles: 0,
            alone: false,
            timer,
        };
        if terms.renew_every.is_some() {
            *self.leases.entry(terms.lease).or_default() += 1;
        }
        self.entries.insert(id, entry);
        self.timers.insert((timer, id));
        id
    }

    fn remove(&mut self, id: u64) -> Option<Entry<H>> {
        let entry = self.entries.remove(&id)?;
        self.timers.remove(&(entry.timer, id));
        if entry.terms.renew_every.is_some()
            && let Some(count) = self.leases.get_mut(&entry.terms.lease)
        {
            *count -= 1;
            if *count == 0 {
                self.leases.remove(&entry.terms.lease);
            }
        }
        Some(entry)
    }

    /// The shortest lease of those that are renewed.
    pub(super) fn shortest_lease(&self) -> Option<Duration> {
        self.leases.first_key_value().map(|(lease, _)| *lease)
    }

    /// The caller has it: it is kept from now on, as `hold`. Returns what was offered; `None`: it is no longer watched.
    pub(crate) fn accept(&mut self, id: u64, hold: H, sent: Tick) -> Option<H> {
        let entry = self.entries.get_mut(&id)?;
        entry.phase = kept(self.grid, &entry.terms, sent);
        let offered = std::mem::replace(&mut entry.hold, hold);
        self.arm(id);
        Some(offered)
    }

    /// It is given back. True: a renewal of it is under way.
    pub(crate) fn forget(&mut self, id: u64) -> bool {
        self.remove(id)
            .is_some_and(|entry| matches!(entry.phase, WatchPhase::Renewing(_)))
    }

    /// A renewal sent at `sent` was confirmed; `deadline` is what follows from it.
    pub(crate) fn renewed(&mut self, id: u64, sent: Tick, deadline: Tick) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.deadline = entry.deadline.max(deadline);
            entry.troubles = 0;
            entry.alone = false;
            entry.phase = kept(self.grid, &entry.terms, sent);
        }
        self.arm(id);
    }

    /// A renewal failed: the next follows soon.
    pub(crate) fn failed(&mut self, id: u64, now: Tick) {
        if let Some(entry) = self.entries.get_mut(&id)
            && matches!(entry.phase, WatchPhase::Renewing(_))
        {
            entry.troubles += 1;
            entry.phase = WatchPhase::Kept(Some(now.after(entry.terms.lease / 30)));
        }
        self.arm(id);
    }

    /// The call that it shared was refused, perhaps because of another hold: it is tried alone, at once.
    pub(crate) fn part(&mut self, id: u64, now: Tick) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.alone = true;
            if matches!(entry.phase, WatchPhase::Renewing(_)) {
                entry.phase = WatchPhase::Kept(Some(now));
            }
        }
        self.arm(id);
    }

    /// A renewal goes out now, at its time or because there is a connection again. False: the hold is no longer watched, or
    /// its deadline has passed.
    pub(crate) fn start_renewal(&mut self, id: u64, now: Tick, command_limit: Duration) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else {
            return false;
        };
        if now >= entry.deadline {
            return false;
        }
        if matches!(entry.phase, WatchPhase::Kept(_)) {
            let limit = command_limit.min(entry.terms.lease / 6);
            entry.phase = WatchPhase::Renewing(now.after(limit));
            self.arm(id);
        }
        true
    }

    /// Its deadline was moved by its guard.
    pub(crate) fn extended(&mut self, id: u64, deadline: Tick) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.deadline = entry.deadline.max(deadline);
        }
        self.arm(id);
    }

    /// What is due at `now`, at most `most` entries: the rest stays due. A renewal that is returned is under way from now on,
    /// for at most `command_limit`.
    pub(super) fn due(
        &mut self,
        now: Tick,
        most: usize,
        command_limit: impl Fn(&H) -> Duration,
    ) -> Vec<Due<H>> {
        let mut due = Vec::new();
        while let Some(&(at, id)) = self.timers.first() {
            if at > now || due.len() >= most {
                break;
            }
            self.timers.pop_first();
            due.extend(self.due_of(id, now, &command_limit));
        }
        due
    }

    fn due_of(
        &mut self,
        id: u64,
        now: Tick,
        command_limit: &impl Fn(&H) -> Duration,
    ) -> Option<Due<H>> {
        let entry = self.entries.get_mut(&id)?;
        if now >= entry.deadline {
            return self.remove(id).map(|entry| Due::Over(entry.hold));
        }
        match entry.phase {
            WatchPhase::Offered(until) if until <= now => {
                self.remove(id).map(|entry| Due::OfferOver(entry.hold))
            }
            WatchPhase::Kept(Some(at)) if at <= now => {
                let limit = command_limit(&entry.hold).min(entry.terms.lease / 6);
                entry.phase = WatchPhase::Renewing(now.after(limit));
                let due = Renewal {
                    id,
                    hold: entry.hold.clone(),
                    troubles: entry.troubles,
                    alone: entry.alone,
                };
                self.arm(id);
                Some(Due::Renew(due))
            }
            WatchPhase::Renewing(until) if until <= now => {
                self.failed(id, now);
                None
            }
            _ => {
                self.arm(id);
                None
            }
        }
    }

    pub(crate) fn is_watched(&self, id: u64) -> bool {
        self.entries.contains_key(&id)
    }

    /// All watched holds for which `of` returns true.
    pub(super) fn holds(&self, of: impl Fn(&H) -> bool) -> Vec<H> {
        self.entries
            .values()
            .map(|entry| &entry.hold)
            .filter(|hold| of(hold))
            .cloned()
            .collect()
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Tick> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn arm(&mut self, id: u64) {
        let Some(entry) = self.entries.get_mut(&id) else {
            return;
        };
        self.timers.remove(&(entry.timer, id));
        entry.timer = entry.phase.next().min(entry.deadline);
        self.timers.insert((entry.timer, id));
    }
}

impl WatchPhase {
    fn next(self) -> Tick {
        match self {
            WatchPhase::Offered(at) | WatchPhase::Renewing(at) | WatchPhase::Kept(Some(at)) => at,
            WatchPhase::Kept(None) => Tick::FAR,
        }
    }
}

/// Kept since the lease that was asked for at `sent`.
fn kept(grid: Grid, terms: &Terms, sent: Tick) -> WatchPhase {
    WatchPhase::Kept(terms.renew_every.map(|every| grid.after(sent, every)))
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
