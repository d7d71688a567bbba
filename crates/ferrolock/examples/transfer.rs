//! Two accounts as one lock, in whatever order they are named: no deadlock, and nothing half held.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a program speaks by printing, and a fault ends it"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferrolock::{Client, Result};

struct Bank {
    client: Client,
    balances: [AtomicI64; 2],
}

impl Bank {
    async fn transfer(&self, amount: i64, from: usize, to: usize) -> Result<()> {
        let account = |number: usize| self.client.lock(format!("account/{number}"));
        let guard = account(from).and(account(to)).lock().await?;
        // Read and written in two steps: only the lock keeps others out in between.
        for (number, change) in [(from, -amount), (to, amount)] {
            let balance = self.balances[number].load(Ordering::Relaxed);
            tokio::task::yield_now().await;
            self.balances[number].store(balance + change, Ordering::Relaxed);
        }
        guard.unlock().await.map(drop)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let bank = Arc::new(Bank {
        client: Client::memory(),
        balances: [AtomicI64::new(100), AtomicI64::new(100)],
    });

    let mut transfers = tokio::task::JoinSet::new();
    for number in 0..50 {
        let bank = bank.clone();
        let (from, to) = (number % 2, 1 - number % 2);
        transfers.spawn(async move { bank.transfer(10, from, to).await });
    }
    while let Some(transfer) = transfers.join_next().await {
        transfer.expect("no transfer panics")?;
    }

    let balances = bank
        .balances
        .each_ref()
        .map(|it| it.load(Ordering::Relaxed));
    println!("after 25 transfers each way: {balances:?}");
    assert_eq!(balances, [100, 100]);
    Ok(())
}
