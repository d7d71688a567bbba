//! Work under a lock ends with the lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrolock::{ErrorKind, HoldState, LostReason};
use testkit::poll_once;
use tokio::time::Instant;

use crate::stage::{Stage, ms};
use crate::support::LEASE;

stories!(
    a_body_is_dropped_when_its_lock_is_removed,
    while_held_drops_its_work_at_the_deadline,
    while_held_returns_work_that_is_done_in_time_and_the_lock_is_still_held,
    lost_stays_ready_after_the_loss,
    the_token_fires_at_release_by_unlock_and_by_drop,
    the_token_fires_at_loss_and_is_fired_when_it_is_taken_later,
    the_token_fires_at_shutdown_while_the_hold_goes_on,
);

stories_of_every_kind!(the_token_fires_at_release_by_unlock_and_by_drop);

stories_in_paused_time!(
    is_held_is_false_from_the_exact_deadline,
    every_poll_of_lost_looks_at_the_clock,
);

stories_in_real_time!(
    while_held_fails_if_the_last_step_outlives_the_lock,
    run_fails_if_the_last_step_of_its_body_outlives_the_lock,
);

/// Shows whether it was dropped.
struct Flag(Arc<AtomicBool>);

impl Flag {
    fn new() -> (Self, Arc<AtomicBool>) {
        let dropped = Arc::new(AtomicBool::new(false));
        (Self(dropped.clone()), dropped)
    }
}

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn a_body_is_dropped_when_its_lock_is_removed(stage: &Stage) {
    let lock = stage.client().await.lock("work").watchdog_lease(LEASE);
    let (flag, dropped) = Flag::new();

    let ended = lock
        .run(async |_| {
            let _flag = flag;
            stage.vanish("work").await;
            std::future::pending::<()>().await;
        })
        .await;

    let error = ended.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    assert!(dropped.load(Ordering::SeqCst));
    assert!(
        lock.try_lock().await.unwrap().is_some(),
        "it can be taken again"
    );
}

/// Asserts that the deadline of a lease of a second, less its margin, is now: exact in virtual time, and within ten times as
/// long in real time.
fn assert_at_the_deadline(stage: &Stage, begun: Instant) {
    let (took, due) = (begun.elapsed(), ms(950));
    let latest = if stage.is_virtual() { due } else { due * 10 };
    assert!(took <= latest, "{took:?}");
    assert!(took >= due - ms(50), "{took:?}");
}

async fn while_held_drops_its_work_at_the_deadline(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(ms(1000)).lock().await.unwrap();
    let (flag, dropped) = Flag::new();
    let begun = Instant::now();

    let ended = guard
        .while_held(async move {
            let _flag = flag;
            std::future::pending::<()>().await;
        })
        .await;

    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost);
    assert!(dropped.load(Ordering::SeqCst));
    assert_at_the_deadline(stage, begun);
}

async fn while_held_returns_work_that_is_done_in_time_and_the_lock_is_still_held(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(LEASE).lock().await.unwrap();

    let done = guard
        .while_held(async {
            tokio::time::sleep(LEASE / 4).await;
            42
        })
        .await;

    assert_eq!(done.unwrap(), 42);
    assert!(guard.is_held());
}

/// The only step blocks its thread past the deadline: its result comes too late.
async fn while_held_fails_if_the_last_step_outlives_the_lock(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(ms(200)).lock().await.unwrap();

    let ended = guard
        .while_held(async { std::thread::sleep(ms(250)) })
        .await;

    assert!(!guard.is_held());
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost);
}

async fn run_fails_if_the_last_step_of_its_body_outlives_the_lock(stage: &Stage) {
    let lock = stage.client().await.lock("x").lease(ms(200));

    let ended = lock.run(async |_| std::thread::sleep(ms(250))).await;

    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost);
}

async fn lost_stays_ready_after_the_loss(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(ms(1000)).lock().await.unwrap();
    if stage.is_virtual() {
        assert!(poll_once(std::pin::pin!(guard.lost())).is_pending());
    }

    for _ in 0..3 {
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert!(poll_once(std::pin::pin!(guard.lost())).is_ready());
    }
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
}

async fn is_held_is_false_from_the_exact_deadline(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(ms(2000)).lock().await.unwrap();
    let left = guard.remaining();
    let drift = stage.kind().drift(ms(2000));
    assert_eq!(left, ms(1900) - drift, "a margin of a twentieth");

    tokio::time::advance(left - Duration::from_nanos(1)).await;
    assert!(guard.is_held());
    assert_eq!(guard.remaining(), Duration::from_nanos(1));
    tokio::time::advance(Duration::from_nanos(1)).await;

    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(poll_once(std::pin::pin!(guard.lost())).is_ready());
    assert!(
        client.lock("x").is_locked().await.unwrap(),
        "the server's end comes later"
    );
}

/// Also a poll without a wake-up: after a pause of the process the caller may be faster than the keeper.
async fn every_poll_of_lost_looks_at_the_clock(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(ms(2000)).lock().await.unwrap();
    let left = guard.remaining();
    let mut lost = std::pin::pin!(guard.lost());
    assert!(poll_once(lost.as_mut()).is_pending());

    // Polled by hand, so that no other task runs between the step of the clock and the poll of `lost`.
    assert!(poll_once(std::pin::pin!(tokio::time::advance(left))).is_pending());

    assert!(poll_once(lost.as_mut()).is_ready());
}

async fn the_token_fires_at_release_by_unlock_and_by_drop(stage: &Stage) {
    let client = stage.client().await;
    let lock = |name: &str| client.lock(name).watchdog_lease(LEASE).lock();
    let (unlocked, dropped) = (lock("a").await.unwrap(), lock("b").await.unwrap());
    let tokens = [unlocked.cancellation_token(), dropped.cancellation_token()];
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(tokens.iter().all(|token| !token.is_cancelled()));

    unlocked.unlock().await.unwrap();
    drop(dropped);

    assert!(tokens.iter().all(|token| token.is_cancelled()));
}

async fn the_token_fires_at_loss_and_is_fired_when_it_is_taken_later(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("x").lease(ms(1000)).lock().await.unwrap();
    let token = guard.cancellation_token();
    let begun = Instant::now();

    token.cancelled().await;

    assert_at_the_deadline(stage, begun);
    assert!(!guard.is_held());
    assert!(guard.cancellation_token().is_cancelled());
}

async fn the_token_fires_at_shutdown_while_the_hold_goes_on(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x").watchdog_lease(LEASE);
    let guard = lock.lock().await.unwrap();
    let token = guard.cancellation_token();
    let shutdown = tokio::spawn(client.shutdown(LEASE * 3));

    token.cancelled().await;
    tokio::time::sleep(LEASE * 3 / 2).await;

    assert!(guard.is_held(), "renewed while its holder finishes");
    assert!(guard.cancellation_token().is_cancelled());
    assert_eq!(guard.lost().await, LostReason::ShutDown);
    let error = shutdown.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    assert!(error.to_string().contains('x'), "{error}");
}
