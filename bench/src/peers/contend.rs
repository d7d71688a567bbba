//! Many that want one lock and release it at once: several processes, or the workers of one.
//!
//! After the timed rounds they count under the lock, each side alone and then both at once, and no count may be missing.

use super::duel::{Better, Limits, Plan, Row, Side, Work, duel};
use super::party::{Party, Whose, sum};
use crate::stage::Stage;
use serde_json::{Value, json};
use std::time::Duration;

const NAME: &str = "contended";
const COUNTER: &str = "count";

/// A JVM compiles the contended paths late, and not at all while it gets too little processor time.
const WARM_UP: Duration = Duration::from_secs(40);

pub(crate) fn processes_2(stage: &Stage) -> Row {
    processes(stage, 2, Whose::Redisson)
}

pub(crate) fn processes_8(stage: &Stage) -> Row {
    processes(stage, 8, Whose::Redisson)
}

pub(crate) fn replay_8(stage: &Stage) -> Row {
    processes(stage, 8, Whose::Replay)
}

pub(crate) fn replay_16(stage: &Stage) -> Row {
    processes(stage, 16, Whose::Replay)
}

fn processes(stage: &Stage, processes: usize, rival: Whose) -> Row {
    let flow = match rival {
        Whose::Replay => " (beside the replay of Redisson's flow)",
        _ => "",
    };
    let what = format!("pairs/s of {processes} processes on one lock{flow}");
    compare(stage, what, processes, 1, rival)
}

pub(crate) fn workers_64(stage: &Stage) -> Row {
    let what = "pairs/s of 64 workers of one process on one lock".to_owned();
    compare(stage, what, 1, 64, Whose::Redisson)
}

fn compare(stage: &Stage, what: String, processes: usize, workers: usize, rival: Whose) -> Row {
    let start = |whose| Contenders {
        party: Party::start(whose, processes, &stage.server),
        workers,
    };
    let (mut ours, mut rivals) = (start(Whose::Ours), start(rival));
    let plan = Plan {
        what,
        rival: rival.name(),
        unit: "/s",
        operation: "pair",
        better: Better::Higher,
        rounds: stage.rounds(9),
        round: stage.round(Duration::from_secs(2)),
        warm_up: Limits::of(
            stage,
            match rival {
                Whose::Redisson => WARM_UP,
                _ => Duration::ZERO,
            },
        ),
    };
    let mut row = duel(stage, plan, &mut ours, &mut rivals);
    row.exact = vec![
        count(stage, &mut [&mut ours]),
        count(stage, &mut [&mut rivals]),
        count(stage, &mut [&mut ours, &mut rivals]),
    ];
    row
}

/// Processes that want the same lock, each with that number of workers.
struct Contenders {
    party: Party,
    workers: usize,
}

impl Contenders {
    fn asked(&self, time: Duration) -> Value {
        json!({
            "workers": self.workers,
            "object": {"kind": "lock", "name": NAME},
            "for_ms": time.as_millis() as u64,
        })
    }
}

impl Side for Contenders {
    fn work(&mut self, time: Duration) -> Work {
        let answers = self.party.ask("contend", &self.asked(time));
        Work {
            value: sum(&answers, "in_time") as f64 / time.as_secs_f64(),
            operations: sum(&answers, "acquisitions") as f64,
        }
    }

    fn cpu(&self) -> Duration {
        self.party.cpu()
    }
}

/// Lets these contend at once and count under the lock; ends the program if a count is missing.
fn count(stage: &Stage, sides: &mut [&mut Contenders]) -> (String, u64) {
    let who = sides.iter().map(|side| side.party.whose.name());
    let who = who.collect::<Vec<_>>().join(" and ");
    let time = stage.round(Duration::from_secs(2));
    stage.server.command(&["DEL", COUNTER]);
    let begun: Vec<_> = sides
        .iter_mut()
        .map(|side| {
            let mut asked = side.asked(time);
            asked["counter"] = json!({"key": COUNTER});
            side.party.begin("contend", &asked)
        })
        .collect();
    let answers = sides.iter_mut().zip(begun);
    let counted: u64 = answers
        .map(|(side, begun)| sum(&side.party.answers(begun), "acquisitions"))
        .sum();
    let there = stage.server.command(&["GET", COUNTER]).text();
    assert_eq!(
        there,
        counted.to_string(),
        "{who}: the counter under the lock is wrong"
    );
    (who, counted)
}
