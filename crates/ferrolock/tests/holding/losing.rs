//! A guard reports the loss of its lock: before the end of the lease if it is not renewed, soon afterwards if the lock was
//! removed.
//!
//! On servers only: a server stops, dies, is cut off or loses all its keys.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, HoldState, LostReason};
use testkit::{Kind, Proxy, Server, poll_once};
use tokio::time::Instant;

use crate::stage::{Party, Stage, TestGuard, ms};
use crate::support::{INTERVAL, LEASE, Renewals, client, expiry, rest, wall};

stories!(
    the_loss_is_reported_before_the_lease_ends,
    removal_and_take_over_are_reported_within_a_renewal_interval,
    an_unlock_finds_a_removed_lock_at_once,
    a_check_finds_a_removed_lock_at_once,
    a_renewal_finds_a_removed_lock_at_once,
);

stories_of_every_kind!(removal_and_take_over_are_reported_within_a_renewal_interval);

on_each_server!(
    a_stopped_server_is_noticed_before_the_lease_ends,
    a_killed_server_is_noticed_before_the_lease_ends,
    a_server_that_is_cut_off_is_noticed_before_the_lease_ends,
    a_flushed_server_is_noticed_within_a_renewal_interval,
);

/// Wide: a busy machine needs less than half of it to wake a thread.
const MARGIN: Duration = ms(2000);
const LONG: Duration = ms(5000);

async fn hold(url: &str) -> (Party, TestGuard) {
    let client = Client::builder()
        .url(url)
        .watchdog_lease(LONG)
        .safety_margin(MARGIN)
        .connect()
        .await;
    let client = Party::from(client.unwrap());
    let guard = client.lock("held").lock().await.unwrap();
    (client, guard)
}

async fn a_stopped_server_is_noticed_before_the_lease_ends(kind: Kind) {
    let server = Server::start(kind);
    let (_client, guard) = hold(&server.url()).await;
    // The next renewal is now so far away that none comes between reading the expiry and the stop.
    Renewals::of(&server).next("held").await;
    let ends = expiry(&server, "held");
    server.stop_signal();

    assert_lost_in_time(kind, &guard, ends).await;

    server.cont_signal();
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
}

async fn a_killed_server_is_noticed_before_the_lease_ends(kind: Kind) {
    let server = Server::start(kind);
    let (_client, guard) = hold(&server.url()).await;
    Renewals::of(&server).next("held").await;
    let ends = expiry(&server, "held");
    server.kill();

    assert_lost_in_time(kind, &guard, ends).await;
}

async fn a_server_that_is_cut_off_is_noticed_before_the_lease_ends(kind: Kind) {
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address());
    let (_client, guard) = hold(&server.url_at(proxy.port())).await;
    Renewals::of(&server).next("held").await;
    proxy.silence(true);

    let reason = guard.lost().await;

    // By the server's own clock.
    let left = rest(&server, "held").expect("the key is still there");
    eprintln!("{kind:?} cut off: lost {left:?} before the lease's end");
    assert_eq!(reason, LostReason::Expired);
    assert!(left >= MARGIN / 2, "{left:?}");
}

async fn assert_lost_in_time(kind: Kind, guard: &TestGuard, ends: Duration) {
    assert_eq!(guard.lost().await, LostReason::Expired);

    let early = ends.checked_sub(wall()).expect("before the lease's end");
    eprintln!("{kind:?}: lost {early:?} before the lease's end");
    assert!(early >= MARGIN / 2, "{early:?}");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(guard.ensure_held().unwrap_err().kind(), ErrorKind::Lost);
    // It stays ready.
    assert!(poll_once(std::pin::pin!(guard.lost())).is_ready());
    assert_eq!(guard.lost().await, LostReason::Expired);
}

async fn a_flushed_server_is_noticed_within_a_renewal_interval(kind: Kind) {
    let server = Server::start(kind);
    let guard = client(&server)
        .await
        .lock("held")
        .watchdog_lease(LEASE)
        .lock()
        .await
        .unwrap();
    Renewals::of(&server).next("held").await;

    let since = Instant::now();
    server.command(&["FLUSHALL"]);

    assert_eq!(
        reported(kind.name(), "FLUSHALL", &guard, since).await,
        LostReason::Removed
    );
    assert_eq!(server.keys(), [""; 0], "nothing was written again");
}

/// The loss is reported within the interval and a round trip; a busy machine gets ten times that.
async fn reported(who: &str, what: &str, guard: &TestGuard, since: Instant) -> LostReason {
    let reason = guard.lost().await;
    let took = since.elapsed();
    eprintln!("{who}: {what} was told after {took:?}, renewed every {INTERVAL:?}");
    assert!(took < INTERVAL * 10, "{what}: {took:?}");
    assert!(!guard.is_held(), "{what}");
    reason
}

async fn the_loss_is_reported_before_the_lease_ends(stage: &Stage) {
    let client = stage.connect(stage.builder().safety_margin(MARGIN)).await;
    let lock = client.lock("held").lease(LONG);
    let guard = lock.lock().await.unwrap();

    let reason = guard.lost().await;

    let left = stage.ttl("held").await;
    eprintln!("{}: told {left:?} before the end", stage.name());
    assert_eq!(reason, LostReason::Expired);
    assert!(
        left >= if stage.is_virtual() {
            MARGIN
        } else {
            MARGIN / 2
        },
        "{left:?}"
    );
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.ensure_held().unwrap_err().kind(), ErrorKind::Lost);
    assert!(poll_once(std::pin::pin!(guard.lost())).is_ready());
    let error = guard.unlock().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::Expired), "{error}");
}

async fn removal_and_take_over_are_reported_within_a_renewal_interval(stage: &Stage) {
    let (client, other) = stage.clients().await;
    let lock = |name: &str| client.lock(name).watchdog_lease(LEASE).lock();
    let (vanished, forced, taken) =
        tokio::try_join!(lock("vanished"), lock("forced"), lock("taken")).unwrap();

    let since = Instant::now();
    stage.vanish("vanished").await;
    assert!(other.lock("forced").force_unlock().await.unwrap());
    stage.take_over("taken").await;

    let who = stage.name();
    let reason = reported(who, "removal", &vanished, since).await;
    assert_eq!(reason, LostReason::Removed);
    let reason = reported(who, "a forced unlock", &forced, since).await;
    assert_eq!(reason, LostReason::Removed);
    let reason = reported(who, "a take-over", &taken, since).await;
    assert_eq!(reason, LostReason::TakenOver);
    // The lease of the new holder was not changed, and our unlock does not release its lock.
    let error = taken.unlock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(stage.ttl("taken").await > ms(20_000));
}

async fn an_unlock_finds_a_removed_lock_at_once(stage: &Stage) {
    let guard = stage.client().await.lock("held").lock().await.unwrap();
    stage.vanish("held").await;

    let error = guard.unlock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}

async fn a_check_finds_a_removed_lock_at_once(stage: &Stage) {
    let guard = stage.client().await.lock("held").lock().await.unwrap();
    guard.check().await.unwrap();
    stage.vanish("held").await;

    let error = guard.check().await.unwrap_err();

    assert_eq!(error.lost_reason(), Some(LostReason::Removed), "{error}");
    assert!(!guard.is_held());
}

async fn a_renewal_finds_a_removed_lock_at_once(stage: &Stage) {
    let guard = stage.client().await.lock("held").lock().await.unwrap();
    stage.vanish("held").await;

    let error = guard.renew(LONG).await.unwrap_err();

    assert_eq!(error.lost_reason(), Some(LostReason::Removed), "{error}");
    assert!(!guard.is_held() && stage.is_free("held").await);
}
