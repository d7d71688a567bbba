//! What ends a wait: every way in which a lock becomes free, with a message and without.
//!
//! On servers only: a subscriber killed under its waiter, a message lost on its way, a key deleted by hand, which nobody
//! announces. The embedded engines have no connections, and no hand but the library's reaches their keys.

use std::time::Duration;

use ferrolock::Client;
use testkit::process::{Child, Role};
use testkit::{Kind, LIMIT, Proxy, Server, eventually_async};
use tokio::time::Instant;

use crate::stage::{Stage, attempts, ms, settled_on, waits};
use crate::support::{connect, took};

const HOUR: Duration = Duration::from_secs(3600);

stories!(
    a_waiter_gets_the_lock_after_a_release,
    a_waiter_gets_the_lock_after_a_guard_was_dropped,
    a_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends,
    a_waiter_gets_the_lock_after_a_forced_unlock,
    a_waiter_gets_the_lock_when_a_delayed_unlock_is_due,
);

stories_of_processes!(
    a_waiter_gets_the_lock_that_another_process_releases,
    a_waiter_gets_the_lock_of_a_process_that_was_killed,
);

on_each_server!(
    a_waiter_gets_the_lock_after_its_subscriber_was_killed_under_it,
    a_waiter_gets_the_lock_although_the_message_was_lost,
    a_waiter_gets_a_lock_that_was_deleted_by_hand,
    a_waiter_that_has_settled_gets_a_lock_that_was_deleted_by_hand,
);

async fn a_waiter_gets_the_lock_after_a_release(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let held = them.lock("a").lock().await.unwrap();
    let waiter = waits(&us, "a");
    stage.settled("a").await;
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert!(waiter.await.unwrap().is_held());
    stage.took("after a release", begun, ms(75));
}

async fn a_waiter_gets_the_lock_after_a_guard_was_dropped(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let held = them.lock("a").lock().await.unwrap();
    let waiter = waits(&us, "a");
    stage.settled("a").await;
    let begun = Instant::now();

    drop(held);

    assert!(waiter.await.unwrap().is_held());
    stage.took("after a drop", begun, ms(75));
}

async fn a_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let begun = Instant::now();
    let held = them.lock("a").lease(ms(600)).lock().await.unwrap();
    std::mem::forget(held);

    let waiter = waits(&us, "a");

    assert!(waiter.await.unwrap().is_held());
    assert!(begun.elapsed() >= ms(600), "{:?}", begun.elapsed());
    stage.took("after the end of a lease of 600 ms", begun, ms(610));
}

async fn a_waiter_gets_the_lock_after_a_forced_unlock(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let _held = them.lock("a").lock().await.unwrap();
    let waiter = waits(&us, "a");
    stage.settled("a").await;
    let begun = Instant::now();

    assert!(them.lock("a").force_unlock().await.unwrap());

    assert!(waiter.await.unwrap().is_held());
    stage.took("after a forced unlock", begun, ms(75));
}

/// Nobody announces that the name's time is over: whoever waits finds out as after the deletion of a key.
async fn a_waiter_gets_the_lock_when_a_delayed_unlock_is_due(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let held = them.lock("a").lock().await.unwrap();
    let waiter = waits(&us, "a");
    stage.settled("a").await;
    let begun = Instant::now();

    held.unlock_after(ms(400)).await.unwrap();

    assert!(waiter.await.unwrap().is_held());
    assert!(begun.elapsed() >= ms(390), "{:?}", begun.elapsed());
    stage.took("after a delay of 400 ms", begun, ms(400 + 2000));
}

/// Takes the lock, says so, and lets it go when told.
pub(crate) fn holder(role: &Role) {
    let runtime = crate::stage::stories::threads();
    runtime.block_on(async {
        let [url, lease_ms] = role.args() else {
            panic!("two arguments: {role:?}");
        };
        let client = Client::connect(url).await.unwrap();
        let lock = client
            .lock("a")
            .watchdog_lease(ms(lease_ms.parse().unwrap()));
        let guard = lock.lock().await.unwrap();
        role.say("in");
        role.hear();
        guard.unlock().await.unwrap();
        role.say("out");
        role.hear();
    });
}

async fn a_waiter_gets_the_lock_that_another_process_releases(stage: &Stage) {
    let mut holder = Child::again("wakes::holder", &[&stage.url(), "60000"]);
    assert_eq!(holder.hear(LIMIT), "in");
    let us = stage.client().await;
    let waiter = waits(&us, "a");
    stage.settled("a").await;
    let begun = Instant::now();

    holder.say("let go");

    assert!(waiter.await.unwrap().is_held());
    stage.took("after a release elsewhere", begun, ms(75));
    assert_eq!(holder.hear(LIMIT), "out");
}

/// After its lease on a server, which cannot know; at once from a file, where the system tells.
async fn a_waiter_gets_the_lock_of_a_process_that_was_killed(stage: &Stage) {
    let lease = if stage.server().is_some() {
        2_000
    } else {
        3_600_000
    };
    let mut holder = Child::again("wakes::holder", &[&stage.url(), &lease.to_string()]);
    assert_eq!(holder.hear(LIMIT), "in");
    let us = stage.client().await;
    let waiter = waits(&us, "a");
    stage.settled("a").await;
    let begun = Instant::now();

    holder.kill();

    assert!(waiter.await.unwrap().is_held());
    let promised = if stage.server().is_some() {
        ms(2_010)
    } else {
        ms(1_000)
    };
    stage.took("after its holder was killed", begun, promised);
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
            0..4 => settled_on(&server, &name).await,
            _ => tokio::time::sleep(Duration::from_micros(150 * (round - 4))).await,
        }
        control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);

        held.unlock().await.unwrap();

        waiter.await.unwrap().unlock().await.unwrap();
    }
    took(
        "20 times after the subscriber's death",
        kind.name(),
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
    settled_on(&server, "a").await;
    proxy.drop_pushes(true);
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert!(waiter.await.unwrap().is_held());
    took("after a lost message", kind.name(), begun, ms(2000));
    assert_eq!(proxy.pushes_dropped(), 1);
}

async fn a_waiter_gets_a_lock_that_was_deleted_by_hand(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    std::mem::forget(them.lock("a").lease(HOUR).lock().await.unwrap());
    let waiter = waits(&us, "a");
    settled_on(&server, "a").await;
    let begun = Instant::now();

    server.command(&["DEL", "a"]);

    assert!(waiter.await.unwrap().is_held());
    took("after a DEL, fresh", kind.name(), begun, ms(2000));
}

/// The pauses between its polls double from a second on; after the fourth they are as long as they get.
async fn a_waiter_that_has_settled_gets_a_lock_that_was_deleted_by_hand(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    std::mem::forget(them.lock("a").lease(HOUR).lock().await.unwrap());
    let waiter = waits(&us, "a");
    settled_on(&server, "a").await;
    let before = attempts(&server);
    eventually_async(LIMIT, "the fourth poll", async || {
        attempts(&server) >= before + 4
    })
    .await;
    let begun = Instant::now();

    server.command(&["DEL", "a"]);

    assert!(waiter.await.unwrap().is_held());
    took("after a DEL, settled", kind.name(), begun, ms(10_000));
}
