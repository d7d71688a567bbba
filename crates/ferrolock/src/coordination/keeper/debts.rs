//! Releases that are owed, and when each is tried.
//!
//! A state machine without I/O and clock; `T` stands for what is owed. Two kinds: a release whose answer stayed out,
//! done when it is answered; and the field of an acquire whose outcome is unknown, which may still run late, so its
//! release is repeated on a fixed schedule for two leases whatever the answers say.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use crate::engine::Tick;

/// After the first try, at these times; then every third of the lease.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(7),
];

/// What is owed, by number.
#[derive(Debug)]
pub(crate) struct Debts<T> {
    entries: HashMap<u64, Debt<T>>,
    timers: BTreeSet<(Tick, u64)>,
    next_id: u64,
}

#[derive(Debug)]
struct Debt<T> {
    what: T,
    kind: Owing,
    tries: usize,
    /// A try is under way, perhaps waiting for a connection.
    trying: bool,
    third: Duration,
    until: Tick,
    timer: Tick,
}

/// When a debt is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owing {
    /// With its first answer.
    Release,
    /// When two leases have passed: the acquire may run late.
    LateAcquire,
}

impl<T: Clone> Debts<T> {
    pub(crate) fn new() -> Self {
        Self {
            entries: HashMap::new(),
            timers: BTreeSet::new(),
            next_id: 1,
        }
    }

    /// Owes a release from now on; the first try is due at once.
    pub(crate) fn owe(&mut self, now: Tick, what: T, kind: Owing, lease: Duration) {
        let id = self.next_id;
        self.next_id += 1;
        let until = now.after(match kind {
            Owing::Release => lease,
            Owing::LateAcquire => lease * 2,
        });
        self.entries.insert(
            id,
            Debt {
                what,
                kind,
                tries: 0,
                trying: false,
                third: lease / 3,
                until,
                timer: now,
            },
        );
        self.timers.insert((now, id));
    }

    /// What is to be tried now. Each comes again later unless it is paid.
    pub(crate) fn due(&mut self, now: Tick) -> Vec<(u64, T)> {
        let mut due = Vec::new();
        while let Some(&(at, id)) = self.timers.first() {
            if at > now {
                break;
            }
            self.timers.pop_first();
            let Some(debt) = self.entries.get_mut(&id) else {
                continue;
            };
            if now > debt.until {
                self.entries.remove(&id);
                continue;
            }
            let pause = PAUSES.get(debt.tries).copied().unwrap_or(debt.third);
            let trying = std::mem::replace(&mut debt.trying, true);
            debt.tries += 1;
            debt.timer = now.after(pause);
            self.timers.insert((debt.timer, id));
            if !trying {
                due.push((id, debt.what.clone()));
            }
        }
        due
    }

    /// A try ended without an answer.
    pub(crate) fn unanswered(&mut self, id: u64) {
        if let Some(debt) = self.entries.get_mut(&id) {
            debt.trying = false;
        }
    }

    /// When it is not owed any more.
    pub(crate) fn until(&self, id: u64) -> Option<Tick> {
        self.entries.get(&id).map(|debt| debt.until)
    }

    /// A try was answered.
    pub(crate) fn answered(&mut self, id: u64) {
        self.unanswered(id);
        if self
            .entries
            .get(&id)
            .is_some_and(|debt| debt.kind == Owing::Release)
        {
            self.forget(id);
        }
    }

    /// It is not owed any more.
    fn forget(&mut self, id: u64) {
        if let Some(debt) = self.entries.remove(&id) {
            self.timers.remove(&(debt.timer, id));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn next(&self) -> Option<Tick> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos((100 + seconds) * 1_000_000_000)
    }

    /// The seconds at which a debt is tried, if nobody answers or if everybody does.
    fn tries(kind: Owing, answered: bool) -> Vec<u64> {
        let mut debts = Debts::new();
        debts.owe(at(0), "field", kind, LEASE);
        let mut seconds = Vec::new();
        for second in 0..200 {
            for (id, _) in debts.due(at(second)) {
                seconds.push(second);
                if answered {
                    debts.answered(id);
                } else {
                    debts.unanswered(id);
                }
            }
        }
        assert_eq!((debts.len(), debts.next()), (0, None));
        seconds
    }

    #[test]
    fn a_late_acquire_is_released_again_and_again_for_two_leases() {
        assert_eq!(
            tries(Owing::LateAcquire, true),
            [0, 1, 3, 10, 20, 30, 40, 50, 60]
        );
        assert_eq!(
            tries(Owing::LateAcquire, false),
            [0, 1, 3, 10, 20, 30, 40, 50, 60]
        );
    }

    #[test]
    fn a_release_is_tried_until_it_is_answered_or_the_lease_is_over() {
        assert_eq!(tries(Owing::Release, true), [0]);
        assert_eq!(tries(Owing::Release, false), [0, 1, 3, 10, 20, 30]);
    }

    #[test]
    fn a_try_that_waits_for_a_connection_is_not_doubled() {
        let mut debts = Debts::new();
        debts.owe(at(0), "field", Owing::LateAcquire, LEASE);

        assert_eq!(debts.due(at(0)).len(), 1);
        assert_eq!(debts.due(at(5)).len(), 0);
        debts.unanswered(1);
        assert_eq!(debts.due(at(20)).len(), 1);
    }
}
