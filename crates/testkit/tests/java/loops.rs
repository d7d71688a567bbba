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

/// Shows that the counter needs the lock: with a different lock for each thread, counts are lost.
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
fn a_loop_ends_at_its_time_and_holds_the_lock_for_the_given_time() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let lock = client.thread("a").lock("orders");
    let hold = Duration::from_millis(20);
    let moment = now() + Duration::from_millis(300);

    let looping = lock.rounds(Place::Key("count")).until(moment).hold(hold);
    let answer = looping.begin().answer(LIMIT);

    assert!(answer.ended >= moment, "{answer:?}");
    // If the machine stalls, there may be no time for any round.
    let rounds = u32::try_from(answer.result.unwrap().done).unwrap();
    assert!(rounds * hold <= answer.ended - answer.began, "{rounds}");
}

#[test]
fn a_stop_ends_no_loop_that_is_given_later() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let thread = client.thread("a");
    let rounds = || thread.lock("orders").rounds(Place::Key("count"));
    rounds().times(1).begin().wait().unwrap();

    thread.stop();
    let later = rounds().times(3).begin();

    assert_eq!(later.wait().unwrap().done, 3);
}

#[test]
fn a_stop_ends_a_loop_that_has_not_begun() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let (a, b) = (client.thread("a"), client.thread("b"));
    a.lock("orders").lock().unwrap();
    let waiting = b.lock("orders").begin_lock();
    server.wait_for_subscribers("redisson_lock__channel:{orders}", 1);
    let looping = b.lock("others").rounds(Place::Key("count")).begin();

    b.stop();
    a.lock("orders").unlock().unwrap();

    assert_eq!(waiting.wait(), Ok(()));
    assert_eq!(looping.wait().unwrap().done, 0);
}
