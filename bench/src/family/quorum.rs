//! The quorum lock: an uncontended pair on five servers, while all of them work and while one or two are stopped.

use crate::reference::one_thread;
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, micros_since, now};
use crate::stage::Stage;
use ferrolock::{Client, Quorum, QuorumLock};
use std::time::Duration;
use testkit::{Server, eventually_async};

const NODES: usize = 5;
const ROUNDS: usize = 9;
const PAIRS: u64 = 100;
/// Until a server that was stopped serves all clients again.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn measure(stage: &Stage) -> Vec<Row> {
    let others: Vec<Server> = (1..NODES)
        .map(|_| Server::start(stage.server.kind()))
        .collect();
    let servers: Vec<&Server> = std::iter::once(&stage.server).chain(&others).collect();
    let [one, two] = one_thread().block_on(turns(stage, &servers));
    let row = |stopped: &str, turns: &Turns| Row {
        what: format!("p50 of a pair on a quorum of {NODES}, {stopped} stopped ÷ none stopped"),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must: stage.must(Must::AtMost(1.5)),
    };
    vec![row("one", &one), row("two", &two)]
}

/// With one and with two servers stopped, each beside the same with all of them.
async fn turns(stage: &Stage, servers: &[&Server]) -> [Turns; 2] {
    let mut clients = Vec::new();
    for server in servers {
        clients.push(Client::connect(server.url()).await.unwrap());
    }
    let lock = Quorum::new(clients.clone()).lock("quorum");
    let pairs = stage.count(PAIRS);
    let mut turns = [Turns::default(), Turns::default()];
    for round in 0..=stage.rounds(ROUNDS) {
        let all = p50(&lock, pairs).await;
        // Not always the same ones: the first is the one that a call waits for when it is refused.
        let stopped = [round % NODES, (round + 1) % NODES].map(|node| servers[node]);
        for (more, turns) in stopped.iter().zip(&mut turns) {
            more.stop_signal();
            let some = p50(&lock, pairs).await;
            // The first round warms up.
            if round > 0 {
                turns.push(some, all);
            }
        }
        stopped.iter().for_each(|server| server.cont_signal());
        for client in &clients {
            eventually_async(LIMIT, "the server answers again", async || {
                client.ping().await.is_ok()
            })
            .await;
        }
    }
    turns
}

async fn p50(lock: &QuorumLock, pairs: u64) -> f64 {
    let mut took = Vec::new();
    for _ in 0..pairs {
        let begun = now();
        lock.lock().await.unwrap().unlock().await.unwrap();
        took.push(micros_since(begun));
    }
    median(&took)
}
