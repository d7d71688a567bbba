//! Waits, leases, interrupts and the clock.

use super::{Stage, stage};
use std::time::Duration;
use testkit::java::{MS, json, now};
use testkit::{JavaPeer, Kind, LIMIT, Server};

const CHANNEL: &str = "redisson_lock__channel:{orders}";

#[test]
fn a_lease_is_what_was_asked_for() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let lock = client.thread("a").lock("orders");

    lock.lock_for(Duration::from_secs(300)).unwrap();

    let left = server.command(&["PTTL", "orders"]).int();
    assert!((200_000..=300_000).contains(&left), "{left}");
    let remaining = lock.remaining_ms().unwrap();
    assert!((200_000..=left).contains(&remaining), "{remaining}");
    lock.unlock().unwrap();
    assert_eq!(lock.remaining_ms(), Ok(-2));
}

#[test]
fn a_lock_without_a_lease_has_the_time_of_the_watchdog() {
    let Some(java) = JavaPeer::here() else { return };
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::start(Kind::Redis);
    let watchdog = Duration::from_secs(200);
    let client = java.client(&server.url()).watchdog(watchdog).open();

    client.thread("a").lock("orders").lock().unwrap();

    let left = server.command(&["PTTL", "orders"]).int();
    assert!((100_000..=200_000).contains(&left), "{left}");
}

#[test]
fn a_wait_lasts_as_long_as_was_asked_for() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    client.thread("a").lock("orders").lock().unwrap();
    let lock = client.thread("b").lock("orders");

    let answer = lock
        .begin_try_lock_within(Duration::from_millis(300))
        .answer(LIMIT);
    let leased = lock.try_lock_within_for(Duration::from_millis(10), Duration::from_secs(9));

    assert_eq!(answer.result, Ok(false));
    let took = answer.ended - answer.began;
    assert!(took >= Duration::from_millis(295), "{took:?}");
    assert_eq!(leased, Ok(false));
}

#[test]
fn times_in_answers_are_of_the_clock_that_all_processes_share() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let lock = client.thread("a").lock("orders");
    for _ in 0..20 {
        let before = now();
        let answer = lock.begin::<bool>("isLocked", json!([])).answer(LIMIT);
        let after = now();

        assert!(before < answer.began, "{before:?} {answer:?}");
        assert!(answer.began < answer.ended, "{answer:?}");
        assert!(answer.ended < after, "{answer:?} {after:?}");
    }
}

#[test]
fn a_thread_that_waits_can_be_interrupted_and_used_again() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let (a, b) = (client.thread("a"), client.thread("b"));
    a.lock("orders").lock().unwrap();
    let waiting = b.lock("orders").begin::<()>("lockInterruptibly", json!([]));
    server.wait_for_subscribers(CHANNEL, 1);

    b.interrupt();

    let thrown = waiting.wait().unwrap_err();
    // After subscribing, it tries once more before it waits; an interrupt of that attempt is shown as a cause.
    let text = thrown.to_string();
    assert!(text.contains("java.lang.InterruptedException"), "{text}");
    a.lock("orders").unlock().unwrap();
    assert_eq!(b.lock("orders").try_lock(), Ok(true));
}

#[test]
fn an_interrupt_of_an_idle_thread_interrupts_its_next_call() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let thread = client.thread("a");
    let id = thread.id();

    thread.interrupt();
    let next = thread.lock("orders").begin::<String>("getName", json!([]));

    let next = next.answer(LIMIT);
    assert!(next.was_interrupted);
    assert_eq!(next.thread, id);
    let after = thread.lock("orders").begin::<String>("getName", json!([]));
    assert!(!after.answer(LIMIT).was_interrupted);
}

#[test]
fn threads_wait_side_by_side_and_each_does_one_thing_after_the_other() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let (a, b) = (client.thread("a"), client.thread("b"));
    a.lock("orders").lock().unwrap();

    let waiting = b.lock("orders").begin_lock();
    server.wait_for_subscribers(CHANNEL, 1);
    let behind = b.lock("free").begin::<bool>("tryLock", json!([10, MS]));
    let beside = a.lock("free").try_lock();

    assert_eq!(beside, Ok(true));
    assert!(!waiting.is_done() && !behind.is_done());
    a.lock("orders").unlock().unwrap();
    assert_eq!(waiting.wait(), Ok(()));
    assert_eq!(behind.wait(), Ok(false));
}
