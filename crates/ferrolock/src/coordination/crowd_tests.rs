//! Thousands of readers of one name in one client.
#![allow(clippy::unwrap_used, reason = "test code: a failure ends the test")]

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::Client;
use crate::testing::scenes::insider;

/// What this thread has worked so far; in paused time everything runs in it.
fn worked() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

/// As many readers come, are there together, and go. Returns what each of them cost.
async fn readers(client: &Client, count: u32) -> Duration {
    let begun = worked();
    let mut inside = Vec::new();
    for _ in 0..count {
        inside.push(client.rw_lock("shelf").read().await.unwrap());
    }
    for guard in inside {
        guard.unlock().await.unwrap();
    }
    (worked() - begun) / count
}

#[tokio::test(start_paused = true)]
async fn a_reader_among_thousands_costs_as_much_as_one_among_a_hundred() {
    let (client, _, _) = insider();
    readers(&client, 200).await;

    let few = readers(&client, 100).await;
    let more = readers(&client, 1000).await;
    let many = readers(&client, 10_000).await;

    eprintln!("for each of 100: {few:?}, of 1,000: {more:?}, of 10,000: {many:?}");
    assert!(many < few * 3, "{many:?} and {few:?}");
}
