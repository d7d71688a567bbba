//! Three ways to enter a lock again that one already holds: by scope, by owner, by guard.
#![allow(clippy::print_stdout, reason = "a program speaks by printing")]

use ferrolock::{Client, Lock, Owner, Result, Unlocked};

struct Accounts {
    client: Client,
}

impl Accounts {
    fn lock(&self, id: u32) -> Lock {
        self.client.lock(format!("account/{id}"))
    }

    /// Enters again when the task's owner already holds the account.
    async fn deposit(&self, id: u32) -> Result<()> {
        let guard = self.lock(id).lock().await?;
        println!("deposit with {} holds", guard.hold_count());
        guard.unlock().await.map(drop)
    }

    async fn interest(&self, id: u32) -> Result<()> {
        let guard = self.lock(id).lock().await?;
        self.deposit(id).await?;
        guard.unlock().await.map(drop)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let accounts = Accounts {
        client: Client::memory(),
    };

    // By scope: every acquisition inside is made by the same owner.
    Owner::new().scope(accounts.interest(1)).await?;

    // By owner: a value that can be cloned, sent and stored.
    let owner = Owner::new();
    let outer = accounts.lock(1).owned_by(&owner).lock().await?;
    let inner = accounts.lock(1).owned_by(&owner).lock().await?;

    // By guard: one more hold of whoever has this one.
    let third = inner.relock().await?;
    assert_eq!(third.hold_count(), 3);

    assert_eq!(third.unlock().await?, Unlocked::StillHeld(2));
    assert_eq!(inner.unlock().await?, Unlocked::StillHeld(1));
    assert_eq!(outer.unlock().await?, Unlocked::Released);
    Ok(())
}
