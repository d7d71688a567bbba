//! When a shim that has died is followed by another; no I/O.

use std::time::Duration;

use crate::clock::Moment;

/// After a start that came to nothing; doubled from one to the next.
const PAUSE_MIN: Duration = Duration::from_millis(50);
/// If we are killed meanwhile, no process ends the command's children: it must not be long.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// The next one follows at once again: the present one has lived long enough.
const GOOD_LIFE: Duration = Duration::from_secs(60);

/// The first successor comes at once; where each dies as soon as it is started, the next come ever more slowly.
#[derive(Debug)]
pub(super) struct Successors {
    last: Moment,
    pause: Duration,
}

impl Successors {
    /// Of a shim that was started just now.
    pub(super) fn of_one_started(now: Moment) -> Self {
        Self {
            last: now,
            pause: Duration::ZERO,
        }
    }

    /// Not before it is the next one started, if the present one is dead.
    pub(super) fn due(&self) -> Moment {
        self.last.after(self.pause)
    }

    /// The next one is started now, or the system refuses it.
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
    fn the_first_comes_at_once_and_the_others_ever_more_slowly() {
        let mut successors = Successors::of_one_started(START);

        let pauses = pauses(&mut successors, 10);

        assert_eq!(pauses, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    }

    #[test]
    fn one_that_has_lived_is_followed_at_once() {
        let mut successors = Successors::of_one_started(START);
        pauses(&mut successors, 10);

        let dies = successors.last.after(GOOD_LIFE);

        assert!(successors.due() < dies);
        successors.tried(dies);
        assert_eq!(pauses(&mut successors, 2), [50, 100]);
    }
}
