//! Waiting from end to end, in paused time: the real machinery over a memory engine that lies on demand.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use testkit::poll_once;
use tokio::time::Instant;

use crate::testing::lying::{Lie, Match};
pub(super) use crate::testing::scenes::{Pair, ms, pair};
use crate::{CancellationToken, ErrorKind};

const ACQUIRE: &str = "lock/acquire";
const HOUR: Duration = Duration::from_secs(3600);

/// Lets everything happen that needs no time, and very little more.
pub(super) async fn settle() {
    tokio::time::sleep(ms(5)).await;
}

impl Pair {
    /// Waits for the lock in a task and gives it back; returns how long the grant took from now.
    fn waits(&self, name: &str) -> tokio::task::JoinHandle<Duration> {
        let (lock, begun) = (self.us.lock(name).lock(), Instant::now());
        tokio::spawn(async move {
            let guard = lock.await.unwrap();
            let waited = begun.elapsed();
            guard.unlock().await.unwrap();
            waited
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_is_heard_at_once() {
    let pair = pair("waiting-release");
    let held = pair.them.lock("a").lock().await.unwrap();
    let waits = pair.waits("a");
    tokio::time::sleep(ms(300)).await;

    held.unlock().await.unwrap();

    let waited = waits.await.unwrap();
    assert!(waited >= ms(300) && waited < ms(310), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_lease_is_waited_for_to_the_millisecond() {
    let pair = pair("waiting-expiry");
    let held = pair.them.lock("a").lease(ms(700)).lock().await.unwrap();
    std::mem::forget(held);

    let waited = pair.waits("a").await.unwrap();

    assert!(waited >= ms(700) && waited < ms(710), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_forced_unlock_is_heard_at_once() {
    let pair = pair("waiting-force");
    let _held = pair.them.lock("a").lock().await.unwrap();
    let waits = pair.waits("a");
    tokio::time::sleep(ms(300)).await;

    assert!(pair.them.lock("a").force_unlock().await.unwrap());

    let waited = waits.await.unwrap();
    assert!(waited < ms(310), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_lost_message_costs_a_fresh_waiter_at_most_a_second() {
    let pair = pair("waiting-lost-message");
    let held = pair.them.lock("a").lock().await.unwrap();
    let waits = pair.waits("a");
    tokio::time::sleep(ms(100)).await;

    pair.lying.drop_messages(1);
    held.unlock().await.unwrap();

    let waited = waits.await.unwrap();
    assert!(waited >= ms(750) && waited <= ms(1010), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_deleted_by_hand_is_found_within_two_seconds_and_by_a_settled_waiter_within_ten() {
    for (settled, most) in [(ms(0), ms(2000)), (ms(120_000), ms(10_000))] {
        for round in 0..20 {
            let pair = pair("waiting-deleted");
            let held = pair.them.lock("a").lease(HOUR).lock().await.unwrap();
            std::mem::forget(held);
            let waits = pair.waits("a");
            tokio::time::sleep(settled + ms(37 * round)).await;
            let begun = Instant::now();

            pair.lying.forget();

            waits.await.unwrap();
            let waited = begun.elapsed();
            assert!(waited <= most + ms(10), "{waited:?} after {settled:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_between_the_attempt_and_the_sleep_is_not_lost_with_the_subscription() {
    let pair = pair("waiting-cut-before-sleep");
    let held = pair.them.lock("a").lock().await.unwrap();
    // The attempt after the confirmed subscription: its busy stays on the way while everything happens.
    pair.lying
        .next_of(Match::script(ACQUIRE), Lie::DelayReply(ms(1)));
    pair.lying.next_of(Match::script(ACQUIRE), Lie::HangReply);
    let waits = pair.waits("a");
    pair.lying.seen(ACQUIRE, 2).await;
    let begun = Instant::now();

    pair.lying.cut_subscriptions();
    held.unlock().await.unwrap();
    pair.lying.heal();

    waits.await.unwrap();
    assert!(begun.elapsed() < ms(20), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_gap_wakes_a_sleeping_waiter() {
    let pair = pair("waiting-gap");
    let held = pair.them.lock("a").lock().await.unwrap();
    let waits = pair.waits("a");
    settle().await;
    pair.lying.cut_subscriptions();
    held.unlock().await.unwrap();
    tokio::time::sleep(ms(200)).await;
    assert!(!waits.is_finished());

    pair.lying.heal();

    let waited = waits.await.unwrap();
    assert!(waited < ms(220), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_is_not_taken_goes_to_the_next_after_a_second_unrenewed() {
    let pair = pair("waiting-offer");
    let mut kept = pin!(pair.us.lock("a").watchdog_lease(ms(9000)).lock());
    assert!(poll_once(kept.as_mut()).is_pending());
    let begun = Instant::now();
    let (local, other) = (pair.us.clone(), pair.them.clone());
    let local = tokio::spawn(async move {
        let guard = local.lock("a").lock().await.unwrap();
        let waited = begun.elapsed();
        guard.unlock().await.unwrap();
        waited
    });
    let other = tokio::spawn(async move {
        let guard = other.lock("a").lock().await.unwrap();
        let waited = begun.elapsed();
        guard.unlock().await.unwrap();
        waited
    });

    let (local, other) = (local.await.unwrap(), other.await.unwrap());

    for waited in [local, other] {
        assert!(waited >= ms(990) && waited <= ms(1100), "{waited:?}");
    }
    assert_eq!(pair.lying.log_of("lock/renew").len(), 0);
    let guard = kept.await.unwrap();
    assert!(guard.is_held());
    assert_eq!(pair.lying.log_of("lock/renew").len(), 0);
    tokio::time::sleep(ms(3100)).await;
    assert_eq!(pair.lying.log_of("lock/renew").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_short_lease_is_offered_for_a_third_of_it() {
    let pair = pair("waiting-short-offer");
    let mut kept = pin!(pair.us.lock("a").watchdog_lease(ms(300)).lock());
    assert!(poll_once(kept.as_mut()).is_pending());
    let begun = Instant::now();

    let guard = pair.them.lock("a").lock().await.unwrap();

    assert!(
        begun.elapsed() >= ms(95) && begun.elapsed() < ms(120),
        "{:?}",
        begun.elapsed()
    );
    assert!(guard.is_held());
    assert_eq!(pair.lying.log_of("lock/renew").len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_not_polled_on_does_not_keep_local_waiters_out() {
    let pair = pair("waiting-unlock-kept");
    let held = pair.us.lock("a").lock().await.unwrap();
    let mut kept = pin!(held.unlock());
    assert!(poll_once(kept.as_mut()).is_pending());
    let begun = Instant::now();

    let guard = pair.us.lock("a").lock().await.unwrap();

    assert!(begun.elapsed() <= ms(3100), "{:?}", begun.elapsed());
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn local_waiters_are_served_in_their_order() {
    let pair = pair("waiting-order");
    let held = pair.them.lock("a").lock().await.unwrap();
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut waiters = tokio::task::JoinSet::new();
    for number in 0..20 {
        let (lock, order) = (pair.us.lock("a").lock(), order.clone());
        waiters.spawn(async move {
            let guard = lock.await.unwrap();
            order.lock().unwrap().push(number);
            guard.unlock().await.unwrap();
        });
        settle().await;
    }

    held.unlock().await.unwrap();
    waiters.join_all().await;

    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_passes_its_wake_up_on() {
    let pair = pair("waiting-passes-on");
    let held = pair.them.lock("a").lock().await.unwrap();
    let first = pair.us.lock("a").lock();
    let first = tokio::spawn(first);
    settle().await;
    let second = pair.waits("a");
    settle().await;
    // The wake-up leads to an attempt for the first waiter, which is gone before its grant comes.
    pair.lying
        .next_of(Match::script(ACQUIRE), Lie::DelayReply(ms(50)));
    let attempts = pair.lying.log_of(ACQUIRE).len();
    held.unlock().await.unwrap();
    pair.lying.seen(ACQUIRE, attempts + 1).await;

    first.abort();

    let waited = second.await.unwrap();
    assert!(waited < ms(100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn the_last_attempt_finds_a_lock_that_was_freed_without_a_message() {
    let pair = pair("waiting-last-chance");
    let held = pair.them.lock("a").lease(HOUR).lock().await.unwrap();
    std::mem::forget(held);
    let begun = Instant::now();
    let waits = tokio::spawn(pair.us.lock("a").try_lock_for(ms(400)));
    tokio::time::sleep(ms(100)).await;

    pair.lying.forget();

    assert!(waits.await.unwrap().unwrap().is_some());
    assert!(
        begun.elapsed() >= ms(400) && begun.elapsed() < ms(410),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn no_time_to_wait_is_one_attempt() {
    let pair = pair("waiting-zero");
    let held = pair.them.lock("a").lock().await.unwrap();

    assert!(
        pair.us
            .lock("a")
            .try_lock_for(ms(0))
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(pair.lying.log_of(ACQUIRE).len(), 1);
    held.unlock().await.unwrap();
    assert!(
        pair.us
            .lock("a")
            .try_lock_for(ms(0))
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(pair.lying.log_of(ACQUIRE).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_time_out_tells_how_long_was_waited_and_what_the_holder_has_left() {
    let pair = pair("waiting-times-out");
    let _held = pair.them.lock("a").lease(ms(60_000)).lock().await.unwrap();

    let error = pair
        .us
        .lock("a")
        .max_wait(ms(2500))
        .lock()
        .await
        .unwrap_err();

    assert_eq!(error.kind(), ErrorKind::TimedOut);
    let (waited, left) = (error.waited().unwrap(), error.holder_remaining().unwrap());
    assert!(waited >= ms(2500) && waited < ms(2510), "{waited:?}");
    assert!(left > ms(57_000) && left <= ms(57_500), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_token_ends_the_wait() {
    let pair = pair("waiting-token");
    let _held = pair.them.lock("a").lock().await.unwrap();
    let token = CancellationToken::new();
    let waits = tokio::spawn(pair.us.lock("a").cancelled_by(&token).lock());
    tokio::time::sleep(ms(500)).await;
    assert!(!waits.is_finished());

    token.cancel();

    let error = waits.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn fifty_waiters_share_the_attempts_of_one() {
    let pair = pair("waiting-fifty");
    let _held = pair.them.lock("a").lease(HOUR).lock().await.unwrap();
    let waits: Vec<_> = (0..50).map(|_| pair.waits("a")).collect();
    tokio::time::sleep(ms(1000)).await;
    let before = pair.lying.log().len();

    tokio::time::sleep(ms(100_000)).await;

    let calls = pair.lying.log().len() - before;
    assert!(calls <= 20, "{calls} in 100 s");
    assert!(waits.iter().all(|waits| !waits.is_finished()));
}

#[tokio::test(start_paused = true)]
async fn a_gap_of_ten_thousand_names_never_has_more_than_64_attempts_in_flight() {
    const NAMES: usize = 10_000;
    const REPLY: Duration = Duration::from_millis(50);
    let pair = pair("waiting-crowd");
    let mut waits = tokio::task::JoinSet::new();
    for name in 0..NAMES {
        let held = pair.them.lock(name.to_string()).lease(HOUR).lock();
        std::mem::forget(held.await.unwrap());
        let lock = pair.us.lock(name.to_string()).lock();
        waits.spawn(async move { lock.await.unwrap().unlock().await.unwrap() });
    }
    tokio::time::sleep(ms(2)).await;
    pair.lying.cut_subscriptions();
    pair.lying.forget();
    pair.lying
        .always(Match::script(ACQUIRE), Lie::DelayReply(REPLY));
    let before = pair.lying.log().len();

    pair.lying.heal();
    waits.join_all().await;

    let log = pair.lying.log_of(ACQUIRE);
    let sent: Vec<_> = log
        .iter()
        .filter(|seen| seen.lie.is_some())
        .map(|seen| seen.at)
        .collect();
    assert!(sent.len() >= NAMES && before > NAMES);
    let in_flight = |at: usize| {
        let (now, earlier) = (sent[at], &sent[..at]);
        1 + earlier
            .iter()
            .rev()
            .take_while(|sent| now.since(**sent) < REPLY)
            .count()
    };
    let most = (0..sent.len()).map(in_flight).max().unwrap();
    assert!(most <= 64, "{most}");
    assert!(most > 32, "the limit was not even approached: {most}");
}

/// The offer would have ended by itself a second later.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_dropped_with_an_offer_gives_the_lock_back_at_once() {
    let pair = pair("waiting-offer-dropped");
    let held = pair.them.lock("a").lock().await.unwrap();
    let mut kept = Box::pin(pair.us.lock("a").lock());
    assert!(poll_once(kept.as_mut()).is_pending());
    // A caller that does not poll its first attempt is put into the line after a second.
    tokio::time::sleep(ms(1500)).await;
    held.unlock().await.unwrap();
    settle().await;
    assert!(pair.them.lock("a").is_locked().await.unwrap());

    drop(kept);
    settle().await;

    assert!(!pair.them.lock("a").is_locked().await.unwrap());
    assert!(pair.them.lock("a").try_lock().await.unwrap().is_some());
}
