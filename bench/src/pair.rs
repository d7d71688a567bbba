//! How long one uncontended pair takes, beside two PINGs, in one task.

use crate::reference::{connect, one_thread, ping, two_threads};
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, micros_since, now};
use ferrolock::{Client, Lock};
use redis::aio::MultiplexedConnection;
use testkit::Server;
use tokio::runtime::Runtime;

const ROUNDS: usize = 21;
const PER_ROUND: usize = 300;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    vec![
        row(
            server,
            one_thread(),
            "one runtime thread",
            Must::AtMost(1.4),
        ),
        row(server, two_threads(), "two runtime threads", Must::Stated),
    ]
}

fn row(server: &Server, runtime: Runtime, threads: &str, must: Must) -> Row {
    let url = server.url();
    let turns = runtime.block_on(async {
        let client = Client::connect(url).await.unwrap();
        let connection = connect(server).await;
        // In a task, as an application's work is: the runtime's main thread is none of its workers.
        tokio::spawn(turns(client, connection)).await.unwrap()
    });
    Row {
        what: format!("p50 of a pair ÷ p50 of two PINGs, one task, {threads}"),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must,
    }
}

async fn turns(client: Client, mut connection: MultiplexedConnection) -> Turns {
    let lock = client.lock("pair");
    let mut turns = Turns::default();
    for round in 0..=ROUNDS {
        let (ours, reference) = (pairs(&lock).await, two_pings(&mut connection).await);
        // The first round warms up.
        if round > 0 {
            turns.ours.push(ours);
            turns.reference.push(reference);
        }
    }
    turns
}

async fn pairs(lock: &Lock) -> f64 {
    let mut took = Vec::with_capacity(PER_ROUND);
    for _ in 0..PER_ROUND {
        let begun = now();
        lock.lock().await.unwrap().unlock().await.unwrap();
        took.push(micros_since(begun));
    }
    median(&took)
}

async fn two_pings(connection: &mut MultiplexedConnection) -> f64 {
    let mut took = Vec::with_capacity(PER_ROUND);
    for _ in 0..PER_ROUND {
        let begun = now();
        ping(connection).await;
        ping(connection).await;
        took.push(micros_since(begun));
    }
    median(&took)
}
