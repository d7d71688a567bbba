//! A process of one side is stopped for longer than its lease: the other side takes over, and late calls do no harm.

use std::time::{Duration, Instant};

use ferrolock::{Client, ErrorKind, Guard, LostReason};
use testkit::java::{JavaLock, JavaPeer, Jvm, now};
use testkit::process::{Child, Role};
use testkit::{LIMIT, eventually};

use crate::record::Record;
use crate::scene::{Scene, assert_at_once, is_what_is_left, lease_end, left, waiter};

stories!(
    ours_takes_over_from_a_frozen_jvm_and_keeps_it,
    java_takes_over_from_a_frozen_process_of_ours_and_keeps_it,
    a_jvm_that_was_frozen_waiting_gets_it_in_its_turn,
    a_process_of_ours_that_was_frozen_waiting_gets_it_in_its_turn,
);

/// Of the processes that are stopped.
const LEASE: Duration = Duration::from_secs(3);
/// Of the processes that take over: never renewed, so that any change is seen.
const FIXED: Duration = Duration::from_secs(60);

/// A JVM that will be stopped, if there is Java, and its lock.
fn sleeper(scene: &Scene) -> Option<(JavaPeer, JavaLock)> {
    let peer = JavaPeer::start(scene.peer.redisson(), Jvm::Quick)?;
    let client = peer.client(&scene.server.url()).watchdog(LEASE).open();
    let lock = client.thread("a").lock("orders");
    Some((peer, lock))
}

async fn ours_takes_over_from_a_frozen_jvm_and_keeps_it(scene: &Scene) {
    let Some((peer, java)) = sleeper(scene) else {
        return;
    };
    java.lock().unwrap();
    let owner = java.thread().owner();

    peer.stop_signal();
    let end = lease_end(&scene.ours.lock("orders")).await;
    let (guard, granted) = waiter(scene.ours.lock("orders").lease(FIXED))
        .await
        .unwrap();
    assert_at_once("a frozen JVM's lease to ours", end, granted);
    let (begun, record) = (Instant::now(), Record::of(&scene.server));
    peer.cont_signal();
    let renewed = || record.steps_of(&owner) > 0;
    eventually(LIMIT, "the late renewal of Java", renewed);
    let late = java.unlock().unwrap_err();

    assert!(late.is("IllegalMonitorStateException"), "{late}");
    assert_ours_is_untouched(scene, &guard, begun, &record).await;
    guard.unlock().await.unwrap();
    assert!(java.try_lock().unwrap());
}

async fn assert_ours_is_untouched(
    scene: &Scene,
    guard: &Guard,
    begun: Instant,
    record: &Record<'_>,
) {
    let ours = guard.owner_id().as_str().to_owned();
    assert_eq!(scene.holders("orders"), [(ours, 1)]);
    let rest = left(&scene.ours.lock("orders")).await;
    // The lock was taken a little before `begun`.
    assert!(is_what_is_left(rest, FIXED, begun - LEASE), "{rest:?}");
    assert_eq!(record.messages("orders"), 0);
    guard.check().await.unwrap();
}

async fn java_takes_over_from_a_frozen_process_of_ours_and_keeps_it(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let mut sleeper = Child::again("freezing::sleeper_of_ours", &[&scene.server.url(), "holds"]);
    assert_eq!(sleeper.hear(LIMIT), "holding");

    sleeper.stop_signal();
    let end = lease_end(&scene.ours.lock("orders")).await;
    java.lock_for(FIXED).unwrap();
    assert_at_once("the lease of a frozen process to Java", end, now());
    let (begun, record) = (Instant::now(), Record::of(&scene.server));
    sleeper.cont_signal();

    assert_eq!(sleeper.hear(LIMIT), "lost in time, and the unlock says so");
    assert_eq!(scene.holders("orders"), [(java.thread().owner(), 1)]);
    let rest = left(&scene.ours.lock("orders")).await;
    assert!(is_what_is_left(rest, FIXED, begun - LEASE), "{rest:?}");
    assert_eq!(record.messages("orders"), 0);
    java.unlock().unwrap();
    assert!(!scene.ours.lock("orders").is_locked().await.unwrap());
}

/// When the JVM continues, the messages of all the releases that it missed have arrived.
async fn a_jvm_that_was_frozen_waiting_gets_it_in_its_turn(scene: &Scene) {
    let Some((peer, java)) = sleeper(scene) else {
        return;
    };
    let lock = scene.ours.lock("orders").lease(FIXED);
    let mut guard = lock.lock().await.unwrap();
    let owner = java.thread().owner();
    let record = Record::of(&scene.server);
    let waiting = java.begin_lock();
    scene.until_awaited("orders", 1);
    let asked = || record.steps_of(&owner) == 2;
    eventually(LIMIT, "Java has asked twice", asked);

    peer.stop_signal();
    for _ in 0..5 {
        guard.unlock().await.unwrap();
        guard = lock.lock().await.unwrap();
    }
    peer.cont_signal();
    let asked = || record.steps_of(&owner) > 2;
    eventually(LIMIT, "Java asks again", asked);
    assert!(!waiting.is_done());
    guard.check().await.unwrap();
    let unlocking = now();
    guard.unlock().await.unwrap();

    let granted = waiting.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("to a JVM that was frozen", unlocking, granted.ended);
    assert_eq!(scene.holders("orders"), [(owner, 1)]);
    java.unlock().unwrap();
}

async fn a_process_of_ours_that_was_frozen_waiting_gets_it_in_its_turn(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    java.lock().unwrap();
    let mut sleeper = Child::again("freezing::sleeper_of_ours", &[&scene.server.url(), "waits"]);
    scene.until_awaited("orders", 1);

    sleeper.stop_signal();
    for _ in 0..5 {
        java.unlock().unwrap();
        java.lock().unwrap();
    }
    sleeper.cont_signal();
    sleeper.say("hello");
    assert_eq!(sleeper.hear(LIMIT), "waiting");
    assert!(java.is_held().unwrap());
    let unlocking = now();
    java.unlock().unwrap();

    assert_eq!(sleeper.hear(LIMIT), "granted");
    assert_at_once("to a process that was frozen", unlocking, now());
    assert_eq!(sleeper.hear(LIMIT), "unlocked");
    assert!(java.try_lock().unwrap());
}

/// A process of ours that holds or waits, and reports what happened.
pub(crate) fn sleeper_of_ours(role: &Role) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let builder = Client::builder().url(&role.args()[0]);
        let client = builder.watchdog_lease(LEASE).connect().await.unwrap();
        match role.args()[1].as_str() {
            "holds" => holds(&client, role).await,
            _ => waits(&client, role).await,
        }
        role.hear();
    });
}

async fn holds(client: &Client, role: &Role) {
    let guard = client.lock("orders").lock().await.unwrap();
    role.say("holding");
    let reason = guard.lost().await;
    let late = guard.unlock().await.unwrap_err();
    // By the clock, or by the answer to a renewal, whichever is checked first.
    let is_right = matches!(reason, LostReason::Expired | LostReason::TakenOver);
    match is_right && late.kind() == ErrorKind::Lost {
        true => role.say("lost in time, and the unlock says so"),
        false => role.say(&format!("{reason:?}, {late}")),
    }
}

async fn waits(client: &Client, role: &Role) {
    let waiting = waiter(client.lock("orders"));
    let asked = role.clone();
    tokio::task::spawn_blocking(move || asked.hear())
        .await
        .unwrap();
    match waiting.is_finished() {
        true => role.say("granted too early"),
        false => role.say("waiting"),
    }
    let (guard, _) = waiting.await.unwrap();
    role.say("granted");
    guard.unlock().await.unwrap();
    role.say("unlocked");
}
