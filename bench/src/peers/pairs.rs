//! Pairs without waiters: one worker on one name, and many workers on many names.

use super::duel::{Better, Limits, Plan, Row, Side, Work, duel};
use super::party::{Party, Whose, figure};
use crate::stage::Stage;
use serde_json::json;
use std::time::Duration;

const NAMES: usize = 10_000;

pub(crate) fn one(stage: &Stage) -> Row {
    let plan = Plan {
        what: "p50 of an uncontended pair, one worker".to_owned(),
        unit: " µs",
        better: Better::Lower,
        ..plan(stage)
    };
    compare(stage, plan, 1, 1)
}

pub(crate) fn workers_64(stage: &Stage) -> Row {
    many(stage, 64)
}

pub(crate) fn workers_256(stage: &Stage) -> Row {
    many(stage, 256)
}

fn many(stage: &Stage, workers: usize) -> Row {
    let plan = Plan {
        what: format!("pairs/s of {workers} workers on {NAMES} names"),
        unit: "/s",
        better: Better::Higher,
        rounds: stage.rounds(9),
        round: stage.round(Duration::from_secs(2)),
        ..plan(stage)
    };
    compare(stage, plan, workers, NAMES)
}

fn plan(stage: &Stage) -> Plan {
    Plan {
        what: String::new(),
        rival: Whose::Redisson.name(),
        unit: "",
        operation: "pair",
        better: Better::Higher,
        rounds: stage.rounds(11),
        round: stage.round(Duration::from_secs(1)),
        warm_up: Limits::of(stage, Duration::from_secs(20)),
    }
}

fn compare(stage: &Stage, plan: Plan, workers: usize, names: usize) -> Row {
    let start = |whose| Pairs {
        party: Party::start(whose, 1, &stage.server),
        workers,
        names,
        better: plan.better,
    };
    let (mut ours, mut rival) = (start(Whose::Ours), start(Whose::Redisson));
    duel(stage, plan, &mut ours, &mut rival)
}

/// One process with that number of workers.
struct Pairs {
    party: Party,
    workers: usize,
    names: usize,
    better: Better,
}

impl Side for Pairs {
    fn work(&mut self, time: Duration) -> Work {
        let asked = json!({
            "workers": self.workers,
            "prefix": "pairs/",
            "names": self.names,
            "for_ms": time.as_millis() as u64,
        });
        let answer = self.party.ask_one(0, "pairs", asked);
        let pairs = figure(&answer, "pairs") as f64;
        Work {
            value: match self.better {
                Better::Higher => pairs * 1e9 / figure(&answer, "elapsed_ns") as f64,
                Better::Lower => figure(&answer, "p50_ns") as f64 / 1e3,
            },
            operations: pairs,
        }
    }

    fn cpu(&self) -> Duration {
        self.party.cpu()
    }
}
