//! Who goes first between processes.
//!
//! A message reaches all processes in a fixed order, so without courtesy the same one would win every time. Whoever
//! released last, or knows of several others, or knows nothing yet, waits a random moment before its attempt.

use std::time::Duration;

/// The random pause: two round trips, within these bounds.
const PAUSE_MIN: Duration = Duration::from_micros(100);
const PAUSE_MAX: Duration = Duration::from_millis(2);

/// What our own last release of a name told about the competition for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Courtesy {
    /// We have not released it yet.
    Stranger,
    /// Ours was the last release; so many other processes heard of it.
    JustLeft { others: u64 },
    /// Somebody else has had it since.
    Waiting { others: u64 },
}

impl Courtesy {
    /// How long to let others go first after a release.
    pub(crate) fn pause(self, round_trip: Duration, random: &mut fastrand::Rng) -> Duration {
        let steps_back = match self {
            Courtesy::Stranger => true,
            Courtesy::JustLeft { others } => others > 0,
            Courtesy::Waiting { others } => others > 1,
        };
        if !steps_back {
            return Duration::ZERO;
        }
        (round_trip * 2)
            .clamp(PAUSE_MIN, PAUSE_MAX)
            .mul_f64(random.f64())
    }

    /// The same for a newcomer: only who comes again right after its own release steps back.
    pub(crate) fn on_return(self, round_trip: Duration, random: &mut fastrand::Rng) -> Duration {
        match self {
            Courtesy::JustLeft { others: 1.. } => self.pause(round_trip, random),
            _ => Duration::ZERO,
        }
    }

    pub(crate) fn we_release(&mut self) {
        if let Courtesy::Waiting { others } = *self {
            *self = Courtesy::JustLeft { others };
        }
    }

    pub(crate) fn somebody_else_has_it(&mut self) {
        if let Courtesy::JustLeft { others } = *self {
            *self = Courtesy::Waiting { others };
        }
    }
}
