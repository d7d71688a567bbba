//! Behind a proxy that passes no messages, waiters ask again and again, at a pace of their own.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a program speaks by printing, and a fault ends it"
)]

use std::time::Duration;

use ferrolock::{BackOff, Client};
use tokio::time::Instant;

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    let client = Client::memory();
    let lock = client
        .spin_lock("stock")
        .back_off(BackOff::constant(Duration::from_millis(20)));
    let guard = lock.lock().await?;

    let waiting = tokio::spawn(lock.lock());
    tokio::time::sleep(Duration::from_millis(100)).await;
    let released = Instant::now();
    guard.unlock().await?;

    let second = waiting.await.expect("the waiter does not panic")?;
    println!("found free {:.0?} after the release", released.elapsed());
    second.unlock().await?;
    Ok(())
}
