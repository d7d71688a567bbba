//! What ends a wait: every way in which a lock becomes free, with a message and without.

use std::time::{Duration, Instant};

use ferrolock::Client;
use testkit::{Kind, LIMIT, Proxy, Server, eventually_async};

use crate::support::{attempts, connect, ms, settled, took, waits};

const HOUR: Duration = Duration::from_secs(3600);

on_each_server!(
    a_waiter_gets_the_lock_after_a_release,
    a_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends,
    a_waiter_gets_the_lock_after_a_forced_unlock,
    a_waiter_gets_the_lock_after_its_subscriber_was_killed_under_it,
    a_waiter_gets_the_lock_although_the_message_was_lost,
    a_waiter_gets_a_lock_that_was_deleted_by_hand,
    a_waiter_that_has_settled_gets_a_lock_that_was_deleted_by_hand,
);

async fn a_waiter_gets_the_lock_after_a_release(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    let held = them.lock("a").lock().await.unwrap();
    let waiter = waits(&us, "a");
    settled(&server, "a").await;
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert!(waiter.await.unwrap().is_held());
    took("after a release", kind, begun, ms(75));
}

async fn a_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    let held = them.lock("a").lease(ms(600)).lock().await.unwrap();
    let begun = Instant::now();
    std::mem::forget(held);

    let waiter = waits(&us, "a");

    assert!(waiter.await.unwrap().is_held());
    took("after the end of a lease of 600 ms", kind, begun, ms(610));
}

async fn a_waiter_gets_the_lock_after_a_forced_unlock(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    let _held = them.lock("a").lock().await.unwrap();
    let waiter = waits(&us, "a");
    settled(&server, "a").await;
    let begun = Instant::now();

    assert!(them.lock("a").force_unlock().await.unwrap());

    assert!(waiter.await.unwrap().is_held());
    took("after a forced unlock", kind, begun, ms(75));
}

/// Rounds in which the subscriber dies at different moments around the waiter's attempts, and the release reaches
/// nobody. Served within the time a reconnect takes, long before the lease or the settled poll.
async fn a_waiter_gets_the_lock_after_its_subscriber_was_killed_under_it(kind: Kind) {
    let server = Server::start(kind);
    let them = connect(&server).await;
    let mut control = server.connect();
    let begun = Instant::now();
    for round in 0..20 {
        // A client of its own: one whose connection dies again and again waits longer each time before it comes back.
        let us = connect(&server).await;
        let name = format!("a{round}");
        let held = them.lock(&name).lease(HOUR).lock().await.unwrap();
        let waiter = waits(&us, &name);
        // The later rounds kill in the middle of subscribing and attempting; the first when all is at rest.
        match round {
            0..4 => settled(&server, &name).await,
            _ => tokio::time::sleep(Duration::from_micros(150 * (round - 4))).await,
        }
        control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);

        held.unlock().await.unwrap();

        waiter.await.unwrap().unlock().await.unwrap();
    }
    took(
        "20 times after the subscriber's death",
        kind,
        begun,
        ms(20 * 100),
    );
}

async fn a_waiter_gets_the_lock_although_the_message_was_lost(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address());
    let us = Client::connect(proxy.url()).await.unwrap();
    let them = connect(&server).await;
    let held = them.lock("a").lease(HOUR).lock().await.unwrap();
    let waiter = waits(&us, "a");
    settled(&server, "a").await;
    proxy.drop_pushes(true);
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert!(waiter.await.unwrap().is_held());
    took("after a lost message", kind, begun, ms(2000));
    assert_eq!(proxy.pushes_dropped(), 1);
}

async fn a_waiter_gets_a_lock_that_was_deleted_by_hand(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    std::mem::forget(them.lock("a").lease(HOUR).lock().await.unwrap());
    let waiter = waits(&us, "a");
    settled(&server, "a").await;
    let begun = Instant::now();

    server.command(&["DEL", "a"]);

    assert!(waiter.await.unwrap().is_held());
    took("after a DEL, fresh", kind, begun, ms(2000));
}

/// The pauses between its polls double from a second on; after the fourth they are as long as they get.
async fn a_waiter_that_has_settled_gets_a_lock_that_was_deleted_by_hand(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    std::mem::forget(them.lock("a").lease(HOUR).lock().await.unwrap());
    let waiter = waits(&us, "a");
    settled(&server, "a").await;
    let before = attempts(&server);
    eventually_async(LIMIT, "the fourth poll", async || {
        attempts(&server) >= before + 4
    })
    .await;
    let begun = Instant::now();

    server.command(&["DEL", "a"]);

    assert!(waiter.await.unwrap().is_held());
    took("after a DEL, settled", kind, begun, ms(10_000));
}
