//! First come, first served: each passenger boards in the order of arrival, from whatever machine.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a program speaks by printing, and a fault ends it"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrolock::Client;

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    // Two clients of one space are two machines.
    let desks = [
        Client::connect("memory:gate").await?,
        Client::connect("memory:gate").await?,
    ];
    let boarded = Arc::new(Mutex::new(Vec::new()));
    let gate_closed = desks[0].fair_lock("gate").lock().await?;

    let mut passengers = tokio::task::JoinSet::new();
    for number in 0..6 {
        let (gate, boarded) = (desks[number % 2].fair_lock("gate"), boarded.clone());
        passengers.spawn(async move {
            let guard = gate.lock().await?;
            println!("passenger {number} boards");
            boarded.lock().expect("no passenger panics").push(number);
            guard.unlock().await
        });
        // So that the next one comes later.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    gate_closed.unlock().await?;
    while let Some(passenger) = passengers.join_next().await {
        passenger.expect("no passenger panics")?;
    }

    assert_eq!(*boarded.lock().expect("as above"), [0, 1, 2, 3, 4, 5]);
    Ok(())
}
