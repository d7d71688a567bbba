//! Guards dropped faster than their releases are answered: the number of releases under way and owed has a bound, in paused
//! time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::coordination::keeper::pending::{PendingWork, WorkKind};
use crate::engine::Lane;
use crate::testing::lying::{Lie, Lying, Match};
use crate::testing::scenes::{insider, ms};
use crate::{CancellationToken, Client, ErrorKind};

const RELEASE: &str = "lock/release";
/// The most that may be under way, and owed.
const SENDS_MAX: usize = 128;
const RELEASES_MAX: usize = 4096;

const LONG: Duration = Duration::from_secs(600);

/// Drops `count` guards; none of their releases is answered until [`answer`].
async fn owe(client: &Client, engine: &Lying, count: usize) {
    let dropped = Match::script(RELEASE).on(Lane::Keeper);
    engine.always(dropped, Lie::Hang);
    for n in 0..count {
        drop(client.lock(format!("dropped/{n}")).lock().await.unwrap());
    }
    sleep(ms(1)).await;
}

/// Lets all calls run that hang now, and those that follow.
async fn answer(engine: &Lying) {
    engine.honest();
    engine.release();
    sleep(ms(1)).await;
}

#[tokio::test(start_paused = true)]
async fn at_most_128_releases_of_dropped_guards_are_under_way_at_once() {
    let (client, engine, core) = insider();

    owe(&client, &engine, 1000).await;

    assert_eq!(engine.hanging(), SENDS_MAX);
    assert_eq!(core.pending.releases(), 1000);
    answer(&engine).await;
    assert_eq!(core.pending.all(), 0);
}

#[tokio::test(start_paused = true)]
async fn acquires_wait_while_too_many_releases_are_owed_and_go_on_when_they_are_answered() {
    let (client, engine, _) = insider();
    owe(&client, &engine, RELEASES_MAX).await;
    drop(timeout(LONG, client.lock("the last").lock()).await.unwrap());
    sleep(ms(1)).await;
    let next = tokio::spawn(client.lock("next").lock());
    sleep(ms(100)).await;
    assert!(!next.is_finished());

    answer(&engine).await;

    let guard = timeout(ms(1), next).await.unwrap().unwrap().unwrap();
    assert!(guard.is_held());
}

/// Each way to acquire keeps its usual limit.
#[tokio::test(start_paused = true)]
async fn an_acquire_waits_for_releases_within_its_own_limits() {
    let (client, engine, _) = insider();
    owe(&client, &engine, RELEASES_MAX + 1).await;
    let lock = client.lock("next");
    let (lock_1s, begun) = (lock.clone().max_wait(ms(1000)), Instant::now());

    let tries = lock.try_lock().await.unwrap_err();
    assert_eq!(begun.elapsed(), ms(3000));
    let waits = lock_1s.lock().await.unwrap_err();
    assert_eq!(begun.elapsed(), ms(4000));
    let waits_for = lock.try_lock_for(ms(500)).await.unwrap_err();
    assert_eq!(begun.elapsed(), ms(4500));

    for error in [tries, waits, waits_for] {
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.to_string().contains("4097 releases"), "{error}");
    }
    let token = CancellationToken::new();
    let cancelled = tokio::spawn(lock.clone().cancelled_by(&token).lock());
    let closed = tokio::spawn(lock.lock());
    sleep(ms(1)).await;
    token.cancel();
    let cancelled = timeout(ms(1), cancelled).await.unwrap().unwrap();
    assert_eq!(cancelled.unwrap_err().kind(), ErrorKind::Cancelled);
    let _ = client.shutdown(ms(1)).await;
    let closed = timeout(ms(1), closed).await.unwrap().unwrap();
    assert_eq!(closed.unwrap_err().kind(), ErrorKind::Closed);
}

/// The time of waiting for releases counts for the limit, also for a call that goes through a line.
#[tokio::test(start_paused = true)]
async fn a_try_has_one_limit_over_waiting_for_releases_and_for_the_server() {
    let (client, engine, _) = insider();
    let held = client.lock("next").lock().await.unwrap();
    owe(&client, &engine, RELEASES_MAX + 1).await;
    let begun = Instant::now();
    let tries = tokio::spawn(client.lock("next").try_lock());
    sleep(ms(2000)).await;
    engine.always(Match::script("lock/acquire"), Lie::Hang);
    engine.release();

    let error = timeout(LONG, tries).await.unwrap().unwrap().unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert_eq!(begun.elapsed(), ms(3000));
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn renewals_do_not_wait_for_releases() {
    let (client, engine, _) = insider();
    let lock = client.lock("kept").watchdog_lease(ms(2000));
    let guard = lock.lock().await.unwrap();

    owe(&client, &engine, RELEASES_MAX).await;
    sleep(ms(20_000)).await;

    assert!(guard.is_held());
    assert!(guard.remaining() > ms(1000), "{:?}", guard.remaining());
}

#[tokio::test(start_paused = true)]
async fn unknown_acquires_have_a_bound_of_their_own() {
    let (_client, _engine, core) = insider();
    let mut late: Vec<PendingWork> = (0..65_536)
        .map(|_| PendingWork::new(&core, WorkKind::LateAcquire))
        .collect();
    assert!(!core.pending.is_full());

    late.push(PendingWork::new(&core, WorkKind::LateAcquire));
    assert!(core.pending.is_full());
    late.pop();

    assert!(!core.pending.is_full());
}

/// The lock is asked for when there is room, and its lease begins then.
#[tokio::test(start_paused = true)]
async fn a_grant_after_a_wait_for_room_is_as_good_as_any_other() {
    let (client, engine, _) = insider();
    owe(&client, &engine, RELEASES_MAX + 1).await;
    let lock = client.lock("other").lease(ms(1000)).max_hold(ms(900));
    let tries = tokio::spawn(lock.try_lock());
    sleep(ms(2500)).await;

    answer(&engine).await;

    let guard = timeout(LONG, tries).await.unwrap().unwrap().unwrap();
    let remaining = guard.expect("it is free").remaining();
    assert!(remaining > ms(850), "{remaining:?}");
}

/// A release has to wait for another command, whose caller does not poll: it takes no turn from other releases.
#[tokio::test(start_paused = true)]
async fn releases_that_wait_for_a_caller_keep_no_others_from_being_sent() {
    let (client, engine, core) = insider();
    engine.always(Match::script(RELEASE).on(Lane::Commands), Lie::Hang);
    let mut unlocks = Vec::new();
    for n in 0..SENDS_MAX {
        let guard = client.lock(format!("slow/{n}")).lock().await.unwrap();
        let again = guard.relock().await.unwrap();
        let mut unlock = Box::pin(again.unlock());
        assert!(testkit::poll_once(unlock.as_mut()).is_pending());
        unlocks.push(unlock);
        // Its release has to wait for the one under way.
        drop(guard);
    }
    sleep(ms(1)).await;
    assert_eq!(core.pending.releases(), SENDS_MAX);

    drop(client.lock("a").lock().await.unwrap());
    sleep(ms(1)).await;

    assert!(!client.lock("a").is_locked().await.unwrap());
    assert_eq!(core.pending.releases(), SENDS_MAX);
    drop(unlocks);
}
