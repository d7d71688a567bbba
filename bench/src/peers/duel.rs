//! Two sides of a comparison: warmed up, then measured in turns.

use super::meter::{Commands, Spent, commands_per_operation, spend};
use crate::rounds::{Turns, micros_since, now};
use crate::stage::Stage;
use std::time::Duration;

/// One of the two that are compared.
pub(crate) trait Side {
    /// Works for about that long.
    fn work(&mut self, time: Duration) -> Work;

    /// Processor time of its processes so far.
    fn cpu(&self) -> Duration;
}

/// What a side did in a round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work {
    /// In the unit of the row.
    pub(crate) value: f64,
    pub(crate) operations: f64,
}

/// A comparison: its texts, and how long it takes.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) what: String,
    /// The name of the side that ours is compared with.
    pub(crate) rival: &'static str,
    pub(crate) unit: &'static str,
    /// The operation that the costs are for.
    pub(crate) operation: &'static str,
    pub(crate) better: Better,
    pub(crate) rounds: usize,
    pub(crate) round: Duration,
    pub(crate) warm_up: Limits,
}

/// Which values of a row are the better ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    Higher,
    Lower,
}

/// How long a rival is warmed up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) least: Duration,
    /// The end, even if it still gets better.
    pub(crate) most: Duration,
    pub(crate) step: Duration,
}

impl Limits {
    /// Of a warm-up that takes at least that long.
    pub(crate) fn of(stage: &Stage, least: Duration) -> Self {
        let quick = Duration::from_millis(500).min(least);
        let least = stage.scaled(least, quick);
        Self {
            least,
            most: least * 4,
            step: stage.round(Duration::from_secs(4)),
        }
    }
}

/// How the rival warmed up.
#[derive(Debug, Default)]
pub(crate) struct WarmUp {
    pub(crate) seconds: f64,
    /// The value of each step.
    pub(crate) values: Vec<f64>,
    /// Whether it no longer got better at the end.
    pub(crate) is_over: bool,
}

/// All rounds of a side, and its costs.
#[derive(Debug)]
pub(crate) struct Record {
    /// Per operation.
    pub(crate) commands: Commands,
    pub(crate) rounds: Vec<Spent>,
}

/// The results of a comparison.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) plan: Plan,
    pub(crate) warm_up: WarmUp,
    pub(crate) ours: Record,
    pub(crate) rivals: Record,
    /// Rounds with a counter under the lock: which sides took part, and the final count.
    pub(crate) exact: Vec<(String, u64)>,
}

/// Warms both up, counts their commands, and measures them in turns.
pub(crate) fn duel(stage: &Stage, plan: Plan, ours: &mut dyn Side, rival: &mut dyn Side) -> Row {
    ours.work(plan.round);
    rival.work(plan.round);
    let warm_up = warm_up(&plan, rival);
    let [mut ours_rounds, mut rivals_rounds] = [Vec::new(), Vec::new()];
    for round in 0..plan.rounds {
        // Neither is always the first.
        for turn in [round % 2, (round + 1) % 2] {
            match turn {
                0 => ours_rounds.push(spend(&stage.server, ours, plan.round)),
                _ => rivals_rounds.push(spend(&stage.server, rival, plan.round)),
            }
        }
    }
    let commands = |side| commands_per_operation(&stage.server, side, plan.round);
    let row = Row {
        ours: Record {
            commands: commands(ours),
            rounds: ours_rounds,
        },
        rivals: Record {
            commands: commands(rival),
            rounds: rivals_rounds,
        },
        plan,
        warm_up,
        exact: Vec::new(),
    };
    for (who, side) in [("ours", &row.ours), (row.plan.rival, &row.rivals)] {
        eprintln!("  {who}: {:?}, {:?}", side.values(), side.commands);
    }
    row
}

fn warm_up(plan: &Plan, rival: &mut dyn Side) -> WarmUp {
    let limits = plan.warm_up;
    let mut warm_up = WarmUp::default();
    let begun = now();
    while warm_up.seconds < limits.least.as_secs_f64()
        || !warm_up.is_over && warm_up.seconds < limits.most.as_secs_f64()
    {
        warm_up.values.push(rival.work(limits.step).value);
        warm_up.is_over = has_settled(&warm_up.values, plan.better);
        warm_up.seconds = micros_since(begun) / 1e6;
    }
    eprintln!("  warm-up of {}: {:?}", plan.rival, warm_up.values);
    warm_up
}

/// Whether the best of the last steps is at most 3 % better than the best before them.
fn has_settled(values: &[f64], better: Better) -> bool {
    /// So many that a few slow seconds of the machine do not look like the end of the warm-up.
    const LAST: usize = 5;
    const HARDLY: f64 = 1.03;
    let Some(before) = values.len().checked_sub(LAST).filter(|before| *before > 0) else {
        return false;
    };
    let best = |values: &[f64]| {
        let speed = |value: &f64| match better {
            Better::Higher => *value,
            Better::Lower => 1.0 / *value,
        };
        values.iter().map(speed).fold(0.0, f64::max)
    };
    best(&values[before..]) <= best(&values[..before]) * HARDLY
}

impl Record {
    pub(crate) fn values(&self) -> Vec<f64> {
        self.rounds.iter().map(|round| round.work.value).collect()
    }

    /// Microseconds of the server's processor time per operation.
    pub(crate) fn server_cpu(&self) -> f64 {
        self.per_operation(|round| round.server_cpu)
    }

    /// Microseconds of the client's processor time per operation.
    pub(crate) fn client_cpu(&self) -> f64 {
        self.per_operation(|round| round.client_cpu)
    }

    /// Over all rounds together: the system counts processor time in steps that are long compared with a round's.
    fn per_operation(&self, cost: impl Fn(&Spent) -> f64) -> f64 {
        let operations: f64 = self.rounds.iter().map(|round| round.work.operations).sum();
        self.rounds.iter().map(cost).sum::<f64>() / operations
    }
}

impl Row {
    pub(crate) fn turns(&self) -> Turns {
        Turns {
            ours: self.ours.values(),
            reference: self.rivals.values(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_is_warm_when_it_no_longer_gets_better() {
        let settled = |values: &[f64]| has_settled(values, Better::Higher);

        assert!(!settled(&[100.0, 100.0, 100.0]));
        assert!(!settled(&[10.0, 20.0, 40.0, 80.0]));
        assert!(!settled(&[10.0, 80.0, 40.0, 40.0, 40.0, 40.0, 90.0]));
        assert!(settled(&[10.0, 80.0, 81.0, 79.0, 82.0, 70.0, 81.0]));
    }

    #[test]
    fn a_rival_whose_times_still_fall_is_not_warm() {
        let settled = |values: &[f64]| has_settled(values, Better::Lower);

        assert!(!settled(&[90.0, 50.0, 30.0, 20.0]));
        assert!(settled(&[90.0, 20.0, 21.0, 20.0, 23.0, 25.0, 20.0]));
    }
}
