//! What a pair costs the server, beside Redisson's flow: processor time, with 64 pairs in flight.

use super::redisson::Replay;
use crate::reference::{connect, one_thread};
use crate::report::{Must, Row};
use crate::rounds::Turns;
use ferrolock::Client;
use redis::aio::MultiplexedConnection;
use testkit::Server;
use tokio::task::JoinSet;

/// Many and short: the machine's speed changes within a second.
const ROUNDS: usize = 101;
const IN_FLIGHT: u64 = 64;
const PAIRS_EACH: u64 = 40;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let turns = one_thread().block_on(turns(server));
    vec![Row {
        what: format!("server CPU per pair, {IN_FLIGHT} in flight, ÷ Redisson's flow"),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must: Must::AtMost(0.70),
    }]
}

async fn turns(server: &Server) -> Turns {
    let client = Client::connect(server.url()).await.unwrap();
    let mut connection = connect(server).await;
    let replay = Replay::load(&mut connection).await;
    let mut turns = Turns::default();
    for round in 0..=ROUNDS {
        let mut costs = [0.0; 2];
        // Neither is always the first.
        for which in [round % 2, (round + 1) % 2] {
            let before = cpu(server);
            match which {
                0 => ours(&client).await,
                _ => redisson(&replay, &connection).await,
            }
            costs[which] = (cpu(server) - before) * 1e6 / (IN_FLIGHT * PAIRS_EACH) as f64;
        }
        // The first round warms up.
        if round > 0 {
            turns.push(costs[0], costs[1]);
        }
    }
    turns
}

async fn ours(client: &Client) {
    let mut tasks = JoinSet::new();
    for task in 0..IN_FLIGHT {
        let lock = client.lock(format!("cpu/{task}"));
        tasks.spawn(async move {
            for _ in 0..PAIRS_EACH {
                lock.lock().await.unwrap().unlock().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

async fn redisson(replay: &Replay, connection: &MultiplexedConnection) {
    let mut tasks = JoinSet::new();
    for task in 0..IN_FLIGHT {
        let (replay, mut connection) = (replay.clone(), connection.clone());
        let name = format!("cpu/{task}");
        tasks.spawn(async move {
            for n in 0..PAIRS_EACH {
                replay
                    .pair(&mut connection, &name, task * PAIRS_EACH + n)
                    .await;
            }
        });
    }
    tasks.join_all().await;
}

/// The server's processor time so far, in seconds.
pub(crate) fn cpu(server: &Server) -> f64 {
    let info = server.info("cpu");
    ["used_cpu_user", "used_cpu_sys"]
        .iter()
        .map(|field| info[*field].trim().parse::<f64>().unwrap())
        .sum()
}
