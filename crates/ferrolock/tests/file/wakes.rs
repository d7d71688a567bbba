//! Messages between processes: waiters are woken, and processes that do not listen are not counted.

use std::fs::File;

use rustix::fs::{FlockOperation, flock};
use testkit::{LIMIT, eventually};

use crate::actor::Actor;
use crate::causes;
use crate::stage::{Store, boot_nanos, limited};

const ROUNDS: usize = 20;
/// A poll that is due at that moment may come first, on a machine that is busy otherwise.
const LOOKS_MAX: usize = 2;

/// A waiter in another process gets the lock by a message each time that `free` frees it.
fn assert_wakes(store: &Store, mut free: impl FnMut(&mut Actor)) {
    let mut holder = Actor::start();
    holder.connects(store);
    let mut woken = 0;
    for _ in 0..ROUNDS {
        holder.takes("x");
        let mut waiter = Actor::start();
        waiter.connects(store);
        waiter.waits("x");
        let freed = boot_nanos();

        free(&mut holder);

        woken += usize::from(waiter.gets().is_woken(freed));
        waiter.releases("x");
    }
    assert!(woken >= ROUNDS - LOOKS_MAX, "{woken} of {ROUNDS}");
}

#[test]
fn a_release_wakes_a_waiter_in_another_process() {
    let store = Store::new();

    assert_wakes(&store, |holder| holder.releases("x"));
}

#[test]
fn a_forced_release_wakes_a_waiter_in_another_process() {
    let store = Store::new();

    assert_wakes(&store, |holder| {
        assert_eq!(holder.does(&["force", "x"]), "true");
    });
}

/// The address of a socket has room for about a hundred bytes.
#[test]
fn a_store_with_a_long_path_wakes_waiters_too() {
    let store = Store::deep();
    assert!(store.path().as_os_str().len() > 300);

    assert_wakes(&store, |holder| holder.releases("x"));
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
    causes::begin();
    let store = Store::new();
    let (one, two) = (store.client().await, store.client().await);
    let (mut by_message, mut looks) = (0, 0);
    for round in 0..ROUNDS {
        let name = format!("of two clients {round}");
        let guard = one.lock(&name).lock().await.unwrap();
        let waits = tokio::spawn({
            let lock = two.lock(&name);
            async move { lock.lock().await.unwrap().unlock().await }
        });
        testkit::eventually_async(LIMIT, "it listens, and looks once more", async || {
            !causes::of_attempts(&name).is_empty()
        })
        .await;

        guard.unlock().await.unwrap();

        limited(waits).await.unwrap().unwrap();
        // The first grant was to the holder.
        let causes = causes::of(&name);
        by_message += usize::from(causes[1..] == ["message"]);
        // The waiter's last attempt before it sleeps may come after the release.
        let is_expected = ["message", "confirmed"].contains(&&*causes[1]);
        looks += usize::from(!is_expected);
    }
    eprintln!("{by_message} of {ROUNDS} by a message, {looks} by a look");
    assert!(by_message > 0 && looks <= LOOKS_MAX);
}

/// The release of a name returns how many listeners got the message. Processes that stopped listening, or were killed, are not
/// among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_stopped_listening_are_removed_from_the_list() {
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
        // One change to take the lock and one to release it: no listener is removed from the list now.
        store.changes() == changes + 2
    };
    testkit::eventually_async(LIMIT, "nobody is crossed off any more", quiet).await;
    assert!(store.changes() > before);
}

/// A process that is stopped receives nothing, and others do not wait for it.
#[test]
fn a_stopped_listener_does_not_delay_other_processes() {
    let store = Store::new();
    let (mut holder, mut listener) = (Actor::start(), Actor::start());
    holder.connects(&store);
    listener.connects(&store);
    holder.takes("x");
    listener.waits("x");
    // Stopped inside a change, it would block all others.
    let turn = File::open(store.file("turn")).unwrap();
    eventually(LIMIT, "it stands still outside", || {
        listener.stops();
        let is_outside = flock(&turn, FlockOperation::NonBlockingLockShared).is_ok();
        if is_outside {
            flock(&turn, FlockOperation::Unlock).unwrap();
        } else {
            listener.goes_on();
        }
        is_outside
    });

    // More messages than a socket holds.
    for _ in 0..1000 {
        holder.releases("x");
        holder.takes("x");
    }

    holder.releases("x");
    listener.goes_on();
    listener.gets();
}
