//! From a release in one process to running in another, both of one side.
//!
//! Two processes in turns, as in [`lock::handover`](crate::lock::handover): here neither is the benchmark itself, so that
//! the processor time of both sides can be told.

use super::Stage;
use super::duel::{Better, Plan, Row, Side, Work, duel};
use super::party::{Party, Whose, figure};
use crate::lock::handover::settle;
use crate::lock::redisson::channel;
use crate::reference::{connect, one_thread};
use crate::rounds::median;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use std::time::Duration;
use testkit::Server;
use tokio::runtime::Runtime;

const NAME: &str = "handed";

pub(crate) fn measure(stage: &Stage) -> Vec<Row> {
    let plan = Plan {
        what: "p50 from release in one process to running in another".to_owned(),
        rival: Whose::Redisson.name(),
        unit: " µs",
        operation: "hand-off",
        better: Better::Lower,
        rounds: stage.rounds(15),
        round: stage.round(Duration::from_secs(1)),
        warm_up: stage.warm_up(Duration::from_secs(40)),
    };
    let mut ours = Handoff::new(Whose::Ours, &stage.server);
    let mut rival = Handoff::new(Whose::Redisson, &stage.server);
    vec![duel(stage, plan, &mut ours, &mut rival)]
}

/// Two processes, of which one holds the lock while a round lasts.
struct Handoff<'a> {
    server: &'a Server,
    party: Party,
    /// What keeps the server awake while a waiter settles, the same for both sides.
    pinging: Runtime,
    connection: MultiplexedConnection,
}

impl<'a> Handoff<'a> {
    fn new(whose: Whose, server: &'a Server) -> Self {
        let pinging = one_thread();
        Self {
            server,
            party: Party::start(whose, 2, server),
            connection: pinging.block_on(connect(server)),
            pinging,
        }
    }

    /// Hands the lock from one to the other; how long that took, in microseconds.
    fn hand_over(&mut self, from: usize, to: usize) -> f64 {
        let waiting = self.party.begin_one(to, "take", asked());
        self.pinging
            .block_on(settle(&mut self.connection, &mut Vec::new()));
        self.server.wait_for_subscribers(&channel(NAME), 1);
        let left = self.party.ask_one(from, "leave", asked());
        let taken = self.party.answer_of(to, waiting);
        (figure(&taken, "at_ns") - figure(&left, "at_ns")) as f64 / 1e3
    }
}

fn asked() -> Value {
    json!({"thread": "one", "object": {"kind": "lock", "name": NAME}})
}

impl Side for Handoff<'_> {
    fn work(&mut self, time: Duration) -> Work {
        /// With its time to settle.
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
