//! Figures of many rounds, and the clocks for them.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the clock that all processes of this machine share.
pub(crate) fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Nanoseconds of processor time that this process has used.
pub(crate) fn own_cpu() -> u64 {
    nanos(ClockId::ProcessCPUTime)
}

fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Microseconds from `begun` to now.
pub(crate) fn micros_since(begun: u64) -> f64 {
    (now() - begun) as f64 / 1e3
}

/// The median.
pub(crate) fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 {
        sorted[middle]
    } else {
        (sorted[middle - 1] + sorted[middle]) / 2.0
    }
}

/// The same thing measured in two ways, in turns.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    pub(crate) ours: Vec<f64>,
    pub(crate) reference: Vec<f64>,
}

impl Turns {
    pub(crate) fn push(&mut self, ours: f64, reference: f64) {
        self.ours.push(ours);
        self.reference.push(reference);
    }

    pub(crate) fn ours(&self) -> f64 {
        median(&self.ours)
    }

    pub(crate) fn reference(&self) -> f64 {
        median(&self.reference)
    }

    /// The median of the rounds' own ratios: both sides of each were measured within the same second.
    pub(crate) fn ratio(&self) -> f64 {
        median(&self.ratios())
    }

    /// The two values between which the middle half of the rounds' own ratios lies.
    pub(crate) fn spread(&self) -> [f64; 2] {
        let mut sorted = self.ratios();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len() - 1;
        [sorted[last / 4], sorted[last - last / 4]]
    }

    fn ratios(&self) -> Vec<f64> {
        let both = self.ours.iter().zip(&self.reference);
        both.map(|(ours, reference)| ours / reference).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_the_sorted_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_ratio_is_the_median_of_the_ratios_of_each_round() {
        let turns = Turns {
            ours: vec![2.0, 20.0, 6.0],
            reference: vec![1.0, 10.0, 2.0],
        };

        assert_eq!(turns.ratio(), 2.0);
    }

    #[test]
    fn the_spread_is_that_of_the_middle_half() {
        let turns = Turns {
            ours: vec![9.0, 1.0, 2.0, 3.0, 4.0],
            reference: vec![1.0; 5],
        };

        assert_eq!(turns.spread(), [2.0, 4.0]);
    }
}
