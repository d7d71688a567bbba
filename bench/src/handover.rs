//! From a release in one process to running in another.
//!
//! Two processes take turns: one holds, the other waits; the one that holds writes down the time, unlocks, and the
//! other writes down the time when it has the lock. Then it is the holder. While a waiter settles, the PINGs are
//! measured: the server is as awake for the one as for the other.

use crate::reference::{connect, one_thread, pings};
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, now};
use ferrolock::{Client, Guard, Lock};
use redis::aio::MultiplexedConnection;
use testkit::process::{Child, Role};
use testkit::{LIMIT, Server};
use tokio::task::JoinHandle;

const ROUNDS: usize = 15;
/// Hand-overs of a round; half of them in each direction.
const PER_ROUND: usize = 20;
const NAME: &str = "handover";
/// A waiter has subscribed, asked once more and gone to sleep long before this is over: nanoseconds.
const SETTLED: u64 = 10_000_000;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let turns = one_thread().block_on(turns(server));
    vec![Row {
        what: "p50 from release in one process to running in another ÷ p50 of a PING".to_owned(),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must: Must::AtMost(5.0),
    }]
}

async fn turns(server: &Server) -> Turns {
    let client = Client::connect(server.url()).await.unwrap();
    let mut pair = Pair {
        lock: client.lock(NAME),
        connection: connect(server).await,
        peer: Child::again("handover", &[&server.url()]),
        pings: Vec::new(),
        took: Vec::new(),
    };
    let mut guard = pair.lock.lock().await.unwrap();
    let mut turns = Turns::default();
    for round in 0..=ROUNDS {
        for _ in 0..PER_ROUND / 2 {
            guard = pair.there_and_back(guard).await;
        }
        let (took, pings) = (median(&pair.took), median(&pair.pings));
        pair.took.clear();
        pair.pings.clear();
        // The first round warms up.
        if round > 0 {
            turns.push(took, pings);
        }
    }
    turns
}

/// The two processes, and what was measured in a round, in microseconds.
struct Pair {
    lock: Lock,
    connection: MultiplexedConnection,
    peer: Child,
    pings: Vec<f64>,
    took: Vec<f64>,
}

impl Pair {
    /// One hand-over to the peer and one back.
    async fn there_and_back(&mut self, guard: Guard) -> Guard {
        self.peer.say("wait");
        assert_eq!(self.peer.hear(LIMIT), "waiting");
        self.settle().await;
        let released = now();
        guard.unlock().await.unwrap();
        let running: u64 = self.peer.hear(LIMIT).parse().unwrap();
        self.took.push((running - released) as f64 / 1e3);

        let waiting = wait_for(&self.lock);
        self.settle().await;
        self.peer.say("release");
        let (guard, running) = waiting.await.unwrap();
        let released: u64 = self.peer.hear(LIMIT).parse().unwrap();
        self.took.push((running - released) as f64 / 1e3);
        guard
    }

    /// Gives whoever waits the time to settle.
    async fn settle(&mut self) {
        let begun = now();
        while now() - begun < SETTLED {
            self.pings.extend(pings(&mut self.connection, 10).await);
        }
    }
}

/// Waits in a task, which writes down when it runs.
fn wait_for(lock: &Lock) -> JoinHandle<(Guard, u64)> {
    let waiting = lock.lock();
    tokio::spawn(async move {
        let guard = waiting.await.unwrap();
        (guard, now())
    })
}

/// The second process.
pub(crate) fn help(role: &Role) {
    let url = &role.args()[0];
    one_thread().block_on(async {
        let client = Client::connect(url).await.unwrap();
        let lock = client.lock(NAME);
        loop {
            assert_eq!(hear(role).await, "wait");
            let waiting = wait_for(&lock);
            role.say("waiting");
            let (guard, running) = waiting.await.unwrap();
            role.say(&running.to_string());
            assert_eq!(hear(role).await, "release");
            let released = now();
            guard.unlock().await.unwrap();
            role.say(&released.to_string());
        }
    });
}

/// Without blocking the runtime: the connections live there.
async fn hear(role: &Role) -> String {
    let role = role.clone();
    let heard = tokio::task::spawn_blocking(move || role.hear());
    heard.await.unwrap()
}
