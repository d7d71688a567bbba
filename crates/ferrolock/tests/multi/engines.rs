//! Members on several engines in one lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrolock::{Client, ErrorKind, MultiLock};
use testkit::{Kind, Proxy, Server};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::stage::kinds::LockKind;
use crate::stage::{Stage, Time, ms};

on_each_server!(
    members_on_memory_file_and_two_servers_are_one_lock,
    a_server_that_is_killed_leaves_no_other_member_held,
    each_failure_of_a_member_leaves_none_held,
);

/// Half of the tasks name the members in the opposite order.
async fn members_on_memory_file_and_two_servers_are_one_lock(kind: Kind) {
    const TASKS: u32 = 8;
    let stages = [
        Stage::memory(Time::Real, LockKind::Plain),
        Stage::file(LockKind::Plain),
        Stage::on(kind, LockKind::Plain),
        Stage::on(kind, LockKind::Plain),
    ];
    let rounds = testkit::count(160, 10_000) / TASKS;
    let (mut tasks, inside) = (Vec::new(), Arc::new(AtomicU32::new(0)));
    for task in 0..TASKS {
        let mut clients = Vec::new();
        for stage in &stages {
            clients.push(stage.client().await);
        }
        if task % 2 == 0 {
            clients.reverse();
        }
        let inside = inside.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..rounds {
                let all: MultiLock = clients
                    .iter()
                    .map(|client| Client::lock(client, "x"))
                    .collect();
                let guard = all.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                assert_eq!(guard.members().len(), 4);
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.unlock().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for stage in &stages {
        stage.freed("x").await;
    }
}

async fn a_server_that_is_killed_leaves_no_other_member_held(kind: Kind) {
    let (good, bad) = (Stage::on(kind, LockKind::Plain), Server::start(kind));
    let client = good.client().await;
    let other = Client::connect(bad.url()).await.unwrap();
    let both = Client::lock(&client, "a").and(other.lock("b"));
    both.lock().await.unwrap().unlock().await.unwrap();
    bad.kill();

    let begun = Instant::now();
    let error = both.try_lock_for(ms(500)).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
    assert_eq!(error.nodes().len(), 1);
    assert!(begun.elapsed() < ms(5000), "{:?}", begun.elapsed());
    good.freed("a").await;
}

/// What goes wrong with the second of two members, when the first is taken already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Busy,
    Refused,
    Down,
    Silent,
    LostReply,
    Cancelled,
    Dropped,
}

impl Failure {
    const ALL: [Failure; 7] = [
        Failure::Busy,
        Failure::Refused,
        Failure::Down,
        Failure::Silent,
        Failure::LostReply,
        Failure::Cancelled,
        Failure::Dropped,
    ];
}

/// The first member is on an engine of each sort in turn; the second on a server behind a proxy.
async fn each_failure_of_a_member_leaves_none_held(kind: Kind) {
    let server = Stage::on(kind, LockKind::Plain);
    let firsts = [
        Stage::memory(Time::Real, LockKind::Plain),
        Stage::file(LockKind::Plain),
        Stage::on(kind, LockKind::Plain),
    ];
    for first in &firsts {
        for failure in Failure::ALL {
            fails(failure, first, &server).await;
            let what = format!("{failure:?} beside {}", first.name());
            eprintln!("{what}");
            first.freed("first").await;
            server.freed("second").await;
        }
    }
}

/// One attempt that fails in that way.
async fn fails(failure: Failure, first: &Stage, second: &Stage) {
    let proxy = Proxy::start(second.server().unwrap().address());
    let client = first.client().await;
    let builder = Client::builder().url(proxy.url()).command_limit(ms(500));
    let other = builder.connect().await.unwrap();
    let token = CancellationToken::new();
    let both = Client::lock(&client, "first").and(other.lock("second"));
    let both = both.cancelled_by(&token);
    both.lock().await.unwrap().unlock().await.unwrap();
    let busy = match failure {
        Failure::Busy | Failure::Cancelled | Failure::Dropped => {
            Some(second.client().await.lock("second").lock().await.unwrap())
        }
        _ => None,
    };
    match failure {
        Failure::Refused => drop(second.server().unwrap().command(&["SET", "second", "text"])),
        Failure::Down => {
            proxy.refuse(true);
            proxy.cut();
        }
        Failure::Silent => proxy.silence(true),
        Failure::LostReply => proxy.drop_reply_to("second"),
        _ => {}
    }
    let waiting = both.try_lock_for(ms(400));
    match failure {
        Failure::Cancelled => {
            let waiting = tokio::spawn(waiting);
            tokio::time::sleep(ms(50)).await;
            token.cancel();
            let error = waiting.await.unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        }
        Failure::Dropped => {
            let ended = tokio::time::timeout(ms(50), waiting).await;
            assert!(ended.is_err(), "it waits");
        }
        Failure::Busy => assert!(waiting.await.unwrap().is_none()),
        // Granted by a second try, or not within the time: either way the first grant is given back.
        Failure::LostReply => {
            drop(waiting.await);
            assert_eq!(proxy.replies_dropped(), 1);
        }
        _ => {
            let error = waiting.await.unwrap_err();
            assert_eq!(error.nodes().len(), 1, "{failure:?}: {error}");
        }
    }
    if failure == Failure::Refused {
        second.server().unwrap().command(&["DEL", "second"]);
    }
    proxy.refuse(false);
    proxy.silence(false);
    drop(busy);
}
