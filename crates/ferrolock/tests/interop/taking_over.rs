//! One side holds: the other finds the lock busy until it is free, and then gets it at once, however it became free.

use std::time::{Duration, Instant};

use ferrolock::{Client, ErrorKind};
use testkit::java::{Jvm, now};
use testkit::process::{Child, Role};
use testkit::{JavaPeer, LIMIT};

use crate::scene::{Scene, assert_at_once, is_what_is_left, lease_end, left, waiter};

stories!(
    while_java_holds_ours_finds_it_busy_with_the_same_lease,
    while_ours_holds_java_finds_it_busy_with_the_same_lease,
    ours_gets_it_when_java_unlocks,
    java_gets_it_when_ours_unlocks,
    ours_gets_it_when_javas_lease_ends,
    java_gets_it_when_our_lease_ends,
    ours_gets_it_when_java_forces_it_open,
    java_gets_it_when_ours_forces_it_open,
    ours_gets_it_a_lease_after_the_jvm_halted,
    java_gets_it_a_lease_after_our_process_was_killed,
);

const LEASE: Duration = Duration::from_secs(20);
/// Short, because the test waits for its end.
const BRIEF: Duration = Duration::from_secs(2);
/// Used where the caller gives no lease, on both sides.
const WATCHDOG: Duration = Duration::from_secs(30);

async fn while_java_holds_ours_finds_it_busy_with_the_same_lease(scene: &Scene) {
    let thread = scene.java.thread("a");
    // Otherwise the second hold would have the lease of the first, with an old Redisson (W15).
    let java = thread.lock("orders").fresh();
    let ours = scene.ours.lock("orders");
    for lease in [LEASE, WATCHDOG] {
        let begun = Instant::now();
        match lease {
            WATCHDOG => java.lock().unwrap(),
            lease => java.lock_for(lease).unwrap(),
        }

        assert!(ours.try_lock().await.unwrap().is_none());
        assert!(ours.is_locked().await.unwrap());
        let left = left(&ours).await;
        assert!(is_what_is_left(left, lease, begun), "{left:?} of {lease:?}");
        let holders = ours.holders().await.unwrap();
        assert_eq!(holders.len(), 1);
        assert_eq!(holders[0].owner.as_str(), thread.owner());

        java.unlock().unwrap();
        assert!(!ours.is_locked().await.unwrap());
    }
}

async fn while_ours_holds_java_finds_it_busy_with_the_same_lease(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    for lease in [LEASE, WATCHDOG] {
        let begun = Instant::now();
        let lock = match lease {
            WATCHDOG => scene.ours.lock("orders"),
            lease => scene.ours.lock("orders").lease(lease),
        };
        let guard = lock.lock().await.unwrap();

        assert!(!java.try_lock().unwrap());
        assert!(!java.try_lock_within(Duration::from_millis(50)).unwrap());
        assert!(java.is_locked().unwrap());
        assert!(!java.is_held().unwrap());
        let left = Duration::from_millis(java.remaining_ms().unwrap().try_into().unwrap());
        assert!(is_what_is_left(left, lease, begun), "{left:?} of {lease:?}");

        guard.unlock().await.unwrap();
        assert!(!java.is_locked().unwrap());
        assert_eq!(java.remaining_ms().unwrap(), -2);
    }
}

async fn ours_gets_it_when_java_unlocks(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    java.lock().unwrap();
    let waiting = scene.waiter_at_rest(scene.ours.lock("orders"));

    let unlocking = now();
    java.unlock().unwrap();

    let (guard, granted) = waiting.await.unwrap();
    assert_at_once("Java's unlock to ours", unlocking, granted);
    assert!(!java.try_lock().unwrap());
    guard.unlock().await.unwrap();
}

async fn java_gets_it_when_ours_unlocks(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let guard = scene.ours.lock("orders").lock().await.unwrap();
    let waiting = java.begin_lock();
    scene.until_awaited("orders", 1);
    assert!(!waiting.is_done());

    let unlocking = now();
    guard.unlock().await.unwrap();

    let granted = waiting.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("our unlock to Java", unlocking, granted.ended);
    assert!(java.is_held().unwrap());
    assert!(
        scene
            .ours
            .lock("orders")
            .try_lock()
            .await
            .unwrap()
            .is_none()
    );
}

async fn ours_gets_it_when_javas_lease_ends(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let begun = Instant::now();
    java.lock_for(BRIEF).unwrap();
    let end = lease_end(&scene.ours.lock("orders")).await;
    assert!(is_what_is_left(end.saturating_sub(now()), BRIEF, begun));

    let (guard, granted) = waiter(scene.ours.lock("orders")).await.unwrap();

    assert_at_once("the end of Java's lease to ours", end, granted);
    let late = java.unlock().unwrap_err();
    assert!(late.is("IllegalMonitorStateException"), "{late}");
    assert!(guard.check().await.is_ok(), "ours is untouched by it");
}

async fn java_gets_it_when_our_lease_ends(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let begun = Instant::now();
    let lock = scene.ours.lock("orders").lease(BRIEF);
    let guard = lock.lock().await.unwrap();
    let end = lease_end(&lock).await;
    assert!(is_what_is_left(end.saturating_sub(now()), BRIEF, begun));

    let granted = java.begin_lock().answer(LIMIT);

    granted.result.unwrap();
    assert_at_once("the end of our lease to Java", end, granted.ended);
    let late = guard.unlock().await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Lost);
    assert!(java.is_held().unwrap(), "Java's is untouched by it");
}

async fn ours_gets_it_when_java_forces_it_open(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    java.lock().unwrap();
    let waiting = scene.waiter_at_rest(scene.ours.lock("orders"));

    let forcing = now();
    let other = scene.java.thread("b").lock("orders");
    assert!(other.force_unlock().unwrap());

    let (_guard, granted) = waiting.await.unwrap();
    assert_at_once("Java's force-unlock to ours", forcing, granted);
    let late = java.unlock().unwrap_err();
    assert!(late.is("IllegalMonitorStateException"), "{late}");
}

async fn java_gets_it_when_ours_forces_it_open(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let _guard = scene.ours.lock("orders").lock().await.unwrap();
    let waiting = java.begin_lock();
    scene.until_awaited("orders", 1);

    let forcing = now();
    assert!(scene.ours.lock("orders").force_unlock().await.unwrap());

    let granted = waiting.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("our force-unlock to Java", forcing, granted.ended);
}

async fn ours_gets_it_a_lease_after_the_jvm_halted(scene: &Scene) {
    let Some(peer) = JavaPeer::start(scene.peer.redisson(), Jvm::Quick) else {
        return;
    };
    let client = peer.client(&scene.server.url()).watchdog(BRIEF).open();
    let thread = client.thread("a");
    thread.lock("orders").lock().unwrap();
    let owner = thread.owner();
    let waiting = waiter(scene.ours.lock("orders"));
    scene.until_awaited("orders", 1);

    peer.halt();
    let end = end_of_the_lease_of(&owner, scene).await;

    let (_guard, granted) = waiting.await.unwrap();
    assert_at_once("the lease of a halted JVM to ours", end, granted);
}

async fn java_gets_it_a_lease_after_our_process_was_killed(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let mut holder = Child::again("taking_over::holder", &[&scene.server.url()]);
    let owner = holder.hear(LIMIT);
    let waiting = java.begin_lock();
    scene.until_awaited("orders", 1);

    holder.kill();
    let end = end_of_the_lease_of(&owner, scene).await;

    let granted = waiting.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("the lease of a killed process to Java", end, granted.ended);
}

/// When the lease of a dead holder ends, by [`now`]; asserts that it still holds the lock.
async fn end_of_the_lease_of(owner: &str, scene: &Scene) -> Duration {
    let lock = scene.ours.lock("orders");
    let end = lease_end(&lock).await;
    let holders = lock.holders().await.unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].owner.as_str(), owner);
    end
}

/// A process of ours that holds the lock until it is killed.
pub(crate) fn holder(role: &Role) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let builder = Client::builder().url(&role.args()[0]);
        let client = builder.watchdog_lease(BRIEF).connect().await.unwrap();
        let guard = client.lock("orders").lock().await.unwrap();
        role.say(guard.owner_id().as_str());
        role.hear();
    });
}
