//! Connecting, dropped at each of its await points.
//!
//! On servers the test counts connections; in a store it looks for the session of the dropped call.

use ferrolock::Client;
use testkit::{Kind, LIMIT, Server, drop_after_polls, eventually_async};

use crate::dropped_futures::{POLLS_MAX, finishes};
use crate::stage::{LockKind, Stage, stories};

on_each_server!(connecting_dropped_at_each_await_leaves_no_connection);

async fn connecting_dropped_at_each_await_leaves_no_connection(kind: Kind) {
    let counting =
        std::thread::spawn(move || stories::one_thread().block_on(count_connections(kind)));
    tokio::task::spawn_blocking(|| counting.join().unwrap())
        .await
        .unwrap();
}

async fn count_connections(kind: Kind) {
    let server = Server::start(kind);
    let mut look = server.connect();
    for polls in 0..POLLS_MAX {
        let outcome = drop_after_polls(polls, Client::connect(server.url())).await;
        let finished = outcome.finished().is_some();
        eventually_async(LIMIT, "only the look is connected", async || {
            let list = look.command(&["CLIENT", "LIST"]).text();
            list.lines().count() == 1
        })
        .await;
        if finished {
            assert!(polls > 1, "connect was not dropped half-way");
            return;
        }
    }
    panic!("connect does not finish");
}

/// A store is opened by a thread, which may finish after its caller was dropped.
#[cfg(target_os = "linux")]
#[test]
fn opening_a_store_dropped_at_each_await_leaves_no_session() {
    stories::one_thread().block_on(async {
        let stage = Stage::file(LockKind::Plain);
        let sessions =
            std::path::Path::new(stage.url().trim_start_matches("file:")).join("sessions");
        for polls in 0..POLLS_MAX {
            let finished = finishes(polls, Client::connect(stage.url())).await;
            eventually_async(LIMIT, "no session is left", async || {
                std::fs::read_dir(&sessions).map_or(0, Iterator::count) == 0
            })
            .await;
            if finished {
                let client = stage.client().await;
                client
                    .lock("x")
                    .lock()
                    .await
                    .unwrap()
                    .unlock()
                    .await
                    .unwrap();
                return;
            }
        }
        panic!("connect does not finish");
    });
}
