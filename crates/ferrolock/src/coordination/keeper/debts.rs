//! Releases that are owed, and when each is tried.
//!
//! A state machine without I/O and clock; `T` stands for what is owed. Two kinds: a release whose answer stayed out,
//! done when it is answered; and the field of an acquire whose outcome is unknown, which may still run late, so its
//! release is repeated until one has found the field (an acquire is sent once, so it cannot run after that), or two
//! leases have passed. A field under which several attempts were made is released until two leases have passed, whatever
//! is found. A new connection brings the next try forward.
//!
//! Tries come at once, after 1, 3 and 10 s, then regularly: a release every 10 s, until the longest lease that the
//! server was asked for is over and the tenure leaves; a field every third of its lease, and at least every 10 s.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::coordination::number_hash::ByNumber;
use crate::engine::Tick;

/// The pauses after the first tries; then they are regular.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(7),
];
/// The longest pause between two tries: other clients may wait for the name.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The pause while a process waits to end until the field is gone.
const PAUSE_BRISK: Duration = Duration::from_millis(10);

/// What is owed, by number.
#[derive(Debug)]
pub(super) struct Debts<T> {
    entries: ByNumber<u64, Debt<T>>,
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
    /// Until then tries follow each other quickly.
    brisk_until: Tick,
    until: Tick,
    timer: Tick,
}

/// When a debt is paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owing {
    /// With its first answer; no longer owed when the server has ended the lease itself.
    Release { until: Tick },
    /// When a release has found the field, or two leases have passed: the acquire may run late.
    LateAcquire { lease: Duration },
    /// When two leases have passed: several attempts were made under the field, and another one may run late.
    LateAttempts { lease: Duration },
}

impl Owing {
    fn until(self, now: Tick) -> Tick {
        match self {
            Owing::Release { until } => until.max(now),
            Owing::LateAcquire { lease } | Owing::LateAttempts { lease } => now.after(lease * 2),
        }
    }

    fn pause(self, tries: usize) -> Duration {
        let regular = match self {
            Owing::Release { .. } => PAUSE_MAX,
            Owing::LateAcquire { lease } | Owing::LateAttempts { lease } => {
                (lease / 3).min(PAUSE_MAX)
            }
        };
        PAUSES.get(tries).copied().unwrap_or(regular)
    }
}

/// What the answer to a release says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReleaseFound {
    /// The field was there, and is gone now.
    Field,
    Nothing,
}

/// What is to be done about a debt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DebtDue<T> {
    /// Comes again later unless it is paid.
    Try(u64, T),
    /// Its time is over; it is no longer owed.
    Over(T),
}

impl<T: Clone> Debts<T> {
    pub(super) fn new() -> Self {
        Self {
            entries: ByNumber::default(),
            timers: BTreeSet::new(),
            next_id: 1,
        }
    }

    /// Owes a release from now on; the first try is due at once. Tries follow each other quickly until `brisk_until`: a process
    /// waits for it before it ends.
    pub(super) fn owe(&mut self, now: Tick, what: T, kind: Owing, brisk_until: Tick) {
        let id = self.next_id;
        self.next_id += 1;
        let debt = Debt {
            what,
            kind,
            tries: 0,
            trying: false,
            brisk_until,
            until: kind.until(now),
            timer: now,
        };
        self.entries.insert(id, debt);
        self.timers.insert((now, id));
    }

    /// A process waits for these before it ends: they are tried at once, and quickly until then.
    pub(super) fn be_brisk(&mut self, now: Tick, until: Tick, of: impl Fn(&T) -> bool) -> Vec<T> {
        let mut brisk = Vec::new();
        for (id, debt) in &mut self.entries {
            if of(&debt.what) {
                debt.brisk_until = until;
                self.timers.remove(&(debt.timer, *id));
                debt.timer = now;
                self.timers.insert((now, *id));
                brisk.push(debt.what.clone());
            }
        }
        brisk
    }

    /// What is to be tried now, and what is over.
    pub(super) fn due(&mut self, now: Tick) -> Vec<DebtDue<T>> {
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
                due.extend(
                    self.entries
                        .remove(&id)
                        .map(|debt| DebtDue::Over(debt.what)),
                );
                continue;
            }
            let trying = std::mem::replace(&mut debt.trying, true);
            let is_brisk = now < debt.brisk_until;
            let pause = match is_brisk {
                true => PAUSE_BRISK,
                false => debt.kind.pause(debt.tries),
            };
            debt.timer = match now.after(pause) {
                next if next <= debt.until => next,
                _ => debt.until.after(Duration::from_nanos(1)),
            };
            debt.tries += usize::from(!is_brisk);
            self.timers.insert((debt.timer, id));
            if !trying {
                due.push(DebtDue::Try(id, debt.what.clone()));
            }
        }
        due
    }

    /// There is a new connection: debts for which `of` returns true are tried at once.
    pub(super) fn hurry(&mut self, now: Tick, of: impl Fn(&T) -> bool) {
        for (id, debt) in &mut self.entries {
            if of(&debt.what) && !debt.trying && debt.timer > now {
                self.timers.remove(&(debt.timer, *id));
                debt.timer = now;
                self.timers.insert((now, *id));
            }
        }
    }

    /// Takes out the debts for which `of` returns true: they are no longer owed.
    pub(super) fn take(&mut self, of: impl Fn(&T) -> bool) -> Vec<T> {
        let timers = &mut self.timers;
        self.entries
            .extract_if(|_, debt| of(&debt.what))
            .map(|(id, debt)| {
                timers.remove(&(debt.timer, id));
                debt.what
            })
            .collect()
    }

    /// A try ended without an answer.
    pub(crate) fn unanswered(&mut self, id: u64) {
        if let Some(debt) = self.entries.get_mut(&id) {
            debt.trying = false;
        }
    }

    /// Until when it is owed.
    pub(crate) fn until(&self, id: u64) -> Option<Tick> {
        self.entries.get(&id).map(|debt| debt.until)
    }

    /// A try was answered. Returns the debt if it is paid; to be dropped when no lock is held.
    #[must_use]
    pub(crate) fn answered(&mut self, id: u64, found: ReleaseFound) -> Option<T> {
        self.unanswered(id);
        match (self.entries.get(&id)?.kind, found) {
            (Owing::LateAcquire { .. }, ReleaseFound::Nothing)
            | (Owing::LateAttempts { .. }, _) => None,
            (Owing::LateAcquire { .. }, ReleaseFound::Field) | (Owing::Release { .. }, _) => {
                let debt = self.entries.remove(&id)?;
                self.timers.remove(&(debt.timer, id));
                Some(debt.what)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn count(&self, of: impl Fn(&T) -> bool) -> usize {
        self.entries.values().filter(|debt| of(&debt.what)).count()
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn next(&self) -> Option<Tick> {
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

    const LATE_ACQUIRE: Owing = Owing::LateAcquire { lease: LEASE };

    fn release(seconds: u64) -> Owing {
        let until = at(seconds);
        Owing::Release { until }
    }

    /// The seconds at which a debt is tried, if no try is answered or if each is, and when it is over.
    fn tries(kind: Owing, answered: bool) -> (Vec<u64>, Option<u64>) {
        let (seconds, over) = tries_until(kind, 200, answered);
        assert!(over.is_some() || answered, "{kind:?} is still owed");
        (seconds, over)
    }

    fn tries_until(kind: Owing, last: u64, answered: bool) -> (Vec<u64>, Option<u64>) {
        let mut debts = Debts::new();
        debts.owe(at(0), "field", kind, Tick::ZERO);
        let (mut seconds, mut over) = (Vec::new(), None);
        for second in 0..=last {
            for due in debts.due(at(second)) {
                match due {
                    DebtDue::Over(_) => over = Some(second),
                    DebtDue::Try(id, _) if answered => {
                        seconds.push(second);
                        let _ = debts.answered(id, ReleaseFound::Nothing);
                    }
                    DebtDue::Try(id, _) => {
                        seconds.push(second);
                        debts.unanswered(id);
                    }
                }
            }
        }
        assert_eq!(debts.len(), usize::from(debts.next().is_some()));
        (seconds, over)
    }

    #[test]
    fn a_late_acquire_is_released_again_and_again_for_two_leases() {
        let schedule = vec![0, 1, 3, 10, 20, 30, 40, 50, 60];

        assert_eq!(tries(LATE_ACQUIRE, true), (schedule.clone(), Some(61)));
        assert_eq!(tries(LATE_ACQUIRE, false), (schedule, Some(61)));
    }

    #[test]
    fn a_release_is_tried_until_it_is_answered_or_the_lease_is_over() {
        assert_eq!(tries(release(30), true), (vec![0], None));
        let schedule = vec![0, 1, 3, 10, 20, 30];
        assert_eq!(tries(release(30), false), (schedule, Some(31)));
        assert_eq!(tries(release(2), false), (vec![0, 1], Some(3)));
    }

    #[test]
    fn however_long_the_lease_a_release_is_tried_every_ten_seconds() {
        let (tries, over) = tries(release(150), false);

        assert!(tries.windows(2).all(|pair| pair[1] - pair[0] <= 10));
        assert_eq!((tries.last(), over), (Some(&150), Some(151)));
    }

    #[test]
    fn however_long_the_lease_a_late_acquire_is_released_every_ten_seconds() {
        let lease = Duration::from_secs(3600);

        let (tries, _) = tries_until(Owing::LateAcquire { lease }, 200, false);

        assert!(tries.windows(2).all(|pair| pair[1] - pair[0] <= 10));
        assert_eq!(tries.last(), Some(&200));
    }

    #[test]
    fn a_late_acquire_whose_field_was_found_is_paid() {
        let mut debts = Debts::new();
        debts.owe(at(0), "field", LATE_ACQUIRE, Tick::ZERO);
        assert_eq!(debts.due(at(0)), [DebtDue::Try(1, "field")]);

        assert_eq!(debts.answered(1, ReleaseFound::Field), Some("field"));

        assert_eq!((debts.len(), debts.next()), (0, None));
    }

    #[test]
    fn a_field_of_several_attempts_is_released_for_two_leases_whatever_is_found() {
        let mut debts = Debts::new();
        let late = Owing::LateAttempts { lease: LEASE };
        debts.owe(at(0), "field", late, Tick::ZERO);
        assert_eq!(debts.due(at(0)), [DebtDue::Try(1, "field")]);

        assert_eq!(debts.answered(1, ReleaseFound::Field), None);

        assert_eq!(debts.due(at(1)), [DebtDue::Try(1, "field")]);
        assert_eq!(debts.until(1), Some(at(60)));
    }

    #[test]
    fn a_process_that_wants_to_end_has_quick_tries_and_then_the_usual_ones() {
        let mut debts = Debts::new();
        let ms = |millis| at(0).after(Duration::from_millis(millis));
        debts.owe(at(0), "field", LATE_ACQUIRE, ms(250));

        let mut tries = Vec::new();
        for millis in 0..4000 {
            for due in debts.due(ms(millis)) {
                assert_eq!(due, DebtDue::Try(1, "field"));
                tries.push(millis);
                assert_eq!(debts.answered(1, ReleaseFound::Nothing), None);
            }
        }

        let quick: Vec<u64> = (0..=25).map(|n| n * 10).collect();
        assert_eq!(tries[..26], quick);
        assert_eq!(tries[26..], [1250, 3250]);
    }

    #[test]
    fn a_try_that_waits_for_a_connection_is_not_doubled() {
        let mut debts = Debts::new();
        debts.owe(at(0), "field", LATE_ACQUIRE, Tick::ZERO);

        assert_eq!(debts.due(at(0)).len(), 1);
        debts.hurry(at(4), |_| true);
        assert_eq!(debts.due(at(5)).len(), 0);
        debts.unanswered(1);
        assert_eq!(debts.due(at(20)).len(), 1);
    }

    #[test]
    fn a_new_connection_brings_the_next_try_forward() {
        let mut debts = Debts::new();
        debts.owe(at(0), "ours", LATE_ACQUIRE, Tick::ZERO);
        debts.owe(at(0), "theirs", LATE_ACQUIRE, Tick::ZERO);
        debts.due(at(10));
        for id in [1, 2] {
            assert_eq!(debts.answered(id, ReleaseFound::Nothing), None);
        }

        debts.hurry(at(10), |what| *what == "ours");

        assert_eq!(debts.due(at(10)), [DebtDue::Try(1, "ours")]);
        assert_eq!(debts.next(), Some(at(11)));
    }

    #[test]
    fn a_debt_that_was_taken_out_is_not_tried_again() {
        let mut debts = Debts::new();
        debts.owe(at(0), "ours", LATE_ACQUIRE, Tick::ZERO);
        debts.owe(at(0), "theirs", LATE_ACQUIRE, Tick::ZERO);

        assert_eq!(debts.take(|what| *what == "ours"), ["ours"]);

        assert_eq!(debts.due(at(0)), [DebtDue::Try(2, "theirs")]);
    }

    #[test]
    fn debts_are_counted_and_each_has_its_own_end() {
        let mut debts = Debts::new();
        debts.owe(at(0), "field", LATE_ACQUIRE, Tick::ZERO);
        debts.owe(at(0), "hold", release(30), Tick::ZERO);

        assert_eq!(debts.len(), 2);
        let ends = [1, 2, 3].map(|id| debts.until(id));
        assert_eq!(ends, [Some(at(60)), Some(at(30)), None]);
    }
}
