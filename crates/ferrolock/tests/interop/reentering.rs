//! One side enters more than once: the other sees every step, and is woken by the last unlock only.

use std::time::{Duration, Instant};

use ferrolock::{Guard, Lock, Owner, Unlocked};
use testkit::java::{JavaLock, now};
use testkit::{LIMIT, eventually};

use crate::record::Record;
use crate::scene::{Scene, assert_at_once, is_what_is_left, lease_end, left, waiter};

stories!(
    ours_sees_each_step_of_javas_reentries,
    java_sees_each_step_of_our_reentries,
    only_the_last_unlock_of_java_wakes_ours,
    only_the_last_unlock_of_ours_wakes_java,
    a_shorter_lease_shortens_javas_hold_and_ours_gets_the_lock,
    a_shorter_lease_does_not_shorten_our_hold_and_java_finds_it_busy,
    a_partial_unlock_shortens_javas_longer_lease_and_not_ours,
);

/// Each longer than the previous one.
const LEASES: [Duration; 3] = [
    Duration::from_secs(20),
    Duration::from_secs(40),
    Duration::from_secs(60),
];
const LONGEST: Duration = LEASES[2];
/// Short, because the test waits for its end.
const BRIEF: Duration = Duration::from_secs(2);
/// Used where the caller gives no lease, on both sides.
const WATCHDOG: Duration = Duration::from_secs(30);

async fn ours_sees_each_step_of_javas_reentries(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let (owner, ours) = (java.thread().owner(), scene.ours.lock("orders"));

    for (count, lease) in (1..).zip(LEASES) {
        let begun = Instant::now();
        java.lock_for(lease).unwrap();
        assert_ours_sees(&ours, &owner, count, lease, begun).await;
    }
    for count in [2, 1] {
        let begun = Instant::now();
        java.unlock().unwrap();
        // The Java object remembers its last lease.
        assert_ours_sees(&ours, &owner, count, LONGEST, begun).await;
    }
    java.unlock().unwrap();

    assert!(!ours.is_locked().await.unwrap());
    assert!(ours.holders().await.unwrap().is_empty());
    assert!(ours.try_lock().await.unwrap().is_some());
}

async fn assert_ours_sees(lock: &Lock, owner: &str, count: u32, lease: Duration, begun: Instant) {
    assert!(lock.is_locked().await.unwrap());
    assert!(lock.try_lock().await.unwrap().is_none());
    let rest = left(lock).await;
    assert!(is_what_is_left(rest, lease, begun), "{rest:?} of {lease:?}");
    let holders = lock.holders().await.unwrap();
    let seen: Vec<_> = holders
        .iter()
        .map(|holder| (holder.owner.as_str(), holder.count))
        .collect();
    assert_eq!(seen, [(owner, count)]);
}

async fn java_sees_each_step_of_our_reentries(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let lock = scene.ours.lock("orders").owned_by(&Owner::new());
    let mut begun = Instant::now();
    let mut guards = Vec::new();

    for (count, lease) in (1..).zip(LEASES) {
        begun = Instant::now();
        guards.push(lock.clone().lease(lease).lock().await.unwrap());
        assert_java_sees(scene, &java, &guards[0], count, begun, lease);
    }
    // Each hold has its own lease; the lease on the server is not shortened.
    for count in [2, 1] {
        let unlocked = guards.pop().unwrap().unlock().await.unwrap();
        assert_eq!(unlocked, Unlocked::StillHeld(count));
        assert_java_sees(scene, &java, &guards[0], count, begun, LONGEST);
    }
    let unlocked = guards.pop().unwrap().unlock().await.unwrap();

    assert_eq!(unlocked, Unlocked::Released);
    assert!(!java.is_locked().unwrap());
    assert_eq!(java.remaining_ms().unwrap(), -2);
    assert_eq!(scene.server.keys(), [""; 0]);
    assert!(java.try_lock().unwrap());
}

fn assert_java_sees(
    scene: &Scene,
    java: &JavaLock,
    guard: &Guard,
    count: u32,
    begun: Instant,
    lease: Duration,
) {
    assert!(java.is_locked().unwrap());
    assert!(!java.try_lock().unwrap());
    assert!(!java.is_held().unwrap());
    assert_eq!(java.hold_count().unwrap(), 0);
    let rest = left_for_java(java);
    assert!(is_what_is_left(rest, lease, begun), "{rest:?} of {lease:?}");
    let held = (guard.owner_id().as_str().to_owned(), count);
    assert_eq!(scene.holders("orders"), [held]);
}

/// What is left of a lease as Java sees it.
fn left_for_java(java: &JavaLock) -> Duration {
    Duration::from_millis(java.remaining_ms().unwrap().try_into().unwrap())
}

async fn only_the_last_unlock_of_java_wakes_ours(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    for _ in 0..3 {
        java.lock().unwrap();
    }
    let waiting = waiter(scene.ours.lock("orders"));
    scene.until_awaited("orders", 1);
    let record = Record::of(&scene.server);

    for _ in 0..2 {
        java.unlock().unwrap();
    }
    assert_eq!(record.messages("orders"), 0);
    assert!(!waiting.is_finished());
    let unlocking = now();
    java.unlock().unwrap();

    let (_guard, granted) = waiting.await.unwrap();
    assert_at_once("Java's last unlock to ours", unlocking, granted);
    assert_eq!(record.messages("orders"), 1);
}

async fn only_the_last_unlock_of_ours_wakes_java(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let owner = java.thread().owner();
    let lock = scene.ours.lock("orders").owned_by(&Owner::new());
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(lock.lock().await.unwrap());
    }
    let record = Record::of(&scene.server);
    let waiting = java.begin_lock();
    // One attempt before it listens, one after: then it sleeps.
    let asked = || record.steps_of(&owner) == 2;
    eventually(LIMIT, "Java has asked twice", asked);

    for _ in 0..2 {
        guards.pop().unwrap().unlock().await.unwrap();
    }
    assert_eq!(record.messages("orders"), 0);
    assert!(!waiting.is_done());
    assert_eq!(record.steps_of(&owner), 2, "it slept on");
    let unlocking = now();
    guards.pop().unwrap().unlock().await.unwrap();

    let granted = waiting.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("our last unlock to Java", unlocking, granted.ended);
    assert_eq!(record.messages("orders"), 1);
    assert_eq!(record.steps_of(&owner), 3);
}

/// W15: the inner lease becomes the lease of all holds, and the watchdog's renewal comes too late for it.
async fn a_shorter_lease_shortens_javas_hold_and_ours_gets_the_lock(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders").fresh();
    java.lock().unwrap();
    let rest = left(&scene.ours.lock("orders")).await;
    assert!(rest > BRIEF * 10, "{rest:?}");

    java.lock_for(BRIEF).unwrap();

    let rest = left(&scene.ours.lock("orders")).await;
    assert!(rest <= BRIEF, "{rest:?}");
    let end = lease_end(&scene.ours.lock("orders")).await;
    let (guard, granted) = waiter(scene.ours.lock("orders")).await.unwrap();
    assert_at_once("the end of Java's inner lease to ours", end, granted);
    let late = java.unlock().unwrap_err();
    assert!(late.is("IllegalMonitorStateException"), "{late}");
    guard.check().await.unwrap();
}

async fn a_shorter_lease_does_not_shorten_our_hold_and_java_finds_it_busy(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let lock = scene.ours.lock("orders").owned_by(&Owner::new());
    let begun = Instant::now();
    let outer = lock.lock().await.unwrap();

    let inner = lock.clone().lease(BRIEF).lock().await.unwrap();

    let rest = left_for_java(&java);
    assert!(is_what_is_left(rest, WATCHDOG, begun), "{rest:?}");
    assert!(!java.try_lock_within(BRIEF * 5 / 4).unwrap());
    // The inner hold is over, by the clock of its holder; the outer one is not.
    assert!(!inner.is_held());
    assert!(outer.is_held());
    let rest = left_for_java(&java);
    assert!(rest > BRIEF * 10, "{rest:?}");
    drop(inner);
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
    assert!(java.try_lock().unwrap());
}

/// W15: by another Java object, which does not know the lease.
async fn a_partial_unlock_shortens_javas_longer_lease_and_not_ours(scene: &Scene) {
    let java = scene.java.thread("a").lock("java's").fresh();
    let ours = scene.ours.lock("ours").owned_by(&Owner::new());
    let begun = Instant::now();
    let mut guards = Vec::new();
    for _ in 0..2 {
        java.lock_for(LONGEST).unwrap();
        guards.push(ours.clone().lease(LONGEST).lock().await.unwrap());
    }

    java.unlock().unwrap();
    guards.pop().unwrap().unlock().await.unwrap();

    let rest = left(&scene.ours.lock("java's")).await;
    assert!(rest <= WATCHDOG, "{rest:?}");
    let rest = left_for_java(&scene.java.thread("a").lock("ours"));
    assert!(is_what_is_left(rest, LONGEST, begun), "{rest:?}");
}
