//! The first attempt, made by its caller's own future, and everything that may take it over; in paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::pin::pin;
use std::time::Duration;

use testkit::poll_once;
use tokio::time::{Instant, timeout};

use crate::coordination::Core;
use crate::coordination::waiting::waiting_tests::{Pair, ms, pair, settle};
use crate::engine::Lane;
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::testing::lying::{Lie, Lying, Match};
use crate::{Client, ErrorKind, Owner, Unlocked};

const ACQUIRE: &str = "lock/acquire";
const RELEASE: &str = "lock/release";
const LONG: Duration = Duration::from_secs(600);

fn acquires(pair: &Pair) -> usize {
    pair.lying.log_of(ACQUIRE).len()
}

#[tokio::test(start_paused = true)]
async fn a_second_call_waits_for_the_answer_to_the_first_calls_attempt() {
    let pair = pair("first-second");
    pair.lying.next_of(Match::script(ACQUIRE), Lie::Hang);
    let first = tokio::spawn(pair.us.lock("a").lock());
    settle().await;
    let second = tokio::spawn(pair.us.lock("a").lock());
    settle().await;

    assert_eq!(acquires(&pair), 1);
    pair.lying.release();

    let guard = first.await.unwrap().unwrap();
    assert!(!second.is_finished());
    guard.unlock().await.unwrap();
    drop(second.await.unwrap().unwrap());
}

#[tokio::test(start_paused = true)]
async fn the_same_owners_second_call_comes_in_with_the_first() {
    let pair = pair("first-owner");
    let lock = pair.us.lock("a").owned_by(&Owner::new());
    pair.lying.next_of(Match::script(ACQUIRE), Lie::Hang);
    let (first, second) = (tokio::spawn(lock.lock()), tokio::spawn(lock.lock()));
    settle().await;

    pair.lying.release();

    let _first = first.await.unwrap().unwrap();
    let second = timeout(LONG, second).await.unwrap().unwrap().unwrap();
    assert_eq!(second.hold_count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_dropped_leaves_no_lock_behind() {
    let pair = pair("first-gone");
    pair.lying.next_of(Match::script(ACQUIRE), Lie::Hang);
    let first = tokio::spawn(pair.us.lock("a").lock());
    settle().await;
    first.abort();
    settle().await;

    pair.lying.release();
    settle().await;

    assert!(!pair.them.lock("a").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_grant_whose_future_is_not_polled_is_given_back_after_a_second() {
    let pair = pair("first-kept");
    let begun = Instant::now();
    let mut kept = pin!(pair.us.lock("a").lock());
    assert!(poll_once(kept.as_mut()).is_pending());

    let theirs = pair.them.lock("a").lock().await.unwrap();

    let waited = begun.elapsed();
    assert!(waited >= ms(1000) && waited < ms(1100), "{waited:?}");
    theirs.unlock().await.unwrap();
    drop(kept.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_late_is_waited_for() {
    let pair = pair("first-late");
    let late = Lie::DelayReply(ms(2500));
    pair.lying.next_of(Match::script(ACQUIRE), late);

    let guard = pair.us.lock("a").lock().await.unwrap();

    assert_eq!(acquires(&pair), 1);
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_answer_is_unreachable_after_its_limit() {
    let pair = pair("first-hung");
    pair.lying.always(Match::script(ACQUIRE), Lie::Hang);

    let begun = Instant::now();
    let error = pair.us.lock("a").lock().await.unwrap_err();
    assert_eq!(
        (error.kind(), begun.elapsed()),
        (ErrorKind::Unreachable, ms(30_000))
    );

    let begun = Instant::now();
    let error = pair.us.lock("b").try_lock().await.unwrap_err();
    assert_eq!(
        (error.kind(), begun.elapsed()),
        (ErrorKind::Unreachable, ms(3000))
    );

    let begun = Instant::now();
    let error = pair.us.lock("c").try_lock_for(ms(100)).await.unwrap_err();
    assert_eq!(
        (error.kind(), begun.elapsed()),
        (ErrorKind::Unreachable, ms(180))
    );
}

#[tokio::test(start_paused = true)]
async fn a_first_attempt_at_a_shutdown_returns_closed() {
    let pair = pair("first-shutdown");
    let _held = pair.them.lock("a").lock().await.unwrap();
    pair.lying
        .next_of(Match::script(ACQUIRE), Lie::DelayReply(ms(100)));
    let asks = tokio::spawn(pair.us.lock("a").lock());
    settle().await;

    pair.us.shutdown(ms(1000)).await.unwrap();

    let error = timeout(LONG, asks).await.unwrap().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_fired_already_sends_nothing() {
    let pair = pair("first-cancelled");
    let token = crate::CancellationToken::new();
    token.cancel();

    let error = pair
        .us
        .lock("a")
        .cancelled_by(&token)
        .lock()
        .await
        .unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Cancelled);
    settle().await;
    assert_eq!(acquires(&pair), 0);
}

#[tokio::test(start_paused = true)]
async fn a_try_has_one_limit_for_all_it_does() {
    let pair = pair("first-one-limit");
    let lock = pair.us.lock("a").owned_by(&Owner::new());
    pair.lying
        .always(Match::script(ACQUIRE), Lie::DelayReply(ms(2900)));
    pair.lying.always(Match::script("lock/reenter"), Lie::Hang);
    let first = tokio::spawn(lock.try_lock());
    settle().await;
    let begun = Instant::now();

    let second = lock.try_lock().await.unwrap_err();

    assert_eq!(second.kind(), ErrorKind::Unreachable);
    assert!(begun.elapsed() <= ms(3100), "{:?}", begun.elapsed());
    first.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_try_that_gave_up_is_not_sent_after_our_release() {
    let pair = pair("first-gave-up");
    let held = pair.us.lock("a").lock().await.unwrap();
    pair.lying.next_of(Match::script(RELEASE), Lie::Hang);
    drop(held);
    settle().await;
    let tries = tokio::spawn(pair.us.lock("a").try_lock());
    settle().await;
    tries.abort();
    settle().await;

    pair.lying.release();
    settle().await;

    assert_eq!(acquires(&pair), 1);
}

/// The outer hold's unlock finds that another future is sending: that future may never be polled again.
#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_not_polled_on_does_not_keep_its_owner_from_leaving() {
    let pair = pair("unlock-kept");
    let outer = pair.us.lock("a").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    let mut kept = Box::pin(inner.unlock());
    assert!(poll_once(kept.as_mut()).is_pending());

    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);

    assert!(!pair.them.lock("a").is_locked().await.unwrap());
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_beside_an_unlock_that_is_not_polled_on_is_given_back() {
    let pair = pair("unlock-kept-drop");
    let outer = pair.us.lock("a").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    let mut kept = Box::pin(inner.unlock());
    assert!(poll_once(kept.as_mut()).is_pending());

    drop(outer);

    let begun = Instant::now();
    drop(pair.them.lock("a").lock().await.unwrap());
    assert!(begun.elapsed() < ms(3000), "{:?}", begun.elapsed());
    assert_eq!(kept.await.unwrap(), Unlocked::Released);
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_has_just_come_is_not_taken_away() {
    let pair = pair("first-fresh");
    let mut tries = pin!(pair.us.lock("a").try_lock_for(ms(10)));
    assert!(poll_once(tries.as_mut()).is_pending());
    tokio::time::sleep(ms(6)).await;

    assert!(tries.await.unwrap().is_some());
}

/// A call whose future was not polled for longer than its limit does not fail as if a healthy server did not answer.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_left_alone_asks_again_when_it_is_polled() {
    let pair = pair("first-left-alone");
    let (a, b, c) = (pair.us.lock("a"), pair.us.lock("b"), pair.us.lock("c"));
    let mut tries = pin!(a.try_lock());
    let mut asks = pin!(b.try_lock_for(ms(2000)));
    let mut insists = pin!(c.clone().max_wait(ms(2000)).lock());
    assert!(poll_once(tries.as_mut()).is_pending());
    assert!(poll_once(asks.as_mut()).is_pending());
    assert!(poll_once(insists.as_mut()).is_pending());
    tokio::time::sleep(ms(9000)).await;

    assert!(tries.await.unwrap().is_some());
    assert!(asks.await.unwrap().is_some());
    drop(insists.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_unlock_of_a_lost_lock_returns_lost_however_late_the_answer() {
    let pair = pair("unlock-late-lost");
    let guard = pair.us.lock("a").lock().await.unwrap();
    assert!(pair.them.lock("a").force_unlock().await.unwrap());
    pair.lying.next_of(
        Match::script(RELEASE).on(Lane::Commands),
        Lie::DelayReply(ms(1700)),
    );
    pair.lying.next_of(
        Match::script(RELEASE).on(Lane::Keeper),
        Lie::DelayReply(ms(1000)),
    );

    let error = guard.unlock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_waits_for_a_renewal_and_is_not_polled_on_is_taken_over() {
    let pair = pair("unlock-kept-renewing");
    let guard = pair.us.lock("a").lock().await.unwrap();
    pair.lying.next_of(Match::script("lock/renew"), Lie::Hang);
    pair.lying.seen("lock/renew", 1).await;
    let mut kept = Box::pin(guard.unlock());
    assert!(poll_once(kept.as_mut()).is_pending());

    let begun = Instant::now();
    drop(pair.them.lock("a").lock().await.unwrap());

    assert!(begun.elapsed() < ms(2000), "{:?}", begun.elapsed());
    drop(kept);
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_prolong_a_delayed_release() {
    let pair = pair("delay-renewal");
    let guard = pair.us.lock("a").lock().await.unwrap();
    pair.lying
        .next_of(Match::script("lock/renew"), Lie::DelayCall(ms(300)));
    pair.lying.seen("lock/renew", 1).await;

    guard.unlock_after(ms(1000)).await.unwrap();

    let begun = Instant::now();
    drop(pair.them.lock("a").lock().await.unwrap());
    assert!(begun.elapsed() < ms(1500), "{:?}", begun.elapsed());
}

/// A guard dropped beside a re-entry whose runtime is stopped is given back all the same.
#[test]
fn a_stopped_runtime_does_not_keep_the_lock() {
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    let (theirs, ours) = (runtime(), runtime());
    let engine = Lying::over_memory(MemoryEngine::open(Some("standing-still")));
    let settings = Settings {
        command_limit: ms(200),
        ..Settings::default()
    };
    let client = Client::of(Core::new(
        engine.clone(),
        settings,
        Some(theirs.handle().clone()),
    ));
    let guard = theirs.block_on(client.lock("a").lock()).unwrap();
    engine.next_of(Match::script("lock/reenter"), Lie::Hang);
    let again = theirs.block_on(async { timeout(ms(20), guard.relock()).await });
    assert!(again.is_err());

    drop(guard);

    let other = Client::of(Core::new(
        MemoryEngine::open(Some("standing-still")),
        Settings::default(),
        None,
    ));
    let waits = ours.block_on(async {
        let lock = other.lock("a").lock();
        timeout(Duration::from_secs(20), lock).await
    });
    drop(waits.expect("free before its lease ends").unwrap());
}

/// The first of two releases finds that the lock was taken away; the second is never sent, and no attempt may wait for it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_vanished_between_two_releases_can_be_taken_again() {
    let pair = pair("vanished-between");
    let outer = pair.us.lock("a").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    assert!(pair.them.lock("a").force_unlock().await.unwrap());
    pair.lying
        .next_of(Match::script(RELEASE), Lie::DelayReply(ms(100)));
    drop(inner);
    settle().await;
    drop(outer);
    settle().await;

    let begun = Instant::now();
    drop(pair.us.lock("a").lock().await.unwrap());

    assert!(begun.elapsed() < ms(1000), "{:?}", begun.elapsed());
}
