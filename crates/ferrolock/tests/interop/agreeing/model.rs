//! Predicts which actor holds which lock, and until when. Where the two sides differ on purpose, a comment says so.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrolock::LostReason;

use super::{ACTORS, NAMES, WATCHDOG};

/// Whose rules an actor follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Java,
    Ours,
}

/// The lease that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// As long as it takes: the watchdog's lease.
    Watchdog,
    For(Duration),
}

impl Asked {
    fn lease(self) -> Duration {
        match self {
            Asked::Watchdog => WATCHDOG,
            Asked::For(lease) => lease,
        }
    }
}

/// When something happened, as exactly as the test knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) from: Instant,
    pub(super) to: Instant,
}

impl Span {
    pub(super) fn since(from: Instant) -> Self {
        let to = Instant::now();
        Self { from, to }
    }
}

/// When a lease ends, as exactly as the test knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    earliest: Instant,
    latest: Instant,
}

/// Redis counts in milliseconds, and by another clock.
const GRAIN: Duration = Duration::from_millis(50);

impl Ends {
    fn after(lease: Duration, begun: Span) -> Self {
        Self {
            earliest: begun.from + lease,
            latest: begun.to + lease,
        }
    }

    fn raised_to(self, other: Self) -> Self {
        Self {
            earliest: self.earliest.max(other.earliest),
            latest: self.latest.max(other.latest),
        }
    }

    /// Whether `left` is a correct remaining time at the moment of the look.
    pub(super) fn fits(self, left: Duration, looked: Span) -> bool {
        looked.from + left <= self.latest + GRAIN && looked.to + left + GRAIN >= self.earliest
    }

    /// Whether the lease had not ended at any moment of the span.
    pub(super) fn comes_after(self, span: Span) -> bool {
        span.to + GRAIN < self.earliest
    }
}

/// A lock that an actor holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) who: usize,
    /// The field of the holder on the server.
    pub(super) field: String,
    /// What was asked for with each hold.
    pub(super) holds: Vec<Asked>,
    pub(super) ends: Ends,
}

impl Held {
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.holds.len()).unwrap()
    }
}

/// How an attempt must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chance {
    Granted,
    Busy,
    /// Only our side remembers its holds, and finds them lost.
    Lost(LostReason),
}

#[derive(Debug)]
pub(super) struct Model {
    sides: [Side; ACTORS],
    held: [Option<Held>; NAMES],
    /// Actors (and names) whose holds were forced away, and that do not know it yet.
    robbed: BTreeSet<(usize, usize)>,
    /// The fields of all tenures of ours.
    tenures: BTreeSet<String>,
}

impl Model {
    pub(super) fn new(sides: [Side; ACTORS]) -> Self {
        Self {
            sides,
            held: [const { None }; NAMES],
            robbed: BTreeSet::new(),
            tenures: BTreeSet::new(),
        }
    }

    pub(super) fn held(&self, name: usize) -> Option<&Held> {
        self.held[name].as_ref()
    }

    pub(super) fn is_held_by(&self, who: usize, name: usize) -> bool {
        self.held(name).is_some_and(|held| held.who == who)
    }

    /// How the actor's holds were lost, if they were and the actor does not know it yet.
    pub(super) fn loss(&self, who: usize, name: usize) -> Option<LostReason> {
        self.robbed
            .contains(&(who, name))
            .then(|| match self.held(name) {
                None => LostReason::Removed,
                Some(_) => LostReason::TakenOver,
            })
    }

    pub(super) fn chance(&self, who: usize, name: usize) -> Chance {
        match (self.loss(who, name), self.held(name)) {
            (Some(reason), _) => Chance::Lost(reason),
            (None, Some(held)) if held.who != who => Chance::Busy,
            (None, _) => Chance::Granted,
        }
    }

    /// An actor was granted a lock; `field` is its field on the server.
    pub(super) fn took(
        &mut self,
        (who, name): (usize, usize),
        field: String,
        asked: Asked,
        when: Span,
    ) {
        let ends = Ends::after(asked.lease(), when);
        let side = self.sides[who];
        match &mut self.held[name] {
            Some(held) => {
                assert_eq!((held.who, &held.field), (who, &field));
                held.holds.push(asked);
                held.ends = match side {
                    // W15: a re-entry starts its own lease, even if it is shorter.
                    Side::Java => ends,
                    Side::Ours => held.ends.raised_to(ends),
                };
            }
            free => {
                // A Java thread has the same field each time; a tenure of ours has a new one each time.
                let is_new = side == Side::Java || self.tenures.insert(field.clone());
                assert!(is_new, "{field} was a tenure before");
                *free = Some(Held {
                    who,
                    field,
                    holds: vec![asked],
                    ends,
                });
            }
        }
    }

    /// The holder released one of its holds.
    pub(super) fn left(&mut self, name: usize, hold: usize, when: Span) {
        let held = self.held[name].as_mut().expect("somebody holds it");
        held.holds.remove(hold);
        let renewed = Ends::after(WATCHDOG, when);
        match self.sides[held.who] {
            _ if held.holds.is_empty() => self.held[name] = None,
            // W15: a partial unlock sets the watchdog's lease, whatever the remaining holds were asked for.
            Side::Java => held.ends = renewed,
            Side::Ours if held.holds.contains(&Asked::Watchdog) => {
                held.ends = held.ends.raised_to(renewed);
            }
            Side::Ours => {}
        }
    }

    /// An actor forced the lock open; returns whether it was held.
    pub(super) fn forced(&mut self, name: usize) -> bool {
        let Some(held) = self.held[name].take() else {
            return false;
        };
        if self.sides[held.who] == Side::Ours {
            self.robbed.insert((held.who, name));
        }
        true
    }

    /// The actor found out that its holds were lost.
    pub(super) fn learned(&mut self, who: usize, name: usize) {
        self.robbed.remove(&(who, name));
    }

    /// The lease ended.
    pub(super) fn expired(&mut self, name: usize) {
        self.held[name] = None;
    }
}
