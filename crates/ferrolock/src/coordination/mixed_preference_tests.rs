//! Handles of one read-write lock with and without `prefer_writers` in one client: they share a line.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use std::time::Duration;

use crate::coordination::fair_tests::{client_now, s};
use crate::testing::scenes::{Pair, insider, ms, pair};
use crate::{Client, ErrorKind, Owner, WriteGuard};

type Writer = tokio::task::JoinHandle<WriteGuard>;

async fn writes(client: &Client, prefers: bool) -> Writer {
    let lock = client.rw_lock("x");
    let lock = if prefers { lock.prefer_writers() } else { lock };
    let waiting = tokio::spawn(async move { lock.write().await.unwrap() });
    tokio::time::sleep(ms(10)).await;
    waiting
}

/// Whether a reader that lets writers go first gets in.
async fn is_open(client: &Client) -> bool {
    let tried = client.rw_lock("x").prefer_writers().try_read().await;
    match tried.unwrap() {
        Some(reading) => reading.unlock().await.is_ok(),
        None => false,
    }
}

/// Once, it had no intent before it was the first of its line, and none when the pauses of that line grew longer than it lasts.
#[tokio::test(start_paused = true)]
async fn a_writer_keeps_readers_out_also_behind_one_that_does_not() {
    let Pair { us, them, .. } = pair("mixed_writers");
    let reading = them.rw_lock("x").read().await.unwrap();
    let plain = writes(&us, false).await;
    tokio::time::sleep(s(30)).await;
    assert!(is_open(&them).await);

    let preferred = writes(&us, true).await;
    for _ in 0..60 {
        assert!(!is_open(&them).await);
        tokio::time::sleep(ms(700)).await;
    }

    let begun = client_now(&us);
    reading.unlock().await.unwrap();
    plain.await.unwrap().unlock().await.unwrap();
    preferred.await.unwrap().unlock().await.unwrap();
    assert!(client_now(&us).since(begun) < ms(10), "by messages");
    assert!(is_open(&them).await);
}

/// The one in front keeps them out for both; when it has gone, the next of them does.
#[tokio::test(start_paused = true)]
async fn of_several_such_writers_one_keeps_readers_out() {
    let Pair { lying, us, them } = pair("mixed_many");
    let reading = them.rw_lock("x").read().await.unwrap();
    let mut waiters = vec![writes(&us, false).await];
    for _ in 0..3 {
        waiters.push(writes(&us, true).await);
    }
    let before = lying.log_of("rw_lock/write_acquire").len();
    tokio::time::sleep(s(20)).await;
    let asked = lying.log_of("rw_lock/write_acquire").len() - before;
    assert!(
        (30..=55).contains(&asked),
        "by the front and one more: {asked}"
    );

    for _ in 0..3 {
        waiters.remove(1).abort();
        for _ in 0..10 {
            let is_last = waiters.len() == 1;
            tokio::time::sleep(ms(250)).await;
            assert_eq!(is_open(&them).await, is_last);
        }
    }
    reading.unlock().await.unwrap();
    waiters.remove(0).await.unwrap().unlock().await.unwrap();
}

/// A plain writer that comes later gets the lock in its turn, and keeps readers out no longer than the others do.
#[tokio::test(start_paused = true)]
async fn a_plain_writer_behind_one_that_prefers_keeps_no_reader_out() {
    let Pair { us, them, .. } = pair("mixed_later");
    let reading = them.rw_lock("x").read().await.unwrap();
    let preferred = writes(&us, true).await;
    let plain = writes(&us, false).await;
    assert!(!is_open(&them).await);

    preferred.abort();
    tokio::time::sleep(ms(10)).await;
    for _ in 0..20 {
        assert!(is_open(&them).await);
        tokio::time::sleep(ms(300)).await;
    }

    reading.unlock().await.unwrap();
    plain.await.unwrap().unlock().await.unwrap();
}

/// Once, it waited behind the reader that lets the writer go first. A nested read would have waited for ever.
#[tokio::test(start_paused = true)]
async fn a_reader_that_does_not_let_writers_go_first_waits_behind_none_that_does() {
    let Pair { lying, us, them } = pair("mixed_readers");
    let outer = us.rw_lock("x").read().await.unwrap();
    let writer = writes(&them, true).await;
    let polite = tokio::spawn(us.rw_lock("x").prefer_writers().read());
    tokio::time::sleep(s(5)).await;
    let asked = lying.log_of("rw_lock/read_acquire").len();

    for _ in 0..10 {
        let nested = tokio::time::timeout(ms(5), us.rw_lock("x").read()).await;
        nested.unwrap().unwrap().unlock().await.unwrap();
    }

    assert!(!polite.is_finished() && !writer.is_finished());
    let asked = lying.log_of("rw_lock/read_acquire").len() - asked;
    assert!(asked <= 12, "one for each of them: {asked}");
    outer.unlock().await.unwrap();
    writer.await.unwrap().unlock().await.unwrap();
    polite.await.unwrap().unwrap().unlock().await.unwrap();
}

/// The guard is believed until it notices: at its next renewal, or when it is asked.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_read_hold_was_forced_open_may_write_as_soon_as_its_guard_has_noticed() {
    for asks in [true, false] {
        let (client, _, core) = insider();
        let owner = Owner::new();
        let lock = client.rw_lock("x").owned_by(&owner);
        let reading = lock.read().await.unwrap();
        assert!(lock.read_lock().force_unlock().await.unwrap());
        let error = lock.write().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
        let begun = core.now();

        match asks {
            true => assert!(reading.check().await.is_err()),
            false => drop(reading.lost().await),
        }

        let waited = core.now().since(begun);
        let limit = if asks { Duration::ZERO } else { s(10) };
        assert!(waited <= limit, "{waited:?}");
        lock.write().await.unwrap().unlock().await.unwrap();
    }
}
