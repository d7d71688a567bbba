//! The first attempt in its caller's own hands, and all who may take it out of them; in paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::pin::pin;
use std::time::Duration;

use testkit::poll_once;
use tokio::time::{Instant, timeout};

use super::waiting_tests::{Pair, ms, pair, settle};
use crate::engine::lying::{Lie, Match};
use crate::{ErrorKind, Owner, Unlocked};

const ACQUIRE: &str = "lock/acquire";
const RELEASE: &str = "lock/release";
const LONG: Duration = Duration::from_secs(600);

fn acquires(pair: &Pair) -> usize {
    pair.lying.log_of(ACQUIRE).len()
}

#[tokio::test(start_paused = true)]
async fn whoever_comes_second_waits_for_the_first_ones_answer() {
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
async fn a_caller_who_goes_leaves_nothing_behind() {
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
async fn a_grant_that_nobody_looks_at_is_given_back_after_a_second() {
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
async fn who_asks_when_the_client_shuts_down_is_told() {
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

/// The other hold's unlock finds "somebody is sending": that somebody must not be able to sleep for ever.
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
