//! A loss is told: before the server's end of the lease when the server is away, soon after when the lock was removed.

use std::time::{Duration, Instant};

use ferrolock::{Client, ErrorKind, Guard, HoldState, LostReason};
use testkit::{Kind, Proxy, Server, poll_once};

use crate::support::{INTERVAL, LEASE, Renewals, client, expiry, ms, rest, wall};

on_each_server!(
    a_stopped_server_is_noticed_before_the_lease_ends,
    a_killed_server_is_noticed_before_the_lease_ends,
    a_server_that_is_cut_off_is_noticed_before_the_lease_ends,
    removal_and_take_over_are_told_within_a_renewal_interval,
    a_flushed_server_is_noticed_within_a_renewal_interval,
    an_unlock_finds_a_removed_lock_at_once,
);

/// Wide, so that half of it is more than a busy machine takes to wake a thread.
const MARGIN: Duration = ms(2000);
const LONG: Duration = ms(5000);

async fn hold(url: &str) -> (Client, Guard) {
    let client = Client::builder()
        .url(url)
        .watchdog_lease(LONG)
        .safety_margin(MARGIN)
        .connect()
        .await
        .unwrap();
    let guard = client.lock("held").lock().await.unwrap();
    (client, guard)
}

async fn a_stopped_server_is_noticed_before_the_lease_ends(kind: Kind) {
    let server = Server::start(kind);
    let (_client, guard) = hold(&server.url()).await;
    // The next renewal is now far enough away that none comes between the question and the stop.
    Renewals::of(&server).next("held").await;
    let ends = expiry(&server, "held");
    server.stop_signal();

    lost_in_time(kind, &guard, ends).await;

    server.cont_signal();
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
}

async fn a_killed_server_is_noticed_before_the_lease_ends(kind: Kind) {
    let server = Server::start(kind);
    let (_client, guard) = hold(&server.url()).await;
    Renewals::of(&server).next("held").await;
    let ends = expiry(&server, "held");
    server.kill();

    lost_in_time(kind, &guard, ends).await;
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

async fn lost_in_time(kind: Kind, guard: &Guard, ends: Duration) {
    assert_eq!(guard.lost().await, LostReason::Expired);

    let early = ends.checked_sub(wall()).expect("before the lease's end");
    eprintln!("{kind:?}: lost {early:?} before the lease's end");
    assert!(early >= MARGIN / 2, "{early:?}");
    assert!(!guard.is_held());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(guard.ensure_held().unwrap_err().kind(), ErrorKind::Lost);
    // Ready ever after.
    assert!(poll_once(std::pin::pin!(guard.lost())).is_ready());
    assert_eq!(guard.lost().await, LostReason::Expired);
}

/// Told within the interval and a round trip; a busy machine gets ten times that.
async fn told(kind: Kind, what: &str, guard: &Guard, since: Instant) -> LostReason {
    let reason = guard.lost().await;
    let took = since.elapsed();
    eprintln!("{kind:?}: {what} was told after {took:?}, renewed every {INTERVAL:?}");
    assert!(took < INTERVAL * 10, "{what}: {took:?}");
    assert!(!guard.is_held(), "{what}");
    reason
}

async fn removal_and_take_over_are_told_within_a_renewal_interval(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let lock = |name: &str| client.lock(name).watchdog_lease(LEASE).lock();
    let (deleted, forced, taken) =
        tokio::try_join!(lock("deleted"), lock("forced"), lock("taken")).unwrap();
    Renewals::of(&server).next("taken").await;

    let since = Instant::now();
    server.command(&["DEL", "deleted"]);
    assert!(client.lock("forced").force_unlock().await.unwrap());
    let mut connection = server.connect();
    connection.command(&["MULTI"]);
    connection.command(&["DEL", "taken"]);
    connection.command(&[
        "HSET",
        "taken",
        "6f6b6f1e-1111-4222-8333-444455556666:1",
        "1",
    ]);
    connection.command(&["PEXPIRE", "taken", "30000"]);
    connection.command(&["EXEC"]);

    assert_eq!(
        told(kind, "DEL", &deleted, since).await,
        LostReason::Removed
    );
    assert_eq!(
        told(kind, "force-unlock", &forced, since).await,
        LostReason::Removed
    );
    assert_eq!(
        told(kind, "take-over", &taken, since).await,
        LostReason::TakenOver
    );
    // The other one's lease was not touched, and our unlock does not free it.
    let error = taken.unlock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(rest(&server, "taken").unwrap() > ms(20_000));
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
        told(kind, "FLUSHALL", &guard, since).await,
        LostReason::Removed
    );
    assert_eq!(server.keys(), [""; 0], "nothing was written again");
}

async fn an_unlock_finds_a_removed_lock_at_once(kind: Kind) {
    let server = Server::start(kind);
    let guard = client(&server).await.lock("held").lock().await.unwrap();
    server.command(&["DEL", "held"]);

    let error = guard.unlock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
}
