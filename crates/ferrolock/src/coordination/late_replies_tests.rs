//! Replies that come late, in paused time: every deadline counts from before the send, and a grant whose time is over
//! when it comes is given back.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code: a failure ends the test"
)]

use std::pin::pin;
use std::time::Duration;

use testkit::poll_once;
use tokio::time::{Instant, sleep, timeout};

use crate::engine::Lane;
use crate::options::Settings;
use crate::testing::lying::{Lie, Match};
use crate::testing::scenes::{Pair, ms, pair};
use crate::{Client, ErrorKind, Guard, Lock, Owner, Remaining};

const ACQUIRE: &str = "lock/acquire";
const REENTER: &str = "lock/reenter";
const RENEW: &str = "lock/renew";
const RELEASE: &str = "lock/release";

/// No wait of these tests is as long.
const LONG: Duration = Duration::from_secs(600);

/// How late a reply is where a deadline is looked at.
const DELAY: Duration = Duration::from_millis(400);

impl Pair {
    fn delays(&self, script: &'static str, by: Duration) {
        self.lying
            .next_of(Match::script(script), Lie::DelayReply(by));
    }

    async fn is_free(&self, name: &str) -> bool {
        !self.them.lock(name).is_locked().await.unwrap()
    }
}

async fn soon<T>(call: impl Future<Output = T>) -> T {
    match timeout(LONG, call).await {
        Ok(value) => value,
        Err(_) => panic!("it hangs"),
    }
}

/// The lease is 2 s, its margin 100 ms, and the reply came after [`DELAY`].
#[track_caller]
fn is_shortened(guard: &Guard, way: &str) {
    assert_eq!(guard.remaining(), ms(1900) - DELAY, "{way}");
}

fn two_seconds(client: &Client, name: &str) -> Lock {
    client.lock(name).watchdog_lease(ms(2000))
}

#[tokio::test(start_paused = true)]
async fn a_first_acquire_counts_from_before_the_send() {
    let pair = pair("late-first");
    let lock = two_seconds(&pair.us, "a");
    pair.delays(ACQUIRE, DELAY);
    is_shortened(&soon(lock.lock()).await.unwrap(), "lock");

    let lock = two_seconds(&pair.us, "b");
    pair.delays(ACQUIRE, DELAY);
    is_shortened(&soon(lock.try_lock()).await.unwrap().unwrap(), "try_lock");
}

#[tokio::test(start_paused = true)]
async fn an_acquire_after_waiting_counts_from_before_the_send() {
    let pair = pair("late-waiting");
    let held = pair.them.lock("a").lock().await.unwrap();
    let waiter = tokio::spawn(two_seconds(&pair.us, "a").lock());
    sleep(ms(50)).await;

    pair.delays(ACQUIRE, DELAY);
    held.unlock().await.unwrap();

    is_shortened(&soon(waiter).await.unwrap().unwrap(), "after a message");
}

#[tokio::test(start_paused = true)]
async fn a_try_beside_other_callers_counts_from_before_the_send() {
    let pair = pair("late-try");
    let held = two_seconds(&pair.us, "a").lock().await.unwrap();
    pair.lying.next_of(Match::script(RELEASE), Lie::Hang);
    drop(held);
    sleep(ms(5)).await;
    let tries = tokio::spawn(two_seconds(&pair.us, "a").try_lock());
    sleep(ms(5)).await;

    pair.delays(ACQUIRE, DELAY);
    pair.lying.release();

    let guard = soon(tries).await.unwrap().unwrap().unwrap();
    is_shortened(&guard, "a try that waited for our own release");
}

#[tokio::test(start_paused = true)]
async fn a_re_entry_counts_from_before_the_send() {
    let pair = pair("late-reentry");
    let lock = two_seconds(&pair.us, "a").owned_by(&Owner::new());
    let _outer = lock.lock().await.unwrap();

    pair.delays(REENTER, DELAY);
    is_shortened(&soon(lock.lock()).await.unwrap(), "lock");
    pair.delays(REENTER, DELAY);
    is_shortened(&soon(lock.try_lock()).await.unwrap().unwrap(), "try_lock");
}

#[tokio::test(start_paused = true)]
async fn a_relock_counts_from_before_the_send() {
    let pair = pair("late-relock");
    let outer = two_seconds(&pair.us, "a").lock().await.unwrap();

    pair.delays(REENTER, DELAY);

    is_shortened(&soon(outer.relock()).await.unwrap(), "relock");
}

#[tokio::test(start_paused = true)]
async fn a_renewal_counts_from_before_the_send() {
    let pair = pair("late-renewal");
    let guard = two_seconds(&pair.us, "a").lock().await.unwrap();
    let late = Match::script(RENEW).on(Lane::Keeper);
    // Shorter than the limit of a renewal, a sixth of the lease: it is not doubted.
    let delay = ms(200);
    pair.lying.next_of(late, Lie::DelayReply(delay));
    soon(pair.lying.seen(RENEW, 1)).await;

    sleep(delay + ms(1)).await;

    let sent = pair.lying.log_of(RENEW).last().unwrap().at;
    let since = pair.us.core().now().since(sent);
    assert!(since >= delay);
    assert_eq!(guard.remaining(), ms(1900) - since);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_counts_from_before_the_send() {
    let pair = pair("late-by-hand");
    let guard = pair.us.lock("a").lease(ms(1000)).lock().await.unwrap();

    pair.delays(RENEW, DELAY);
    soon(guard.renew(ms(2000))).await.unwrap();

    is_shortened(&guard, "renew");
}

/// On every way in: the first reply comes 1.2 s after it was asked for, for a lease of 1 s.
const TOO_LATE: Duration = Duration::from_millis(1200);

fn one_second(client: &Client, name: &str) -> Lock {
    client.lock(name).lease(ms(1000))
}

#[tokio::test(start_paused = true)]
async fn a_first_grant_that_is_over_when_it_comes_is_given_back_and_the_caller_waits_on() {
    let pair = pair("over-first");
    pair.delays(ACQUIRE, TOO_LATE);

    let guard = soon(one_second(&pair.us, "a").lock()).await.unwrap();

    assert!(guard.is_held());
    assert!(guard.remaining() > ms(900), "{:?}", guard.remaining());
    assert_eq!(pair.lying.log_of(ACQUIRE).len(), 2);
    assert_eq!(pair.them.lock("a").holders().await.unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_grant_after_waiting_that_is_over_when_it_comes_is_given_back() {
    let pair = pair("over-waiting");
    let held = pair.them.lock("a").lock().await.unwrap();
    let waiter = tokio::spawn(one_second(&pair.us, "a").lock());
    sleep(ms(50)).await;

    pair.delays(ACQUIRE, TOO_LATE);
    held.unlock().await.unwrap();

    let guard = soon(waiter).await.unwrap().unwrap();
    assert!(guard.remaining() > ms(900), "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn a_try_whose_grant_is_over_when_it_comes_is_unreachable_and_says_by_how_much() {
    let pair = pair("over-try");
    pair.delays(ACQUIRE, TOO_LATE);

    let error = soon(one_second(&pair.us, "a").try_lock())
        .await
        .unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("after 1.2s"), "{error}");
    sleep(ms(5)).await;
    assert!(pair.is_free("a").await);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_before_its_late_grant_is_unreachable() {
    let pair = pair("over-wait");
    pair.delays(ACQUIRE, TOO_LATE);
    let tries = one_second(&pair.us, "a").try_lock_for(ms(1150));

    let error = soon(tries).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("after 1.2s"), "{error}");
    sleep(ms(5)).await;
    assert!(pair.is_free("a").await);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_always_slower_than_the_lease_is_unreachable() {
    let pair = pair("over-always");
    pair.lying
        .always(Match::script(ACQUIRE), Lie::DelayReply(TOO_LATE));
    let begun = Instant::now();

    let error = soon(one_second(&pair.us, "a").lock()).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable);
    // Since the first of its grants came.
    let patience = Settings::default().unreachable_after;
    assert_eq!(begun.elapsed(), TOO_LATE + patience);
    sleep(TOO_LATE + ms(5)).await;
    assert!(pair.is_free("a").await);
}

/// The outer hold has time; the inner one's is over when its reply comes.
#[tokio::test(start_paused = true)]
async fn a_re_entry_that_is_over_when_it_comes_is_given_back_and_tried_again() {
    let pair = pair("over-reentry");
    let owner = Owner::new();
    let outer = pair.us.lock("a").owned_by(&owner).lock().await.unwrap();
    let lock = one_second(&pair.us, "a").owned_by(&owner);
    pair.delays(REENTER, TOO_LATE);

    let inner = soon(lock.lock()).await.unwrap();

    assert!(inner.remaining() > ms(900), "{:?}", inner.remaining());
    assert_eq!(outer.hold_count(), 2);
    assert_eq!(pair.them.lock("a").holders().await.unwrap()[0].count, 2);

    pair.delays(REENTER, TOO_LATE);
    let error = soon(lock.try_lock()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.to_string().contains("after 1.2s"), "{error}");
    sleep(ms(5)).await;
    assert_eq!(pair.them.lock("a").holders().await.unwrap()[0].count, 2);
}

/// The grant is offered in time, and its caller takes it when its time is over: before the keeper, which is late itself after
/// the machine has slept.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_fetched_too_late_is_given_back() {
    let pair = pair("over-fetched");
    let held = pair.them.lock("a").lock().await.unwrap();
    let mut waiter = pin!(one_second(&pair.us, "a").lock());
    assert!(poll_once(waiter.as_mut()).is_pending());
    // Its first attempt is handed over to the driver after a third of the lease.
    sleep(ms(500)).await;
    held.unlock().await.unwrap();
    soon(pair.lying.seen(ACQUIRE, 3)).await;
    sleep(ms(5)).await;

    // Polled once, the clock has moved and no task has run.
    let jump = pin!(tokio::time::advance(ms(1000)));
    assert!(poll_once(jump).is_pending());
    assert!(poll_once(waiter.as_mut()).is_pending());

    let guard = soon(waiter).await.unwrap();
    assert!(guard.remaining() > ms(900), "{:?}", guard.remaining());
}

/// It runs when its sender has long given up, while the repeat of it holds the lock, or has held it.
#[tokio::test(start_paused = true)]
async fn a_first_acquire_that_runs_beside_its_repeat_harms_nothing_and_is_released() {
    for held_for in [ms(100), ms(3000)] {
        let pair = pair(&format!("late-repeat-{}", held_for.as_millis()));
        let late = Lie::Late(ms(1500));
        pair.lying.next_of(Match::script(ACQUIRE), late);

        let guard = soon(pair.us.lock("a").lock()).await.unwrap();
        let owner = guard.owner_id().clone();
        sleep(held_for).await;
        assert!(guard.is_held());
        let holders = pair.them.lock("a").holders().await.unwrap();
        assert_eq!(holders.len(), 1);
        assert_eq!(holders[0].owner, owner);
        guard.unlock().await.unwrap();

        // The late one took it for no caller; the next release on the schedule comes after 3 s.
        sleep(ms(3100)).await;
        assert!(pair.is_free("a").await, "held for {held_for:?}");
        assert_eq!(
            pair.them.lock("a").remaining().await.unwrap(),
            Remaining::Free
        );
    }
}

/// However long the lease, other clients do not wait for it.
#[tokio::test(start_paused = true)]
async fn a_late_acquire_with_a_lease_of_an_hour_is_free_within_ten_seconds() {
    let pair = pair("late-hour");
    pair.lying
        .next_of(Match::script(ACQUIRE), Lie::Late(ms(25_000)));
    let lock = pair.us.lock("a").lease(Duration::from_secs(3600));
    assert!(soon(lock.try_lock()).await.is_err());
    sleep(ms(25_001)).await;
    assert!(!pair.is_free("a").await);

    sleep(ms(10_000)).await;

    assert!(pair.is_free("a").await);
}

/// How long it waited for a holder before is no reason to stop.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_limit_goes_on_after_a_late_grant_however_long_it_has_waited() {
    let pair = pair("late-after-long");
    let held = pair.them.lock("a").lock().await.unwrap();
    let owner = Owner::new();
    let first = tokio::spawn(pair.us.lock("a").owned_by(&owner).lock());
    let second = pair.us.lock("a").owned_by(&owner).lease(ms(1000));
    let second = tokio::spawn(second.lock());
    sleep(ms(60_000)).await;
    pair.delays(REENTER, ms(1200));

    held.unlock().await.unwrap();

    let _first = soon(first).await.unwrap().unwrap();
    assert!(soon(second).await.unwrap().unwrap().is_held());
}

/// But not for ever: a server that is too slow each time is as good as one that does not answer.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_limit_gives_up_when_its_grants_are_late_again_and_again() {
    let pair = pair("late-always");
    let owner = Owner::new();
    let lock = pair.us.lock("a").owned_by(&owner);
    let _first = lock.lock().await.unwrap();
    let late = Match::script(REENTER);
    pair.lying.always(late, Lie::DelayReply(ms(1200)));
    let begun = Instant::now();

    let error = soon(lock.lease(ms(1000)).lock()).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable);
    let waited = begun.elapsed();
    assert!(waited >= ms(30_000) && waited < ms(33_000), "{waited:?}");
}

/// The store was removed while the grant was on its way, and all holds that were known here were lost: another client may
/// have the lock.
#[tokio::test(start_paused = true)]
async fn a_grant_whose_data_was_removed_before_its_reply_came_is_given_back() {
    let pair = pair("removed");
    pair.delays(ACQUIRE, DELAY);
    let mut taking = pin!(pair.us.lock("a").lock());
    assert!(poll_once(taking.as_mut()).is_pending());

    pair.lying.removed_once();

    assert!(soon(taking).await.unwrap().is_held());
    assert_eq!(pair.lying.log_of(ACQUIRE).len(), 2);
    assert_eq!(pair.lying.log_of(RELEASE).len(), 1);
}
