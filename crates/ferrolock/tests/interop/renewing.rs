//! The watchdog of each side keeps its locks from the other as long as they are held; ours makes no renewal after a release.

use std::collections::BTreeSet;
use std::time::Duration;

use ferrolock::{Client, Lock, LostReason, Owner};
use testkit::java::{JavaClient, Looped, Pending, Place, Redisson, now};
use testkit::{Counter, LIMIT, eventually, eventually_async};
use tokio::task::JoinSet;

use crate::record::{Record, is_a};
use crate::scene::{Scene, assert_at_once, left, told, waiter};

stories!(
    java_keeps_its_lock_for_three_leases_while_ours_waits,
    ours_keeps_its_lock_for_three_leases_while_java_waits,
    no_renewal_follows_our_releases_beside_java,
    a_busy_java_renews_more_than_once_an_interval_and_ours_does_not,
    a_renewal_shortens_javas_longer_lease_and_not_ours,
    a_late_renewal_of_java_does_not_affect_our_hold,
    a_late_renewal_of_ours_does_not_affect_the_hold_of_java,
);

/// On both sides: it ends only if this machine stalls for two seconds.
const LEASE: Duration = Duration::from_secs(3);
/// A third of it, on both sides.
const INTERVAL: Duration = Duration::from_secs(1);
/// Not renewed.
const FIXED: Duration = Duration::from_secs(20);

fn java(scene: &Scene, lease: Duration) -> JavaClient {
    let opening = scene.peer.client(&scene.server.url());
    opening.watchdog(lease).open()
}

async fn ours(scene: &Scene, lease: Duration) -> Client {
    let builder = Client::builder().url(scene.server.url());
    builder.watchdog_lease(lease).connect().await.unwrap()
}

async fn java_keeps_its_lock_for_three_leases_while_ours_waits(scene: &Scene) {
    let java = java(scene, LEASE).thread("a").lock("orders");
    java.lock().unwrap();
    let waiting = waiter(scene.ours.lock("orders"));
    scene.until_awaited("orders", 1);

    for _ in 0..12 {
        tokio::time::sleep(LEASE / 4).await;
        assert!(!waiting.is_finished());
        assert!(left(&scene.ours.lock("orders")).await <= LEASE);
    }
    assert!(java.is_held().unwrap());
    let unlocking = now();
    java.unlock().unwrap();

    let (guard, granted) = waiting.await.unwrap();
    assert_at_once("Java's unlock after three leases", unlocking, granted);
    guard.unlock().await.unwrap();
}

async fn ours_keeps_its_lock_for_three_leases_while_java_waits(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let guard = ours(scene, LEASE)
        .await
        .lock("orders")
        .lock()
        .await
        .unwrap();
    let waiting = java.begin_lock();
    scene.until_awaited("orders", 1);
    let other = scene.java.thread("b").lock("orders");

    for _ in 0..12 {
        tokio::time::sleep(LEASE / 4).await;
        assert!(!waiting.is_done());
        let rest = other.remaining_ms().unwrap();
        assert!(rest > 0 && rest <= 3000, "{rest}");
    }
    assert!(guard.is_held());
    let unlocking = now();
    guard.unlock().await.unwrap();

    let granted = waiting.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("our unlock after three leases", unlocking, granted.ended);
    assert!(java.is_held().unwrap());
}

/// Java holds one name, waits for a second, and competes for a third, while ours takes and releases locks.
async fn no_renewal_follows_our_releases_beside_java(scene: &Scene) {
    let (java, ours) = (java(scene, LEASE), ours(scene, LEASE).await);
    java.thread("a").lock("java's").lock().unwrap();
    let kept = ours.lock("ours").lock().await.unwrap();
    let waiting = java.thread("b").lock("ours").begin_lock();
    scene.until_awaited("ours", 1);
    let record = Record::of(&scene.server);
    let fighting = java_fights(&java);

    let mut holders = JoinSet::new();
    for n in 0..60_u32 {
        // The releases are spread over the time in which renewals are due.
        let time = INTERVAL * 3 / 4 + Duration::from_millis(6) * n;
        holders.spawn(hold_for(ours.lock(format!("n{n}")), time));
    }
    let counter = Counter::key(&scene.server, "counter");
    for _ in 0..60 {
        let guard = ours.lock("fought").lock().await.unwrap();
        counter.bump_async().await;
        guard.unlock().await.unwrap();
    }
    holders.join_all().await;
    java.thread("c").stop();
    let rounds = fighting.wait().unwrap().done;
    kept.unlock().await.unwrap();
    waiting.wait().unwrap();
    // Time for some renewals, if anything were left to renew.
    tokio::time::sleep(INTERVAL * 2).await;

    assert_eq!(counter.read(), rounds + 60);
    let (renewed, released) = assert_nothing_follows_a_release(&record.lines(), ours.id());
    eprintln!("{released} releases beside {rounds} of Java, {renewed} renewals before, 0 after");
    assert_eq!(released, 60 + 60 + 1);
    assert!(renewed > 0);
}

fn java_fights(java: &JavaClient) -> Pending<Looped> {
    let lock = java.thread("c").lock("fought");
    lock.rounds(Place::Key("counter")).begin()
}

async fn hold_for(lock: Lock, time: Duration) {
    let guard = lock.lock().await.unwrap();
    tokio::time::sleep(time).await;
    guard.unlock().await.unwrap();
}

/// Asserts that no command names a tenure of the client after its release; returns how many renewals and releases there were.
fn assert_nothing_follows_a_release(lines: &[String], client: &str) -> (usize, usize) {
    let mut released = BTreeSet::new();
    let mut renewed = 0;
    for (n, line) in lines.iter().enumerate() {
        // One call renews many tenures.
        for tenure in line.split('"').filter(|word| word.starts_with(client)) {
            assert!(!released.contains(tenure), "after its release: {line}");
            if is_a(line, "HDEL") {
                released.insert(tenure);
            }
        }
        renewed += usize::from(is_a(line, "HEXISTS") && is_followed_by_a_lease(&lines[n..]));
    }
    (renewed, released.len())
}

/// Whether the script then raised the lease, as the script of a renewal does.
fn is_followed_by_a_lease(lines: &[String]) -> bool {
    let mut steps = lines.iter().skip(1).filter(|line| line.contains(" lua] "));
    steps.next().is_some_and(|line| is_a(line, "PEXPIRE"))
}

/// W29: in the newest version, each earlier lock and unlock leaves a timer that renews everything that is held then.
async fn a_busy_java_renews_more_than_once_an_interval_and_ours_does_not(scene: &Scene) {
    // Long enough for all of the pairs.
    const INTERVAL: Duration = Duration::from_secs(2);
    let java = java(scene, INTERVAL * 3).thread("a").lock("java's");
    let lock = ours(scene, INTERVAL * 3).await.lock("ours");
    for _ in 0..10 {
        java.lock().unwrap();
        java.unlock().unwrap();
        lock.lock().await.unwrap().unlock().await.unwrap();
    }
    java.lock().unwrap();
    let guard = lock.lock().await.unwrap();
    let record = Record::of(&scene.server);
    let begun = now();

    tokio::time::sleep(INTERVAL * 5 / 2).await;

    let lines = record.lines();
    let intervals = (now() - begun).div_duration_f64(INTERVAL);
    let leases_of = |name: &str| {
        let name = format!("\"{name}\"");
        let leases = lines.iter().filter(|line| is_a(line, "PEXPIRE"));
        leases.filter(|line| line.contains(&name)).count()
    };
    let (javas, ours) = (leases_of("java's"), leases_of("ours"));
    eprintln!("{intervals:.1} intervals: {javas} renewals by Java, {ours} by ours");
    // Each of our renewals comes a little early.
    assert!(ours >= 1 && ours as f64 <= intervals * 1.5 + 1.0);
    match scene.peer.redisson() {
        Redisson::Newest => assert!(javas >= 10, "{javas}"),
        Redisson::Oldest => assert!(javas as f64 <= intervals + 1.0, "{javas}"),
    }
    assert!(guard.is_held());
}

/// W15: a renewal by Java sets the lease, one of ours only raises it.
async fn a_renewal_shortens_javas_longer_lease_and_not_ours(scene: &Scene) {
    let java = java(scene, LEASE).thread("a").lock("java's").fresh();
    let ours = ours(scene, LEASE)
        .await
        .lock("ours")
        .owned_by(&Owner::new());
    java.lock().unwrap();
    java.lock_for(FIXED).unwrap();
    let outer = ours.lock().await.unwrap();
    let inner = ours.clone().lease(FIXED).lock().await.unwrap();
    let (javas, record) = (scene.ours.lock("java's"), Record::of(&scene.server));
    assert!(left(&javas).await > LEASE * 2);

    let renewed = || record.steps_of(outer.owner_id().as_str()) > 0;
    eventually(LIMIT, "a renewal of ours", renewed);
    let cut = async || left(&javas).await <= LEASE;
    eventually_async(LIMIT, "a renewal of Java", cut).await;

    let rest = left(&ours).await;
    assert!(rest > LEASE * 2, "{rest:?}");
    drop((outer, inner));
}

async fn a_late_renewal_of_java_does_not_affect_our_hold(scene: &Scene) {
    let java = java(scene, LEASE).thread("a").lock("orders");
    java.lock().unwrap();
    let owner = java.thread().owner();
    assert!(scene.ours.lock("orders").force_unlock().await.unwrap());
    let guard = scene.ours.lock("orders").lease(FIXED).lock().await.unwrap();
    let record = Record::of(&scene.server);

    let strayed = || record.steps_of(&owner) > 0;
    eventually(LIMIT, "Java renews what it has lost", strayed);

    let ours = guard.owner_id().as_str().to_owned();
    assert_eq!(scene.holders("orders"), [(ours, 1)]);
    let rest = left(&scene.ours.lock("orders")).await;
    assert!(rest > LEASE * 2, "{rest:?}");
    guard.check().await.unwrap();
}

async fn a_late_renewal_of_ours_does_not_affect_the_hold_of_java(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    // Long enough that Java has the lock before the first renewal.
    let guard = ours(scene, LEASE * 3)
        .await
        .lock("orders")
        .lock()
        .await
        .unwrap();
    assert!(java.force_unlock().unwrap());
    java.lock_for(FIXED).unwrap();
    let record = Record::of(&scene.server);

    assert_eq!(told(&guard).await, LostReason::TakenOver);

    let found_out = record.steps_of(guard.owner_id().as_str());
    tokio::time::sleep(INTERVAL * 4).await;
    assert_eq!(found_out, 1);
    assert_eq!(
        record.steps_of(guard.owner_id().as_str()),
        1,
        "once is enough"
    );
    assert_eq!(scene.holders("orders"), [(java.thread().owner(), 1)]);
    assert!(java.remaining_ms().unwrap() > 6000);
}
