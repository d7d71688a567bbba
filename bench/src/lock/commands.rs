//! How many commands a client sends for an uncontended pair.

use super::redisson::Replay;
use crate::reference::{connect, one_thread};
use crate::report::{Must, Row};
use ferrolock::Client;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::Server;

const PAIRS: u64 = 1000;

/// The commands that the two scripts of our pair call. Each call beyond them counts as sent by a client.
const OURS_INSIDE: [(&str, u64); 5] = [
    ("pttl", 1),
    ("hset", 1),
    ("pexpire", 1),
    ("hdel", 1),
    ("publish", 1),
];

/// The same for Redisson's flow.
const REDISSON_INSIDE: [(&str, u64); 8] = [
    ("exists", 1),
    ("hincrby", 2),
    ("pexpire", 1),
    ("get", 1),
    ("hexists", 1),
    ("publish", 1),
    ("set", 1),
    ("del", 1),
];

/// The commands that the benchmark itself sends.
const MEASURING: [&str; 2] = ["info", "config|resetstat"];

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let (ours, reference) = one_thread().block_on(async {
        (
            count(server, &OURS_INSIDE, ours(server)).await,
            count(server, &REDISSON_INSIDE, redisson(server)).await,
        )
    });
    vec![Row {
        what: "commands per uncontended lock+unlock pair (reference: Redisson's flow)".to_owned(),
        unit: "",
        ours,
        reference: Some(reference),
        ratio: None,
        must: Must::Equal(2.0),
    }]
}

/// Warms up, then returns the closure that makes the pairs.
async fn ours(server: &Server) -> impl AsyncFnOnce() {
    let client = Client::connect(server.url()).await.unwrap();
    let pair = async move |client: &Client| {
        let guard = client.lock("commands").lock().await.unwrap();
        guard.unlock().await.unwrap();
    };
    pair(&client).await;
    // The keeper connects at the first hold, in the background.
    tokio::time::sleep(Duration::from_millis(200)).await;
    async move || {
        for _ in 0..PAIRS {
            pair(&client).await;
        }
    }
}

async fn redisson(server: &Server) -> impl AsyncFnOnce() {
    let mut connection = connect(server).await;
    let replay = Replay::load(&mut connection).await;
    async move || {
        for n in 0..PAIRS {
            replay.pair(&mut connection, "commands", n).await;
        }
    }
}

async fn count(
    server: &Server,
    inside: &[(&str, u64)],
    prepared: impl Future<Output = impl AsyncFnOnce()>,
) -> f64 {
    let pairs = prepared.await;
    server.command(&["CONFIG", "RESETSTAT"]);
    pairs().await;
    let calls = server.commandstats();
    from_clients(&calls, inside) as f64 / PAIRS as f64
}

fn from_clients(calls: &BTreeMap<String, u64>, inside: &[(&str, u64)]) -> u64 {
    calls
        .iter()
        .filter(|(name, _)| !MEASURING.contains(&name.as_str()))
        .map(|(name, calls)| {
            let inner = inside.iter().find(|(inner, _)| inner == name);
            calls.saturating_sub(inner.map_or(0, |(_, per_pair)| per_pair * PAIRS))
        })
        .sum()
}
