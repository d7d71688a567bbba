//! A lock on a majority of servers goes on while a minority of them is down.
#![allow(
    clippy::print_stdout,
    clippy::expect_used,
    reason = "a program speaks by printing, and a fault ends it"
)]

use ferrolock::{ErrorKind, Quorum};

#[tokio::main]
async fn main() -> ferrolock::Result<()> {
    // In earnest "redis://a", "redis://b", "redis://c". Nothing listens on the port of the third.
    let urls = ["memory:", "memory:", "redis://127.0.0.1:1"];
    let quorum = Quorum::connect(urls).await?;

    let guard = quorum.lock("ledger").lock().await?;
    let first = guard.fence();
    println!("two of three have granted, with fence {first}");
    guard.unlock().await?;
    let guard = quorum.lock("ledger").lock().await?;
    assert!(guard.fence() > first);
    guard.unlock().await?;

    let urls = ["memory:", "redis://127.0.0.1:1", "redis://127.0.0.1:1"];
    let error = Quorum::connect(urls)
        .await
        .expect_err("one of three is too few");
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    Ok(())
}
