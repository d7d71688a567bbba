//! A client with a key prefix waits for the same lock as a client that writes the whole name, and each wakes the other.
//!
//! Both must derive the same channel from the name. A wrong channel only costs time, and shows only in the cause of the grant.

use crate::stage::{Stage, assert_led_to, unique, waits};

stories!(
    a_client_with_a_prefix_is_woken_by_one_without,
    a_client_without_a_prefix_is_woken_by_one_with_it,
    clients_with_one_prefix_wake_each_other,
    clients_whose_prefix_is_a_hash_tag_wake_each_other,
);

async fn a_client_with_a_prefix_is_woken_by_one_without(stage: &Stage) {
    assert_woken(stage, "", "app:", "app:").await;
}

async fn a_client_without_a_prefix_is_woken_by_one_with_it(stage: &Stage) {
    assert_woken(stage, "app:", "", "app:").await;
}

async fn clients_with_one_prefix_wake_each_other(stage: &Stage) {
    assert_woken(stage, "app:", "app:", "app:").await;
}

/// The hash tag decides the name of the channel.
async fn clients_whose_prefix_is_a_hash_tag_wake_each_other(stage: &Stage) {
    assert_woken(stage, "{eu}:", "", "{eu}:").await;
    assert_woken(stage, "", "{eu}:", "{eu}:").await;
}

/// A holder with the prefix `holders` releases the lock or forces it open: its message wakes the waiter with the prefix
/// `waiters`. The whole name of the lock begins with `prefix`.
async fn assert_woken(stage: &Stage, holders: &str, waiters: &str, prefix: &str) {
    let builder = |prefix| stage.builder().key_prefix(prefix);
    let holder = stage.connect_opposite(builder(holders)).await;
    let waiter = stage.connect(builder(waiters)).await;
    for way in ["unlock", "force"] {
        let whole = unique(&format!("{prefix}orders"));
        let name = |own: &str| whole.strip_prefix(own).unwrap().to_owned();
        let lock = holder.lock(name(holders));
        let held = lock.lock().await.unwrap();
        let waiting = waits(&waiter, &name(waiters));
        stage.rests(&waiter, &whole).await;

        match way {
            "unlock" => drop(held.unlock().await.unwrap()),
            _ => assert!(lock.force_unlock().await.unwrap()),
        }

        let guard = waiting.await.unwrap();
        assert_eq!(guard.name(), whole);
        assert_led_to("message", &guard);
    }
}
