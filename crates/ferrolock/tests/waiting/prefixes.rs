//! A client with a key prefix waits for the same lock as one that writes the whole name, and is woken by it.
//!
//! Both must make the same channel of it. A wrong one costs nothing but time, and shows only in what led to the grant.

use ferrolock::Client;

use crate::stage::{Stage, assert_led_to, unique, waits};

stories!(
    a_client_with_a_prefix_is_woken_by_one_without,
    a_client_without_a_prefix_is_woken_by_one_with_it,
    clients_with_one_prefix_wake_each_other,
    a_prefix_that_is_a_tag_is_as_good_as_any_other,
);

async fn a_client_with_a_prefix_is_woken_by_one_without(stage: &Stage) {
    wakes(stage, "", "app:", "app:").await;
}

async fn a_client_without_a_prefix_is_woken_by_one_with_it(stage: &Stage) {
    wakes(stage, "app:", "", "app:").await;
}

async fn clients_with_one_prefix_wake_each_other(stage: &Stage) {
    wakes(stage, "app:", "app:", "app:").await;
}

/// The tag decides what the channel is called.
async fn a_prefix_that_is_a_tag_is_as_good_as_any_other(stage: &Stage) {
    wakes(stage, "{eu}:", "", "{eu}:").await;
    wakes(stage, "", "{eu}:", "{eu}:").await;
}

/// The waiter, with the one prefix, gets what the holder, with the other, gives back or forces open: by its message.
///
/// Everybody else finds the lock under the name with `prefix` before it.
async fn wakes(stage: &Stage, holders: &str, waiters: &str, prefix: &str) {
    let (holder, waiter) = (
        with_prefix(stage, holders).await,
        with_prefix(stage, waiters).await,
    );
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

async fn with_prefix(stage: &Stage, prefix: &str) -> Client {
    let builder = stage.builder().key_prefix(prefix);
    builder.connect().await.unwrap()
}
