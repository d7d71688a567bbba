//! Threads that count under a lock.

use super::{Stage, stage};
use std::time::Duration;
use testkit::java::{Place, now};
use testkit::{Counter, LIMIT, eventually};

#[test]
fn rounds_on_a_key_are_counted_exactly_under_the_lock() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let loops = ["a", "b", "c"].map(|name| {
        let lock = client.thread(name).lock("orders");
        lock.rounds(Place::Key("count")).times(40).begin()
    });

    let done: u64 = loops
        .map(|pending| pending.wait().unwrap().done)
        .iter()
        .sum();

    assert_eq!(done, 120);
    assert_eq!(Counter::key(&server, "count").read(), 120);
}

#[test]
fn rounds_on_a_file_are_counted_with_ours() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let folder = testkit::store_folder();
    let path = folder.path().join("count");
    let counter = Counter::file(&path);
    counter.bump();

    let lock = client.thread("a").lock("orders");
    let looped = lock.rounds(Place::File(&path)).times(9).begin().wait();

    assert_eq!(looped.unwrap().done, 9);
    assert_eq!(counter.read(), 10);
}

/// Shows that the counter needs the lock: with one for each thread, counts are lost.
#[test]
fn without_exclusion_counts_are_lost() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let loops = ["a", "b", "c", "d"].map(|name| {
        let lock = client.thread(name).lock(name);
        lock.rounds(Place::Key("count")).times(300).begin()
    });

    for pending in loops {
        assert_eq!(pending.wait().unwrap().done, 300);
    }

    assert!(Counter::key(&server, "count").read() < 1200);
}

#[test]
fn a_loop_goes_on_until_it_is_stopped() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let (thread, counter) = (client.thread("a"), Counter::key(&server, "count"));
    let looping = thread.lock("orders").rounds(Place::Key("count")).begin();
    eventually(LIMIT, "five rounds", || counter.read() > 5);
    assert!(!looping.is_done());

    thread.stop();

    let looped = looping.wait().unwrap();
    assert_eq!(looped.done, counter.read());
    assert!(!looped.longest_wait().is_zero());
    assert_eq!(thread.lock("orders").is_locked(), Ok(false));
}

#[test]
fn a_loop_ends_at_its_moment_and_holds_as_long_as_told() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let lock = client.thread("a").lock("orders");
    let moment = now() + Duration::from_millis(300);
    let hold = Duration::from_millis(20);

    let looping = lock.rounds(Place::Key("count")).until(moment).hold(hold);
    let answer = looping.begin().answer(LIMIT);

    assert!(answer.ended >= moment, "{answer:?}");
    let rounds = answer.result.unwrap().done;
    assert!((1..=15).contains(&rounds), "{rounds}");
}
