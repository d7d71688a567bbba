//! The smallest program: take a lock, work, give it back. Give it an address to run on a server:
//! `cargo run --example first -- redis://localhost`.
#![allow(clippy::print_stdout, reason = "a program speaks by printing")]

use ferrolock::{Client, Unlocked};

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("memory:".to_owned());
    let client = Client::connect(address).await?;

    let guard = client.lock("orders/42").lock().await?;
    println!("nobody else is here: {}", guard.owner_id());

    assert_eq!(guard.unlock().await?, Unlocked::Released);
    println!("given back");
    Ok(())
}
