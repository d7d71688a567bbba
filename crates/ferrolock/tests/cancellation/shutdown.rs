//! The end of a client: who is told what, in which order, and what is left alone.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, HoldState, LostReason, Owner};
use testkit::{LIMIT, Server, eventually, poll_once, servers};
use tokio::time::{Instant, sleep};

use crate::world::World;

const LONG: Duration = Duration::from_secs(100);

#[tokio::test(start_paused = true)]
async fn a_holder_is_told_before_anything_is_released_and_may_finish() {
    let world = World::new().await;
    let guard = world.client.lock("x").lock().await.unwrap();
    let token = guard.cancellation_token();
    let client = world.client.clone();

    let shutdown = tokio::spawn(async move { client.shutdown(LONG).await });
    token.cancelled().await;

    // Told, and nothing else has happened: held here and on the server, past its lease.
    assert!(guard.is_held() && world.is_locked().await);
    sleep(LONG / 2).await;
    assert_eq!(guard.state(), HoldState::Held);
    assert!(world.is_locked().await && !shutdown.is_finished());
    guard.check().await.unwrap();

    guard.unlock().await.unwrap();
    let begun = Instant::now();
    shutdown.await.unwrap().unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "it ends with the last hold"
    );
    assert!(!world.is_locked().await);
}

#[tokio::test(start_paused = true)]
async fn a_token_taken_after_the_beginning_of_a_shutdown_has_fired() {
    let world = World::new().await;
    let guard = world.client.lock("x").lock().await.unwrap();
    let mut shutdown = Box::pin(world.client.shutdown(LONG));

    assert!(poll_once(shutdown.as_mut()).is_pending());

    assert!(guard.cancellation_token().is_cancelled());
    assert!(guard.is_held());
}

#[tokio::test(start_paused = true)]
async fn a_stuck_holders_lock_is_left_to_its_lease_and_named() {
    let world = World::new().await;
    let stuck = world.client.lock("x").lock().await.unwrap();
    let twice = stuck.relock().await.unwrap();
    let other = world.client.lock("y").lock().await.unwrap();
    let limit = Duration::from_secs(5);
    let begun = Instant::now();

    let error = world.client.shutdown(limit).await.unwrap_err();

    assert!(begun.elapsed() >= limit && begun.elapsed() < limit + Duration::from_secs(1));
    assert_eq!(error.kind(), ErrorKind::Closed);
    let text = error.to_string();
    assert!(text.ends_with("leases: x, y"), "{text}");
    for guard in [&stuck, &twice, &other] {
        assert_eq!(guard.state(), HoldState::Lost(LostReason::ShutDown));
    }
    // Running work goes on undisturbed by others until the lease is over; then the lock is free.
    assert!(world.is_locked().await);
    let _next = world.other.lock("x").lock().await.unwrap();
    let taken = begun.elapsed();
    assert!(
        taken > Duration::from_secs(25) && taken < Duration::from_secs(36),
        "{taken:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn waiters_and_new_calls_are_turned_away_at_once() {
    let world = World::new().await;
    let _held = world.other.lock("x").lock().await.unwrap();
    let me = Owner::new();
    let guard = world.client.lock("y").owned_by(&me).lock().await.unwrap();
    let lock = world.client.lock("x");
    let waiters = [
        tokio::spawn({
            let lock = lock.clone();
            async move { lock.lock().await.map(drop) }
        }),
        tokio::spawn({
            let lock = lock.clone();
            async move { lock.try_lock_for(LONG).await.map(drop) }
        }),
        tokio::spawn(async move { lock.run(async |_| ()).await }),
    ];
    sleep(Duration::from_secs(1)).await;
    let client = world.client.clone();
    let begun = Instant::now();

    let shutdown = tokio::spawn(async move { client.shutdown(LONG).await });
    for waiter in waiters {
        let error = waiter.await.unwrap().unwrap_err();
        assert_eq!(
            (error.kind(), error.lock_name()),
            (ErrorKind::Closed, Some("x"))
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
    assert!(begun.elapsed() < Duration::from_secs(1));
    drop(guard);
    shutdown.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_run_may_finish() {
    let world = World::new().await;
    let lock = world.client.lock("x");
    let ran = tokio::spawn(async move {
        lock.run(async |guard| {
            guard.cancellation_token().cancelled().await;
            sleep(LONG / 2).await;
            guard.is_held()
        })
        .await
    });
    while !world.is_locked().await {
        sleep(Duration::from_millis(1)).await;
    }

    world.client.shutdown(LONG).await.unwrap();

    assert!(ran.await.unwrap().unwrap());
    assert!(!world.is_locked().await);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_finish_is_dropped_at_the_limit() {
    let world = World::new().await;
    let lock = world.client.lock("x");
    let ran =
        tokio::spawn(async move { lock.run(async |_| std::future::pending::<()>().await).await });
    while !world.is_locked().await {
        sleep(Duration::from_millis(1)).await;
    }

    world
        .client
        .shutdown(Duration::from_secs(5))
        .await
        .unwrap_err();

    let error = ran.await.unwrap().unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::ShutDown));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_guards_that_were_dropped_and_for_nobody_else() {
    let world = World::new().await;
    let lost = world
        .client
        .lock("y")
        .lease(Duration::from_secs(1))
        .lock()
        .await
        .unwrap();
    lost.lost().await;
    drop(world.client.lock("x").lock().await.unwrap());
    let begun = Instant::now();

    world.client.shutdown(LONG).await.unwrap();

    // A guard that is lost holds nothing; its being somewhere in memory keeps nobody waiting.
    assert!(
        begun.elapsed() < Duration::from_secs(1),
        "{:?}",
        begun.elapsed()
    );
    assert!(!world.is_locked().await);
    drop(lost);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_a_hold_that_is_lost_meanwhile() {
    let world = World::new().await;
    let lease = Duration::from_secs(5);
    let guard = world.client.lock("x").lease(lease).lock().await.unwrap();
    let begun = Instant::now();

    world.client.shutdown(LONG).await.unwrap();

    assert!(begun.elapsed() <= lease, "{:?}", begun.elapsed());
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
}

#[test]
fn on_a_server_a_stuck_holder_keeps_its_lease_and_nothing_is_renewed_after_the_limit() {
    for kind in servers() {
        let server = Server::start(kind);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = Client::builder()
                .url(server.url())
                .watchdog_lease(Duration::from_secs(2))
                .connect()
                .await
                .unwrap();
            let stuck = client.lock("orders").lock().await.unwrap();
            let token = stuck.cancellation_token();

            let ended = client.shutdown(Duration::from_millis(100)).await;
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
        });
    }
}

/// However a holder finishes in time, on another thread: nothing is lost, nothing is left.
#[test]
fn whoever_finishes_in_time_gives_its_lock_back() {
    let mut addresses = vec!["memory:finishes-in-time".to_owned()];
    let servers: Vec<Server> = servers().into_iter().map(Server::start).collect();
    addresses.extend(servers.iter().map(Server::url));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    for address in addresses {
        for round in 0..60 {
            runtime.block_on(finishes_in_time(&address, round));
        }
    }
}

async fn finishes_in_time(address: &str, round: u64) {
    let client = Client::connect(address).await.unwrap();
    let watcher = Client::connect(address).await.unwrap();
    let name = format!("{round}");
    let guard = client.lock(&name).lock().await.unwrap();
    let token = guard.cancellation_token();
    let holder = tokio::spawn(async move {
        token.cancelled().await;
        sleep(Duration::from_millis(round % 3)).await;
        match round % 4 {
            0 => drop(guard),
            1 => guard.unlock_after(Duration::from_millis(1)).await.unwrap(),
            _ => drop(guard.unlock().await.unwrap()),
        }
    });

    client.shutdown(LONG).await.unwrap();

    holder.await.unwrap();
    if round % 4 == 1 {
        // Left to the server, which ends it at once.
        return drop(watcher.lock(&name).lock().await.unwrap());
    }
    assert!(
        !watcher.lock(&name).is_locked().await.unwrap(),
        "{address}, round {round}"
    );
}
