//! Readers share a catalog; who rebuilds it goes on reading it, and nobody can write in between.
#![allow(clippy::print_stdout, reason = "a program speaks by printing")]

use ferrolock::Client;

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    let client = Client::memory();
    // On all handles: a writer that waits is not kept waiting by readers that come after it.
    let catalog = client.rw_lock("catalog").prefer_writers();

    let (first, second) = (catalog.read().await?, catalog.read().await?);
    println!("two read at once");
    drop((first, second));

    let writing = catalog.write().await?;
    println!("nobody else reads or writes");
    let reading = writing.downgrade().await?;
    println!("others read again: {}", catalog.try_read().await?.is_some());
    reading.unlock().await?;
    Ok(())
}
