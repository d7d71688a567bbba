//! The shutdown of a client: what holders, waiters and new calls get, in which order, and what is left to its lease.

use std::time::Duration;

use ferrolock::{AnyGuard, Client, ErrorKind, HoldState, LostReason, Owner};
use testkit::{Kind, LIMIT, Server, eventually, poll_once};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};

use crate::stage::{Stage, listens, ms, unique};
use crate::world::World;

stories!(
    a_holders_token_fires_before_anything_is_released_and_it_may_finish,
    a_token_taken_after_the_beginning_of_a_shutdown_has_fired,
    a_stuck_holders_lock_is_left_to_its_lease_and_named,
    waiters_and_new_calls_fail_with_closed_at_once,
    the_body_of_a_run_may_finish,
    a_body_that_does_not_finish_is_dropped_at_the_limit,
    a_shutdown_waits_for_dropped_guards_and_not_for_lost_ones,
    a_shutdown_does_not_wait_for_a_hold_that_is_lost_meanwhile,
);

stories_of_every_kind!(a_stuck_holders_lock_is_left_to_its_lease_and_named);

stories_in_real_time!(a_holder_that_finishes_in_time_releases_its_lock);

on_each_server!(a_stuck_holder_keeps_its_lease_and_nothing_is_renewed_after_the_limit);

/// Longer than a lease.
fn long(stage: &Stage) -> Duration {
    stage.lease() * 10 / 3
}

async fn a_holders_token_fires_before_anything_is_released_and_it_may_finish(stage: &Stage) {
    let (world, long) = (World::on(stage).await, long(stage));
    let guard = world.client.lock("x").lock().await.unwrap();
    let token = guard.cancellation_token();
    let client = world.client.clone();

    let shutdown = tokio::spawn(async move { client.shutdown(long).await });
    token.cancelled().await;

    // The token has fired, and nothing else has happened: the lock is held here and on the server, past its lease.
    assert!(guard.is_held() && world.is_locked("x").await);
    sleep(long / 2).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert!(world.is_locked("x").await && !shutdown.is_finished());
    guard.check().await.unwrap();

    guard.unlock().await.unwrap();
    let begun = Instant::now();
    shutdown.await.unwrap().unwrap();
    stage.took("the end with the last hold", begun, ms(1000));
    assert!(!world.is_locked("x").await);
}

async fn a_token_taken_after_the_beginning_of_a_shutdown_has_fired(stage: &Stage) {
    let (world, long) = (World::on(stage).await, long(stage));
    let guard = world.client.lock("x").lock().await.unwrap();
    let mut shutdown = Box::pin(world.client.shutdown(long));

    assert!(poll_once(shutdown.as_mut()).is_pending());

    assert!(guard.cancellation_token().is_cancelled());
    assert!(guard.is_held());
}

async fn a_stuck_holders_lock_is_left_to_its_lease_and_named(stage: &Stage) {
    let world = World::on(stage).await;
    let stuck = world.client.lock("x").lock().await.unwrap();
    let twice = stuck.relock().await.unwrap();
    let other = world.client.lock("y").lock().await.unwrap();
    let (lease, limit) = (stage.lease(), stage.lease() / 6);
    let begun = Instant::now();

    let error = world.client.shutdown(limit).await.unwrap_err();

    assert!(begun.elapsed() >= limit);
    stage.took("the limit", begun, limit + ms(1000));
    assert_eq!(error.kind(), ErrorKind::Closed);
    let text = error.to_string();
    let names = ["x", "y"].map(|name| stage.kind().names(name).join(", "));
    let left = format!("leases: {}", names.join(", "));
    assert!(text.ends_with(&left), "{text}");
    for guard in [&stuck, &twice, &other] {
        assert_eq!(guard.state(), HoldState::Lost(LostReason::ShutDown));
    }
    // No other client gets the lock while its holder still works, until the lease is over; then the lock is free.
    assert!(world.is_locked("x").await);
    let _next = world.other.lock("x").lock().await.unwrap();
    let taken = begun.elapsed();
    assert!(taken > lease / 2, "{taken:?}");
    stage.took("the end of the lease", begun, limit + lease + ms(1000));
}

async fn waiters_and_new_calls_fail_with_closed_at_once(stage: &Stage) {
    let (world, long, name) = (World::on(stage).await, long(stage), unique("x"));
    let _held = world.other.lock(&name).lock().await.unwrap();
    let me = Owner::new();
    let guard = world.client.lock("y").owned_by(&me).lock().await.unwrap();
    let lock = world.client.lock(&name);
    let waiters = [
        tokio::spawn({
            let lock = lock.clone();
            async move { lock.lock().await.map(drop) }
        }),
        tokio::spawn({
            let lock = lock.clone();
            async move { lock.try_lock_for(long).await.map(drop) }
        }),
        tokio::spawn(async move { lock.run(async |_| ()).await }),
    ];
    listens(&world.client, &name).await;
    let client = world.client.clone();
    let begun = Instant::now();

    let shutdown = tokio::spawn(async move { client.shutdown(long).await });
    for waiter in waiters {
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.lock_name()),
            (ErrorKind::Closed, Some(name.as_str()))
        );
    }

    let lock = world.client.lock("z");
    let mine = world.client.lock("y").owned_by(&me);
    for error in [
        lock.lock().await.unwrap_err(),
        lock.try_lock().await.unwrap_err(),
        lock.holders().await.unwrap_err(),
        mine.lock().await.unwrap_err(),
        guard.relock().await.unwrap_err(),
        world.client.ping().await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
    }
    stage.took("all were turned away", begun, ms(1000));
    drop(guard);
    shutdown.await.unwrap().unwrap();
}

async fn the_body_of_a_run_may_finish(stage: &Stage) {
    let (world, long) = (World::on(stage).await, long(stage));
    let lock = world.client.lock("x");
    let (begun, is_begun) = oneshot::channel();
    let ran = tokio::spawn(async move {
        lock.run(async |guard| {
            begun.send(()).unwrap();
            guard.cancellation_token().cancelled().await;
            sleep(long / 2).await;
            guard.is_held()
        })
        .await
    });
    is_begun.await.unwrap();

    world.client.shutdown(long).await.unwrap();

    assert!(ran.await.unwrap().unwrap());
    assert!(!world.is_locked("x").await);
}

async fn a_body_that_does_not_finish_is_dropped_at_the_limit(stage: &Stage) {
    let world = World::on(stage).await;
    let lock = world.client.lock("x");
    let (begun, is_begun) = oneshot::channel();
    let ran = tokio::spawn(async move {
        let body = async |_: &AnyGuard| {
            begun.send(()).unwrap();
            std::future::pending::<()>().await
        };
        lock.run(body).await
    });
    is_begun.await.unwrap();

    world.client.shutdown(stage.lease() / 6).await.unwrap_err();

    let error = ran.await.unwrap().unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::ShutDown));
}

async fn a_shutdown_waits_for_dropped_guards_and_not_for_lost_ones(stage: &Stage) {
    let (world, long) = (World::on(stage).await, long(stage));
    let lost = world.client.lock("y").lease(ms(1000)).lock().await.unwrap();
    lost.lost().await;
    drop(world.client.lock("x").lock().await.unwrap());
    let begun = Instant::now();

    world.client.shutdown(long).await.unwrap();

    // A lost guard holds nothing; the shutdown does not wait until it is dropped.
    stage.took("the end", begun, ms(1000));
    assert!(!world.is_locked("x").await);
    drop(lost);
}

async fn a_shutdown_does_not_wait_for_a_hold_that_is_lost_meanwhile(stage: &Stage) {
    let (world, long) = (World::on(stage).await, long(stage));
    let lease = ms(2000);
    let guard = world.client.lock("x").lease(lease).lock().await.unwrap();
    let begun = Instant::now();

    world.client.shutdown(long).await.unwrap();

    stage.took("the end of a lost hold", begun, lease);
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
}

/// Only a server shows which commands it received.
async fn a_stuck_holder_keeps_its_lease_and_nothing_is_renewed_after_the_limit(kind: Kind) {
    let server = Server::start(kind);
    let builder = Client::builder().url(server.url());
    let client = builder.watchdog_lease(ms(2000)).connect().await.unwrap();
    let stuck = client.lock("orders").lock().await.unwrap();
    let token = stuck.cancellation_token();

    let ended = client.shutdown(ms(100)).await;
    let monitor = server.monitor();

    assert!(ended.unwrap_err().to_string().contains("orders"));
    assert!(token.is_cancelled() && !stuck.is_held());
    assert_eq!(server.keys(), ["orders"]);
    eventually(LIMIT, "the lease ends it", || server.keys().is_empty());
    let renewals: Vec<String> = monitor
        .lines()
        .into_iter()
        .filter(|line| line.contains("EVALSHA"))
        .collect();
    assert!(renewals.is_empty(), "{renewals:?}");
}

/// In every way in which a holder can finish in time, on another thread: nothing is lost, nothing is left.
async fn a_holder_that_finishes_in_time_releases_its_lock(stage: &Stage) {
    for round in 0..60 {
        check_finishing_in_time(stage, round).await;
    }
}

async fn check_finishing_in_time(stage: &Stage, round: u64) {
    let (client, watcher) = stage.clients().await;
    let name = format!("{round}");
    let guard = client.lock(&name).lock().await.unwrap();
    let token = guard.cancellation_token();
    let holder = tokio::spawn(async move {
        token.cancelled().await;
        sleep(ms(round % 3)).await;
        match round % 4 {
            0 => drop(guard),
            1 => guard.unlock_after(ms(1)).await.unwrap(),
            _ => drop(guard.unlock().await.unwrap()),
        }
    });

    client.shutdown(Duration::from_secs(100)).await.unwrap();

    holder.await.unwrap();
    if round % 4 == 1 {
        // The end of the delay of 1 ms is left to the engine.
        return drop(watcher.lock(&name).lock().await.unwrap());
    }
    let is_locked = watcher.lock(&name).is_locked().await.unwrap();
    assert!(!is_locked, "{}, round {round}", stage.name());
}
