//! From a release in one process to running in another.
//!
//! Two processes take turns: one holds, the other waits; the one that holds writes down the time, unlocks, and the
//! other writes down the time when it has the lock. Then it is the holder.

use crate::reference::{connect, one_thread, pings};
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, now};
use ferrolock::{Client, Guard, Lock};
use std::time::Duration;
use testkit::process::{Child, Role};
use testkit::{LIMIT, Server};
use tokio::task::JoinHandle;

const ROUNDS: usize = 15;
/// Hand-overs of a round; half of them in each direction.
const PER_ROUND: usize = 20;
const NAME: &str = "handover";
/// A waiter has subscribed, asked once more and gone to sleep long before this is over.
const SETTLED: Duration = Duration::from_millis(10);

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
    let lock = client.lock(NAME);
    let mut connection = connect(server).await;
    let mut peer = Child::again("handover", &[&server.url()]);
    let mut guard = lock.lock().await.unwrap();
    let mut turns = Turns::default();
    for round in 0..=ROUNDS {
        let mut took = Vec::new();
        for _ in 0..PER_ROUND / 2 {
            let released;
            let taken;
            (guard, released, taken) = there_and_back(&lock, guard, &mut peer).await;
            took.push(released);
            took.push(taken);
        }
        let reference = median(&pings(&mut connection, 200).await);
        // The first round warms up.
        if round > 0 {
            turns.ours.push(median(&took));
            turns.reference.push(reference);
        }
    }
    turns
}

/// One hand-over to the peer and one back; how long each took, in microseconds.
async fn there_and_back(lock: &Lock, guard: Guard, peer: &mut Child) -> (Guard, f64, f64) {
    peer.say("wait");
    assert_eq!(peer.hear(LIMIT), "waiting");
    tokio::time::sleep(SETTLED).await;
    let released = now();
    guard.unlock().await.unwrap();
    let running: u64 = peer.hear(LIMIT).parse().unwrap();
    let there = (running - released) as f64 / 1e3;

    let waiting = wait_for(lock);
    tokio::time::sleep(SETTLED).await;
    peer.say("release");
    let (guard, running) = waiting.await.unwrap();
    let released: u64 = peer.hear(LIMIT).parse().unwrap();
    (guard, there, (running - released) as f64 / 1e3)
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
            assert_eq!(role.hear(), "wait");
            let waiting = wait_for(&lock);
            role.say("waiting");
            let (guard, running) = waiting.await.unwrap();
            role.say(&running.to_string());
            // Without blocking the runtime: its connections live there.
            let heard = tokio::task::spawn_blocking({
                let role = role.clone();
                move || role.hear()
            });
            assert_eq!(heard.await.unwrap(), "release");
            let released = now();
            guard.unlock().await.unwrap();
            role.say(&released.to_string());
        }
    });
}
