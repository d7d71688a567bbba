//! Members on several engines in one lock.

use ferrolock::{Client, ErrorKind, MultiLock};
use testkit::{Kind, Server};
use tokio::time::Instant;

use crate::stage::kinds::LockKind;
use crate::stage::{Stage, Time, ms};

on_each_server!(
    members_on_memory_file_and_two_servers_are_one_lock,
    a_server_that_is_killed_leaves_no_other_member_held,
);

async fn members_on_memory_file_and_two_servers_are_one_lock(kind: Kind) {
    let stages = [
        Stage::memory(Time::Real, LockKind::Plain),
        Stage::file(LockKind::Plain),
        Stage::on(kind, LockKind::Plain),
        Stage::on(kind, LockKind::Plain),
    ];
    let mut tasks = Vec::new();
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    for task in 0..4 {
        let mut clients = Vec::new();
        for stage in &stages {
            clients.push(stage.client().await);
        }
        if task % 2 == 0 {
            clients.reverse();
        }
        let inside = inside.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let all: MultiLock = clients
                    .iter()
                    .map(|client| Client::lock(client, "x"))
                    .collect();
                let guard = all.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                assert_eq!(guard.members().len(), 4);
                inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
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
