//! A process that is stopped inside a change blocks all other changes: calls of other processes return in time, and name it.

use std::fs::File;
use std::os::unix::fs::DirBuilderExt;
use std::time::{Duration, Instant};

use ferrolock::{Client, ClientBuilder, ErrorKind};
use rustix::fs::{FlockOperation, flock};
use testkit::{LIMIT, eventually, eventually_async};

use crate::actor::Actor;
use crate::stage::{LONG, Store, limited};

/// How long a call may take here.
const COMMAND: Duration = Duration::from_millis(400);
/// More than ten times as long, for a machine under load.
const IN_TIME: Duration = Duration::from_secs(8);

/// A process that has the turn, and is stopped.
fn standing(store: &Store) -> Actor {
    let mut actor = Actor::start();
    let turn = store.file("turn");
    let turn = turn.to_str().unwrap();
    assert_eq!(actor.does(&["flock", "exclusive", turn]), "locked");
    actor.stops();
    actor
}

/// A client whose calls have a short limit. Connecting has a long one: to begin a store takes as long as the disk needs.
async fn hasty(store: &Store) -> Client {
    let builder = store.builder().command_limit(COMMAND);
    builder.connect_limit(LIMIT).connect().await.unwrap()
}

#[track_caller]
fn assert_names<T>(result: ferrolock::Result<T>, process: u32, begun: Instant) {
    let took = begun.elapsed();
    assert_named(result, process);
    assert!(took < IN_TIME, "{took:?}");
}

#[track_caller]
fn assert_named<T>(result: ferrolock::Result<T>, process: u32) {
    let Err(error) = result else {
        panic!("it cannot be done: process {process} is inside");
    };
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    let (text, named) = (error.to_string(), format!("process {process}"));
    assert!(text.contains(&named), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_return_in_time_and_name_the_stopped_process() {
    let store = Store::new();
    let client = hasty(&store).await;
    let held = client.lock("held").lock().await.unwrap();
    let inside = standing(&store);

    let (x, begun) = (client.lock("x"), Instant::now());
    assert_names(x.try_lock().await, inside.pid(), begun);
    let begun = Instant::now();
    assert_names(x.try_lock_for(COMMAND).await, inside.pid(), begun);
    let begun = Instant::now();
    assert_names(x.is_locked().await, inside.pid(), begun);
    let begun = Instant::now();
    assert_names(client.ping().await, inside.pid(), begun);
    let begun = Instant::now();
    assert_names(held.unlock().await, inside.pid(), begun);
    drop(inside);

    // The release is made although its caller waits for it no longer.
    eventually_async(LIMIT, "it is released", async || {
        client.lock("held").is_locked().await.is_ok_and(|is| !is)
    })
    .await;
}

/// A client connects at its first call, and that call is given up before the client is connected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_call_of_a_lazy_client_is_not_made_later_either() {
    let store = Store::begun();
    let inside = standing(&store);
    let client = store
        .builder()
        .command_limit(COMMAND)
        .connect_lazy()
        .unwrap();
    let begun = Instant::now();
    assert_names(client.lock("x").try_lock().await, inside.pid(), begun);
    drop(inside);

    let mut other = Actor::start();
    other.connects(&store);
    eventually_async(LIMIT, "calls work again", async || {
        client.ping().await.is_ok()
    })
    .await;

    other.takes("x");
}

/// Connecting fails at its limit, and not much later.
async fn assert_connects_in_vain(builder: ClientBuilder, limit: Duration, inside: &Actor) {
    let begun = Instant::now();
    let connected = builder.connect().await;
    let took = begun.elapsed();

    eprintln!("connecting was given up after {took:?} (limit {limit:?})");
    assert_named(connected, inside.pid());
    assert!(took >= limit && took < 10 * limit, "{took:?} of {limit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_returns_in_time_and_names_the_stopped_process() {
    let store = Store::begun();
    let inside = standing(&store);
    let builder = store.builder();

    let hasty = builder.clone().connect_limit(COMMAND);
    assert_connects_in_vain(hasty, COMMAND, &inside).await;
    inside.goes_on();
    drop(inside);

    let client = builder.connect_limit(LIMIT).connect().await.unwrap();
    assert!(client.lock("x").try_lock().await.unwrap().is_some());
}

/// An earlier version reported "another process" to a second client of a process that has the store open, and not which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_client_returns_in_time_and_names_the_stopped_process() {
    let store = Store::new();
    let _first = store.client().await;
    let inside = standing(&store);

    let hasty = store.builder().connect_limit(COMMAND);
    assert_connects_in_vain(hasty, COMMAND, &inside).await;
}

/// A process that changes the store all the time is stopped, again and again, until it is caught inside a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_keeps_to_the_default_limit_beside_a_process_stopped_inside_a_change() {
    const DEFAULT: Duration = Duration::from_secs(5);
    let (store, mut writer) = (Store::new(), Actor::start());
    writer.connects(&store);
    assert_eq!(writer.does(&["churn", "y"]), "begun");
    let turn = File::open(store.file("turn")).unwrap();
    eventually(LIMIT, "it is inside", || {
        writer.stops();
        match flock(&turn, FlockOperation::NonBlockingLockExclusive) {
            Err(_) => return true,
            Ok(()) => flock(&turn, FlockOperation::Unlock).unwrap(),
        }
        writer.goes_on();
        false
    });

    assert_connects_in_vain(store.builder(), DEFAULT, &writer).await;

    writer.goes_on();
    let client = store.client().await;
    assert!(client.lock("x").try_lock().await.unwrap().is_some());
}

/// The same in a process that has not opened the store before.
#[test]
fn a_fresh_process_returns_in_time_and_names_the_stopped_process() {
    let store = Store::begun();
    let inside = standing(&store);
    let mut fresh = Actor::start();

    let limit = COMMAND.as_millis().to_string();
    let answer = fresh.does(&["connect", &store.url(), "30000", &limit]);

    assert!(answer.starts_with("Unreachable"), "{answer}");
    let named = format!("process {}", inside.pid());
    assert!(answer.contains(&named), "{answer}");
}

/// A process that is stopped inside an LMDB transaction has LMDB's own lock too.
#[test]
fn a_fresh_process_does_not_hang_in_a_transaction_of_another() {
    let store = Store::begun();
    let (mut inside, mut fresh) = (Actor::start(), Actor::start());
    let (turn, map) = (store.file("turn"), store.map());
    let (turn, map) = (turn.to_str().unwrap(), map.to_str().unwrap());
    assert_eq!(inside.does(&["flock", "exclusive", turn]), "locked");
    assert_eq!(inside.does(&["transaction", map]), "begun");
    inside.stops();
    let limit = COMMAND.as_millis().to_string();

    let answer = fresh.does(&["connect", &store.url(), "30000", &limit]);
    let named = format!("process {}", inside.pid());
    assert!(answer.starts_with("Unreachable"), "{answer}");
    assert!(answer.contains(&named), "{answer}");
    inside.is_killed();

    fresh.connects(&store);
    fresh.takes("x");
}

/// A process is stopped while it begins the store: calls of other processes return in time and name it, and other stores are
/// not blocked.
#[test]
fn a_process_that_is_stopped_while_it_begins_a_store_is_named() {
    let (store, other) = (Store::new(), Store::new());
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(store.path())
        .unwrap();
    std::fs::write(store.file("store"), "").unwrap();
    let (mut inside, mut fresh) = (Actor::start(), Actor::start());
    let file = store.file("store");
    assert_eq!(
        inside.does(&["flock", "exclusive", file.to_str().unwrap()]),
        "locked"
    );
    inside.stops();
    let limit = COMMAND.as_millis().to_string();

    let answer = fresh.does(&["connect", &store.url(), "30000", &limit]);
    let named = format!("process {}", inside.pid());
    assert!(answer.starts_with("Unreachable"), "{answer}");
    assert!(answer.contains(&named), "{answer}");
    fresh.connects(&other);
    fresh.takes("x");
    inside.is_killed();

    fresh.connects(&store);
    fresh.takes("x");
}

/// In an earlier version, each call of a client that was not connected yet had a thread of its own, for as long as the other
/// process was stopped.
#[test]
fn many_clients_that_wait_to_open_a_store_share_one_thread() {
    const CLIENTS: usize = 40;
    let store = Store::begun();
    let (inside, mut fresh) = (standing(&store), Actor::start());
    let called = |actor: &Actor, name: &str| {
        let threads = actor.threads().into_iter();
        threads.filter(|thread| thread == name).count()
    };
    let not_ours = |actor: &Actor| {
        let threads = actor.threads().into_iter();
        threads
            .filter(|thread| !thread.starts_with("ferrolock-"))
            .count()
    };
    // After its first answer, it has started all of its own threads.
    assert_eq!(fresh.does(&["close"]), "closed");
    let before = not_ours(&fresh);

    let begun = fresh.does(&["first calls", &store.url(), &CLIENTS.to_string()]);
    assert_eq!(begun, "begun");
    eventually(LIMIT, "all new threads have their names", || {
        not_ours(&fresh) == before
    });

    assert_eq!(called(&fresh, "ferrolock-opens"), 1);
    drop(inside);
    let ended = fresh.does(&["first calls end"]);
    assert_eq!(ended, format!("{CLIENTS} ended"));
    eventually(LIMIT, "nobody opens it any more", || {
        called(&fresh, "ferrolock-opens") == 0
    });
}

/// A call that was given up is not made later, not even to be undone at once: no other client may find the lock taken by it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_given_up_is_not_made_later() {
    let store = Store::new();
    let client = hasty(&store).await;
    drop(client.lock("first").lock().await.unwrap());
    eventually_async(LIMIT, "it is released", async || {
        !client.lock("first").is_locked().await.unwrap()
    })
    .await;
    let before = store.changes();
    let inside = standing(&store);

    for name in ["a", "b", "c"] {
        let dropped = tokio::time::timeout(COMMAND / 4, client.lock(name).try_lock()).await;
        assert!(dropped.is_err());
        assert!(client.lock(name).try_lock().await.is_err());
    }
    drop(inside);
    eventually_async(LIMIT, "calls work again", async || {
        client.ping().await.is_ok()
    })
    .await;

    for name in ["a", "b", "c"] {
        assert!(!client.lock(name).is_locked().await.unwrap());
    }
    assert_eq!(store.changes(), before, "something was changed meanwhile");
}

/// The same for calls that would have waited.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_was_given_up_is_not_granted_later() {
    let store = Store::new();
    let client = hasty(&store).await;
    let inside = standing(&store);

    assert!(client.lock("a").try_lock_for(COMMAND).await.is_err());
    let dropped = tokio::time::timeout(COMMAND, client.lock("b").lock()).await;
    assert!(dropped.is_err());
    drop(inside);
    eventually_async(LIMIT, "calls work again", async || {
        client.ping().await.is_ok()
    })
    .await;

    let mut other = Actor::start();
    other.connects(&store);
    other.takes("a");
    other.takes("b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_calls_are_granted_when_the_stopped_process_continues() {
    let store = Store::new();
    let client = store.client().await;
    let inside = standing(&store);
    let mut waits = Box::pin(client.lock("x").lock());
    assert!(testkit::poll_once(waits.as_mut()).is_pending());

    inside.goes_on();
    drop(inside);

    let guard = limited(waits).await.unwrap();
    assert!(guard.is_held());
}

/// A holder whose renewals cannot be made reports the loss before its lease ends, and no other client takes the lock before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_cannot_be_renewed_is_lost_in_time() {
    let store = Store::new();
    let lease = Duration::from_secs(3);
    let client = store
        .builder()
        .watchdog_lease(lease)
        .connect()
        .await
        .unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    let begun = Instant::now();

    let inside = standing(&store);
    let reason = limited(guard.lost()).await;

    let took = begun.elapsed();
    eprintln!("a hold of {lease:?} was lost after {took:?}: {reason}");
    assert_eq!(reason, ferrolock::LostReason::Expired);
    assert!(took < 10 * lease, "{took:?}");
    drop(inside);
    let mut other = Actor::start();
    other.connects_with_lease(&store, LONG);
    assert_eq!(other.does(&["lock", "x"]), "held");
}
