//! What the two sides do differently, compared on one server; further differences are tested in the files that they concern.

use std::time::{Duration, Instant};

use ferrolock::{Owner, Remaining};
use testkit::java::Redisson;
use testkit::{LIMIT, eventually};
use tokio::task::JoinSet;

use crate::record::Record;
use crate::scene::{Scene, channel, is_what_is_left, left};

stories!(
    a_lock_deleted_without_a_message_is_missed_by_java_and_found_by_ours,
    a_message_leads_to_one_attempt_of_ours_however_many_wait,
    an_unlock_of_java_takes_a_latch_and_one_of_ours_does_not,
    the_next_acquire_has_the_same_field_in_java_and_a_new_one_in_ours,
    a_label_is_seen_by_ours_alone,
);

const LEASE: Duration = Duration::from_secs(20);
/// Much shorter than what is left of the lease.
const BUDGET: Duration = Duration::from_secs(3);

/// W1, W30: nothing wakes Java before the end of the lease, and it makes no last attempt when its waiting time is over.
async fn a_lock_deleted_without_a_message_is_missed_by_java_and_found_by_ours(scene: &Scene) {
    for name in ["java's", "ours"] {
        let holder = scene.java.thread("holder").lock(name);
        holder.lock_for(LEASE).unwrap();
    }
    let java = scene.java.thread("a").lock("java's");
    let (owner, record) = (java.thread().owner(), Record::of(&scene.server));
    let waiting = java.begin_try_lock_within(BUDGET);
    // One attempt before it listens, one after: then it sleeps.
    let asked = || record.steps_of(&owner) == 2;
    eventually(LIMIT, "Java has asked twice", asked);
    let ours = tokio::spawn(scene.ours.lock("ours").try_lock_for(BUDGET));
    scene.until_awaited("ours", 1);

    scene.server.command(&["DEL", "java's", "ours"]);

    assert!(ours.await.unwrap().unwrap().is_some());
    assert!(!waiting.wait().unwrap());
    assert!(!java.is_locked().unwrap());
}

/// W19: one attempt is made for all waiters of a client.
async fn a_message_leads_to_one_attempt_of_ours_however_many_wait(scene: &Scene) {
    const MESSAGES: usize = 20;
    const WAITERS: usize = 10;
    let java = scene.java.thread("a").lock("orders");
    java.lock().unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = scene.ours.lock("orders");
        waiting.spawn(async move { lock.lock().await.unwrap().unlock().await.unwrap() });
    }
    scene.until_awaited("orders", 1);
    let (begun, record) = (Instant::now(), Record::of(&scene.server));

    for _ in 0..MESSAGES {
        let before = record.steps_of_client(scene.ours.id());
        scene.server.command(&["PUBLISH", &channel("orders"), "0"]);
        let asked = || record.steps_of_client(scene.ours.id()) > before;
        eventually(LIMIT, "ours asks", asked);
    }

    let asked = record.steps_of_client(scene.ours.id());
    // The first polls are a second apart, later ones further.
    let polls = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    eprintln!("{WAITERS} waiters asked {asked} times for {MESSAGES} messages");
    assert!(asked <= MESSAGES + polls, "{asked} and {polls}");
    java.unlock().unwrap();
    waiting.join_all().await;
}

/// W26.
async fn an_unlock_of_java_takes_a_latch_and_one_of_ours_does_not(scene: &Scene) {
    let java = scene.java.thread("a").lock("java's");
    let record = Record::of(&scene.server);

    java.lock().unwrap();
    java.unlock().unwrap();
    let guard = scene.ours.lock("ours").lock().await.unwrap();
    guard.unlock().await.unwrap();

    let lines = record.lines();
    let latches_of = |name: &str| {
        let latch = format!("\"redisson_unlock_latch:{{{name}}}:");
        lines.iter().filter(|line| line.contains(&latch)).count()
    };
    let javas = latches_of("java's");
    eprintln!("{javas} commands with a latch by Java");
    assert_eq!(javas > 0, scene.peer.redisson() == Redisson::Newest);
    assert_eq!(latches_of("ours"), 0);
    let written = lines.iter().filter(|line| line.contains("ferrolock_"));
    assert_eq!(written.count(), 0);
}

async fn the_next_acquire_has_the_same_field_in_java_and_a_new_one_in_ours(scene: &Scene) {
    let java = scene.java.thread("a").lock("java's");
    let ours = scene.ours.lock("ours").owned_by(&Owner::new());
    let mut fields = Vec::new();

    for _ in 0..2 {
        java.lock().unwrap();
        let guard = ours.lock().await.unwrap();
        fields.push(["java's", "ours"].map(|name| scene.holders(name)));
        java.unlock().unwrap();
        guard.unlock().await.unwrap();
    }

    assert_eq!(fields[0][0], fields[1][0]);
    assert_ne!(fields[0][1], fields[1][1]);
}

/// Java leaves the label's key behind when it forces the lock open. The key expires, and its label is not reported for the next
/// holder.
async fn a_label_is_seen_by_ours_alone(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let lock = scene.ours.lock("orders");
    let begun = Instant::now();
    let labelled = lock.clone().lease(LEASE).label("nightly");
    let guard = labelled.lock().await.unwrap();

    let holders = lock.holders().await.unwrap();
    assert_eq!(holders[0].label.as_deref(), Some("nightly"));
    assert!(java.is_locked().unwrap());
    assert!(is_what_is_left(left(&lock).await, LEASE, begun));
    assert!(java.force_unlock().unwrap());
    assert_eq!(lock.remaining().await.unwrap(), Remaining::Free);
    java.lock().unwrap();

    let holders = lock.holders().await.unwrap();
    assert_eq!(holders.len(), 1);
    assert_eq!(holders[0].owner.as_str(), java.thread().owner());
    assert_eq!(holders[0].label, None);
    let kept = scene.server.dump();
    let label = kept
        .iter()
        .find(|entry| entry.key == "ferrolock_holder:{orders}");
    assert!(label.is_some_and(|label| label.ttl.is_some()), "{kept:?}");
    assert!(guard.unlock().await.is_err());
    assert!(java.is_held().unwrap());
}
