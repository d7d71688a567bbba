//! Messages between processes: whoever waits is woken, and nobody is counted who does not listen.

use std::time::Duration;

use testkit::{LIMIT, eventually};

use crate::actor::Actor;
use crate::stage::{Store, boot_nanos};

/// The first look of somebody who hears nothing comes after a second, the next ones later and later.
const SOONER_THAN_A_LOOK: Duration = Duration::from_millis(900);
const ROUNDS: usize = 20;

/// How long a waiter in another process needs to get the lock, each time that `free` frees it.
fn wake_ups(store: &Store, mut free: impl FnMut(&mut Actor)) -> Vec<Duration> {
    let (mut holder, mut waiter) = (Actor::start(), Actor::start());
    holder.connects(store);
    waiter.connects(store);
    let mut took: Vec<_> = (0..ROUNDS)
        .map(|_| {
            holder.takes("x");
            waiter.begins(&["lock at", "x"]);
            eventually(LIMIT, "it listens", || {
                store.sessions().iter().any(|name| name.ends_with(".wake"))
            });
            let freed = boot_nanos();
            free(&mut holder);
            let at: u64 = waiter.answers().parse().unwrap();
            waiter.releases("x");
            Duration::from_nanos(at.saturating_sub(freed))
        })
        .collect();
    took.sort_unstable();
    eprintln!(
        "woken after {:?}, at most {:?}",
        took[ROUNDS / 2],
        took[ROUNDS - 1]
    );
    took
}

/// Not by a look of its own: half of all must come sooner than any look could, also on a busy machine.
fn assert_woken(took: &[Duration]) {
    assert!(took[took.len() / 2] < SOONER_THAN_A_LOOK, "{took:?}");
}

#[test]
fn a_release_wakes_a_waiter_in_another_process() {
    let store = Store::new();

    assert_woken(&wake_ups(&store, |holder| holder.releases("x")));
}

#[test]
fn a_forced_release_wakes_a_waiter_in_another_process() {
    let store = Store::new();

    assert_woken(&wake_ups(&store, |holder| {
        assert_eq!(holder.does(&["force", "x"]), "true");
    }));
}

/// The address of a socket holds some hundred bytes.
#[test]
fn a_long_path_is_no_hindrance() {
    let store = Store::deep();
    assert!(store.path().as_os_str().len() > 300);

    assert_woken(&wake_ups(&store, |holder| holder.releases("x")));
    let mut killed = Actor::start();
    killed.connects(&store);
    killed.takes("x");
    killed.is_killed();
    let mut next = Actor::start();
    next.connects(&store);
    next.takes("x");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_of_a_process_wake_each_other() {
    let store = Store::new();
    let (one, two) = (store.client().await, store.client().await);
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        let guard = one.lock("x").lock().await.unwrap();
        let waits = tokio::spawn({
            let lock = two.lock("x");
            async move {
                let guard = lock.lock().await.unwrap();
                let at = boot_nanos();
                guard.unlock().await.unwrap();
                at
            }
        });
        testkit::eventually_async(LIMIT, "it listens", async || store.sessions().len() == 2).await;
        let freed = boot_nanos();
        guard.unlock().await.unwrap();
        took.push(Duration::from_nanos(
            waits.await.unwrap().saturating_sub(freed),
        ));
    }
    took.sort_unstable();

    assert_woken(&took);
}

/// A holder that frees a name is told how many heard of it. Those who stopped listening, or were killed, did not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stopped_listening_is_not_written_down_any_more() {
    let store = Store::new();
    let holder = store.client().await;
    let guard = holder.lock("x").lock().await.unwrap();
    let before = store.changes();
    let (mut patient, mut killed) = (Actor::start(), Actor::start());
    patient.connects(&store);
    killed.connects(&store);
    patient.begins(&["try for", "x", "2000"]);
    killed.begins(&["lock", "x"]);
    eventually(LIMIT, "both listen", || store.sessions().len() == 5);
    assert_eq!(patient.answers(), "busy");
    killed.is_killed();

    guard.unlock().await.unwrap();
    let quiet = async || {
        let changes = store.changes();
        holder
            .lock("x")
            .lock()
            .await
            .unwrap()
            .unlock()
            .await
            .unwrap();
        // One change to take it and one to give it back: nobody is crossed off the list any more.
        store.changes() == changes + 2
    };
    testkit::eventually_async(LIMIT, "nobody is crossed off any more", quiet).await;
    assert!(store.changes() > before);
}

/// A process that stands still hears nothing, and nobody waits for it.
#[test]
fn a_listener_that_stands_still_holds_nobody_up() {
    let store = Store::new();
    let (mut holder, mut listener) = (Actor::start(), Actor::start());
    holder.connects(&store);
    listener.connects(&store);
    holder.takes("x");
    listener.begins(&["lock", "x"]);
    eventually(LIMIT, "it listens", || store.sessions().len() == 3);
    listener.stops();

    // More messages than a socket holds.
    for _ in 0..1000 {
        holder.releases("x");
        holder.takes("x");
    }

    holder.releases("x");
    listener.goes_on();
    assert_eq!(listener.answers(), "held");
}
