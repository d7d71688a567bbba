//! A `lock()` future that was polled once and kept: it gets in nobody's way for longer than its offer lasts.

use std::pin::pin;
use std::time::Instant;

use ferrolock::Client;
use testkit::process::{self, Child};
use testkit::{Kind, LIMIT, Server, eventually_async, poll_once};

use crate::support::{connect, ms, took};

on_each_server!(a_future_that_is_polled_once_and_kept_stops_nobody);

/// Another process: takes the lock, says so, and lets it go when told.
#[test]
fn other_process() {
    let Some(role) = process::role() else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        role.say("ready");
        role.hear();
        let guard = client.lock("a").lock().await.unwrap();
        role.say("in");
        role.hear();
        guard.unlock().await.unwrap();
        role.say("out");
    });
}

async fn a_future_that_is_polled_once_and_kept_stops_nobody(kind: Kind) {
    let server = Server::start(kind);
    let client = connect(&server).await;
    let mut other = Child::again("offers::other_process", &[&server.url()]);
    other.hear(LIMIT);
    let monitor = server.monitor();
    // Nobody had it, so nobody may have renewed it: each time that was set came with a field.
    let calls = |command: &str| {
        let lines = monitor.lines();
        let called = lines.iter().filter(|line| line.contains("lua]"));
        called
            .filter(|line| line.to_lowercase().contains(command))
            .count()
    };
    // A renewal would be due at 720 to 800 ms, before the end of the offer.
    let lock = client.lock("a").watchdog_lease(ms(2400));
    let mut kept = pin!(lock.lock());
    assert!(poll_once(kept.as_mut()).is_pending());
    eventually_async(LIMIT, "it is granted", async || calls("\"hset\"") == 1).await;
    let begun = Instant::now();

    let local = client.lock("a").lock().await.unwrap();
    took(
        "a local waiter behind an offer of 800 ms",
        kind,
        begun,
        ms(1100),
    );
    local.unlock().await.unwrap();

    // Once more, with another process behind the offer.
    let mut again = pin!(lock.lock());
    assert!(poll_once(again.as_mut()).is_pending());
    eventually_async(LIMIT, "it is granted", async || calls("\"hset\"") == 3).await;
    let begun = Instant::now();
    other.say("go");
    assert_eq!(other.hear(LIMIT), "in");
    took(
        "another process behind an offer of 800 ms",
        kind,
        begun,
        ms(1100),
    );

    assert!(calls("\"hset\"") >= 4, "{:#?}", monitor.lines());
    assert_eq!(
        calls("\"pexpire\""),
        calls("\"hset\""),
        "{:#?}",
        monitor.lines()
    );
    assert!(poll_once(kept.as_mut()).is_pending());
    other.say("go");
    assert_eq!(other.hear(LIMIT), "out");
    kept.await.unwrap().unlock().await.unwrap();
    again.await.unwrap().unlock().await.unwrap();
}
