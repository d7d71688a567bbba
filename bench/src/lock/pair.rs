//! How long one uncontended pair takes, beside two PINGs, in one task; and how long its two script calls would take
//! without a library, which is the least for any library.

use super::bare;
use crate::reference::{connect, one_thread, two_threads};
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, micros_since, now};
use ferrolock::{Client, Lock};
use redis::Cmd;
use redis::aio::MultiplexedConnection;
use testkit::Server;
use tokio::runtime::Runtime;

const ROUNDS: usize = 21;
const PER_ROUND: usize = 300;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let one = "one runtime thread";
    let two = "two runtime threads";
    let [ours, bare] = rows(server, one_thread(), one, Must::AtMost(1.4));
    let [ours_on_two, _] = rows(server, two_threads(), two, Must::Stated);
    vec![ours, bare, ours_on_two]
}

fn rows(server: &Server, runtime: Runtime, threads: &str, must: Must) -> [Row; 2] {
    let scripts = bare::commands(server, "pair");
    let [ours, bare] = runtime.block_on(async {
        let client = Client::connect(server.url()).await.unwrap();
        let connection = connect(server).await;
        // In a task, as in an application: the runtime's main thread is none of its workers.
        tokio::spawn(turns(client, connection, scripts))
            .await
            .unwrap()
    });
    [
        row(&format!("a pair, one task, {threads}"), &ours, must),
        row(
            "its two script calls, bare, the same way",
            &bare,
            Must::Stated,
        ),
    ]
}

fn row(what: &str, turns: &Turns, must: Must) -> Row {
    Row {
        what: format!("p50 of {what}, ÷ p50 of two PINGs"),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must,
    }
}

async fn turns(
    client: Client,
    mut connection: MultiplexedConnection,
    scripts: [Cmd; 2],
) -> [Turns; 2] {
    let pings = [redis::cmd("PING"), redis::cmd("PING")];
    let lock = client.lock("pair");
    let [mut ours, mut bare] = [Turns::default(), Turns::default()];
    for round in 0..=ROUNDS {
        let pairs = pairs(&lock).await;
        let two_pings = two(&mut connection, &pings).await;
        let two_scripts = two(&mut connection, &scripts).await;
        // The first round warms up.
        if round > 0 {
            ours.push(pairs, two_pings);
            bare.push(two_scripts, two_pings);
        }
    }
    [ours, bare]
}

/// The p50 of some pairs, in microseconds.
pub(crate) async fn pairs(lock: &Lock) -> f64 {
    let mut took = Vec::with_capacity(PER_ROUND);
    for _ in 0..PER_ROUND {
        let begun = now();
        lock.lock().await.unwrap().unlock().await.unwrap();
        took.push(micros_since(begun));
    }
    median(&took)
}

async fn two(connection: &mut MultiplexedConnection, commands: &[Cmd; 2]) -> f64 {
    let mut took = Vec::with_capacity(PER_ROUND);
    for _ in 0..PER_ROUND {
        let begun = now();
        for command in commands {
            connection.send_packed_command(command).await.unwrap();
        }
        took.push(micros_since(begun));
    }
    median(&took)
}
