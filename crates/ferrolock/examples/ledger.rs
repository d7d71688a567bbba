//! A holder that comes too late writes nothing: the ledger remembers the largest fence that it has seen.
#![allow(clippy::print_stdout, reason = "a program speaks by printing")]

use std::time::Duration;

use ferrolock::{Client, Fence, FenceGate, Result};

/// In earnest a table with a column for the fence: `docs/guarantees.md` has the statement.
struct Ledger {
    gate: FenceGate,
}

impl Ledger {
    fn write(&self, who: &str, fence: Fence) -> bool {
        match self.gate.admit(fence) {
            Ok(()) => println!("{who} writes under fence {fence}"),
            Err(stale) => println!("{who} is refused: {stale}"),
        }
        self.gate.highest() == Some(fence)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let ledger = Ledger {
        gate: FenceGate::new(),
    };
    let client = Client::memory();
    // A fixed lease, so that it ends as if its holder stood still.
    let short = client
        .fenced_lock("ledger")
        .lease(Duration::from_millis(200));
    let stands_still = short.lock().await?;
    assert!(ledger.write("the first holder", stands_still.fence()));

    let next = client.fenced_lock("ledger").lock().await?;
    assert!(ledger.write("the second holder", next.fence()));

    // It looked at its guard before it stood still, and goes on now.
    assert!(!ledger.write("the first holder", stands_still.fence()));
    next.unlock().await?;
    Ok(())
}
