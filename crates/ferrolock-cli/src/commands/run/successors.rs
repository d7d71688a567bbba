//! When a shim that was killed is replaced by another; no I/O.

use std::time::Duration;

use crate::clock::Moment;

/// The pause after a shim that died at once; doubled from one to the next.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// The pause must not be long: if we are killed in it, no process ends the command's children.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// A shim that has lived that long is replaced at once again.
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// The first successor is started at once; if each dies as soon as it is started, the pauses between them grow.
#[derive(Debug)]
pub(super) struct Successors {
    last: Moment,
    pause: Duration,
}

impl Successors {
    /// The successors of a shim that was started just now.
    pub(super) fn of_one_started(now: Moment) -> Self {
        Self {
            last: now,
            pause: Duration::ZERO,
        }
    }

    /// If the present shim is dead, the next one is not started before this.
    pub(super) fn due(&self) -> Moment {
        self.last.after(self.pause)
    }

    /// To be called when the next one is started, or the system refuses it.
    pub(super) fn tried(&mut self, now: Moment) {
        let has_lived = now.since(self.last) >= GOOD_LIFE;
        self.pause = match has_lived {
            true => PAUSE_MIN,
            false => (self.pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Moment = Moment::from_nanos(1_000_000_000_000);

    /// The times between the starts of shims that die at once, in milliseconds.
    fn pauses(successors: &mut Successors, count: usize) -> Vec<u128> {
        (0..count)
            .map(|_| {
                let (before, due) = (successors.last, successors.due());
                successors.tried(due);
                due.since(before).as_millis()
            })
            .collect()
    }

    #[test]
    fn the_first_successor_is_started_at_once_and_the_pauses_grow_then() {
        let mut successors = Successors::of_one_started(START);

        let pauses = pauses(&mut successors, 10);

        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn a_shim_that_has_lived_for_a_minute_is_replaced_at_once() {
        let mut successors = Successors::of_one_started(START);
        pauses(&mut successors, 10);

        let dies = successors.last.after(GOOD_LIFE);

        assert!(successors.due() < dies);
        successors.tried(dies);
        assert_eq!(pauses(&mut successors, 2), [50, 100]);
    }
}
