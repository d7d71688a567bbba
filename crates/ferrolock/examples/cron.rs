//! One of many machines runs the job; the others skip it, also those whose clocks are late.
#![allow(clippy::print_stdout, reason = "a program speaks by printing")]

use std::time::Duration;

use ferrolock::Client;

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    // Two clients of one space are two machines.
    let first = Client::connect("memory:cron").await?;
    let second = Client::connect("memory:cron").await?;

    nightly(&first, "first").await?;
    nightly(&second, "second").await
}

async fn nightly(client: &Client, machine: &str) -> ferrolock::Result<()> {
    let Some(guard) = client.lock("nightly").label(machine).try_lock().await? else {
        println!("{machine}: somebody else has it");
        return Ok(());
    };
    guard.while_held(report(machine)).await?;
    // Whoever comes within the next five minutes finds it taken.
    guard.unlock_after(Duration::from_secs(300)).await
}

async fn report(machine: &str) {
    println!("{machine}: writing the report");
}
