//! From a release in one process to running in another, both of one side.
//!
//! Two processes in turns, as in [`lock::handover`](crate::lock::handover). Here neither is the benchmark itself, and no PINGs
//! are sent meanwhile, so that the processor time of both ends can be measured.

use super::duel::{Better, Limits, Plan, Row, Side, Work, duel};
use super::party::{Party, Whose, figure};
use crate::lock::redisson::channel;
use crate::rounds::median;
use crate::stage::Stage;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::{Connection, Reply, Server};

const NAME: &str = "handed";
/// Hand-offs are too rare to warm a JVM up: before them its processes contend for this time.
const CONTENDED: Duration = Duration::from_secs(40);
/// A waiter has subscribed, attempted once more and gone to sleep before this is over.
const SETTLED: Duration = Duration::from_millis(10);

pub(crate) fn measure(stage: &Stage) -> Row {
    let plan = Plan {
        what: "p50 from release in one process to running in another".to_owned(),
        rival: Whose::Redisson.name(),
        unit: " µs",
        operation: "hand-off",
        better: Better::Lower,
        rounds: stage.rounds(15),
        round: stage.round(Duration::from_secs(1)),
        warm_up: Limits::of(stage, Duration::from_secs(20)),
    };
    let mut ours = Handoff::new(Whose::Ours, &stage.server);
    let mut rival = Handoff::new(Whose::Redisson, &stage.server);
    rival.contend(stage.round(CONTENDED));
    duel(stage, plan, &mut ours, &mut rival)
}

/// Two processes, one of which holds the lock at any time of a round.
struct Handoff {
    party: Party,
    /// To see that a waiter has settled.
    look: Connection,
}

impl Handoff {
    fn new(whose: Whose, server: &Server) -> Self {
        Self {
            party: Party::start(whose, 2, server),
            look: server.connect(),
        }
    }

    fn contend(&mut self, time: Duration) {
        let mut asked = asked();
        asked["workers"] = json!(1);
        asked["for_ms"] = json!(time.as_millis() as u64);
        self.party.ask("contend", &asked);
    }

    /// Hands the lock from one to the other; returns how long that took, in microseconds.
    fn hand_over(&mut self, from: usize, to: usize) -> f64 {
        let waiting = self.party.begin_one(to, "take", asked());
        std::thread::sleep(SETTLED);
        while !self.is_waited_for() {
            std::thread::sleep(SETTLED);
        }
        let left = self.party.ask_one(from, "leave", asked());
        let taken = self.party.answer_of(to, waiting);
        (figure(&taken, "at_ns") - figure(&left, "at_ns")) as f64 / 1e3
    }

    fn is_waited_for(&mut self) -> bool {
        let counted = self.look.command(&["PUBSUB", "NUMSUB", &channel(NAME)]);
        matches!(counted.list().last(), Some(Reply::Int(1..)))
    }
}

fn asked() -> Value {
    json!({"thread": "one", "object": {"kind": "lock", "name": NAME}})
}

impl Side for Handoff {
    fn work(&mut self, time: Duration) -> Work {
        /// The time of a hand-over, with the time to settle.
        const EACH: Duration = Duration::from_millis(12);
        let there_and_back = time.as_millis().div_ceil(2 * EACH.as_millis());
        let mut took = Vec::new();
        self.party.ask_one(0, "take", asked());
        for _ in 0..there_and_back {
            took.push(self.hand_over(0, 1));
            took.push(self.hand_over(1, 0));
        }
        self.party.ask_one(0, "leave", asked());
        Work {
            value: median(&took),
            operations: took.len() as f64,
        }
    }

    fn cpu(&self) -> Duration {
        self.party.cpu()
    }
}
