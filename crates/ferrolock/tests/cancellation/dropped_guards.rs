//! Guards dropped where nobody expects it: released all the same.

use std::time::{Duration, Instant};

use ferrolock::{Client, Guard, LostReason};
use testkit::process::{self, Child};
use testkit::{LIMIT, Server, eventually, servers};
use tokio::time::sleep;

use crate::world::World;

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

async fn hold(server: &Server) -> (Client, Guard) {
    let client = Client::connect(server.url()).await.unwrap();
    let guard = client.lock("orders").lock().await.unwrap();
    (client, guard)
}

/// Far below the lease of 30 s that would end it otherwise.
fn soon_free(server: &Server) {
    let begun = Instant::now();
    eventually(LIMIT, "the key is gone", || server.keys().is_empty());
    let took = begun.elapsed();
    eprintln!("{}: released after {took:?}", server.kind().name());
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[test]
fn a_guard_dropped_on_a_plain_thread_is_released() {
    for kind in servers() {
        let server = Server::start(kind);
        let runtime = runtime();
        let (_client, guard) = runtime.block_on(hold(&server));
        assert_eq!(server.keys(), ["orders"]);

        std::thread::spawn(move || drop(guard)).join().unwrap();

        soon_free(&server);
    }
}

#[test]
fn a_guard_dropped_after_its_runtime_ended_is_released() {
    for kind in servers() {
        let server = Server::start(kind);
        let runtime = runtime();
        let (client, guard) = runtime.block_on(hold(&server));
        drop(runtime);
        assert_eq!(server.keys(), ["orders"]);

        drop(guard);

        soon_free(&server);
        drop(client);
    }
}

#[test]
fn a_guard_that_outlives_its_client_and_runtime_is_released() {
    for kind in servers() {
        let server = Server::start(kind);
        let runtime = runtime();
        let (client, guard) = runtime.block_on(hold(&server));
        drop(client);
        drop(runtime);

        drop(guard);

        soon_free(&server);
    }
}

#[test]
fn a_guard_kept_past_the_end_of_its_runtime_is_still_renewed() {
    for kind in servers() {
        let server = Server::start(kind);
        let runtime = runtime();
        let guard = runtime.block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            let lock = client
                .lock("orders")
                .watchdog_lease(Duration::from_millis(600));
            lock.lock().await.unwrap()
        });
        drop(runtime);

        std::thread::sleep(Duration::from_millis(1800));

        assert!(guard.is_held());
        assert_eq!(server.keys(), ["orders"]);
    }
}

/// A small program: takes a lock, drops its guard in the way it is told, and returns from `main`.
#[test]
fn short_program() {
    let Some(role) = process::role() else { return };
    let (url, way) = (&role.args()[0], role.args()[1].as_str());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let kept = runtime.block_on(async {
        let client = Client::connect(url).await.unwrap();
        let guard = client.lock("orders").lock().await.unwrap();
        role.say("held");
        role.hear();
        match way {
            "inside" => None,
            "outside" => Some((client, guard)),
            other => panic!("{other}"),
        }
    });
    drop(runtime);
    drop(kept);
}

#[test]
fn a_guard_dropped_at_the_end_of_main_is_released_before_the_process_ends() {
    for kind in servers() {
        let server = Server::start(kind);
        for way in ["inside", "outside"] {
            let role = "dropped_guards::short_program";
            let mut program = Child::again(role, &[&server.url(), way]);
            assert_eq!(program.hear(LIMIT), "held");
            assert_eq!(server.keys(), ["orders"]);

            program.say("end");
            assert!(program.wait(LIMIT).success());

            assert_eq!(server.keys(), [""; 0], "{way}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_gives_its_lock_back() {
    let world = World::new().await;
    let lock = world.client.lock("x");
    let task = tokio::spawn(async move {
        let _guard = lock.lock().await.unwrap();
        panic!("as planned");
    });

    assert!(task.await.unwrap_err().is_panic());

    world.nothing_left("after a panic").await;
}

#[tokio::test(start_paused = true)]
async fn a_body_of_run_that_panics_and_a_task_that_is_aborted_give_their_lock_back() {
    let world = World::new().await;
    let lock = world.client.lock("x");
    let task = tokio::spawn(async move {
        lock.run(async |_| {
            tokio::task::yield_now().await;
            panic!("as planned")
        })
        .await
        .map(|(): ()| ())
    });
    assert!(task.await.unwrap_err().is_panic());
    world.nothing_left("after a panic in run").await;

    let lock = world.client.lock("x");
    let task =
        tokio::spawn(async move { lock.run(async |_| std::future::pending::<()>().await).await });
    while !world.is_locked().await {
        sleep(Duration::from_millis(1)).await;
    }
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    world.nothing_left("after an abort").await;
}

#[test]
fn a_panic_of_a_holder_releases_on_a_server() {
    for kind in servers() {
        let server = Server::start(kind);
        runtime().block_on(async {
            let client = Client::connect(server.url()).await.unwrap();
            let lock = client.lock("orders");
            let task = tokio::spawn(async move {
                let _guard = lock.lock().await.unwrap();
                panic!("as planned");
            });
            assert!(task.await.unwrap_err().is_panic());
            soon_free(&server);
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_guard_is_ended_by_max_hold() {
    let world = World::new().await;
    let limit = Duration::from_secs(100);
    let lock = world.client.lock("x").max_hold(limit);
    let guard = lock.lock().await.unwrap();
    let token = guard.cancellation_token();
    let begun = tokio::time::Instant::now();
    std::mem::forget(guard);

    // Renewed past its lease of 30 s, to the limit.
    sleep(limit - Duration::from_secs(1)).await;
    assert!(world.is_locked().await && !token.is_cancelled());
    token.cancelled().await;
    assert!(begun.elapsed() <= limit + Duration::from_millis(10));

    // Gone from the server a margin (a twentieth of the lease) later.
    let next = world.other.lock("x").lock().await.unwrap();
    let margin = Duration::from_millis(1500);
    let taken = begun.elapsed();
    assert!(
        taken >= limit && taken <= limit + margin + Duration::from_millis(100),
        "{taken:?}"
    );
    next.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_guard_over_its_max_hold_says_so() {
    let world = World::new().await;
    let lock = world.client.lock("x").max_hold(Duration::from_secs(2));

    let guard = lock.lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::MaxHold);
    drop(guard);
    world.nothing_left("after max_hold").await;
}
