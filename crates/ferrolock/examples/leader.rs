//! A leader works until it loses the lock, and then steps down.
#![allow(clippy::print_stdout, reason = "a program speaks by printing")]

use std::time::Duration;

use ferrolock::Client;

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    let client = Client::memory();
    // Short: another machine takes over soon after a crash.
    let lock = client
        .lock("leader")
        .watchdog_lease(Duration::from_millis(600));
    let guard = lock.lock().await?;

    let mut tick = tokio::time::interval(Duration::from_millis(100));
    for round in 0.. {
        tokio::select! {
            reason = guard.lost() => {
                println!("stepping down: {reason}");
                break;
            }
            _ = tick.tick() => println!("leading, round {round}"),
        }
        if round == 3 {
            // An operator frees it; the watchdog finds out within a renewal.
            lock.force_unlock().await?;
        }
    }
    Ok(())
}
