//! What many held locks cost while they are only renewed.

use super::server_cpu::cpu;
use crate::reference::two_threads;
use crate::report::{Must, Row};
use crate::rounds::now;
use ferrolock::{Client, Guard};
use std::fs;
use std::sync::Arc;
use std::time::Duration;
use testkit::Server;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const LOCKS: usize = 10_000;
const ACQUIRING: usize = 512;
/// One default lease: each lock is renewed about three times.
const WATCHED: Duration = Duration::from_secs(30);
/// A hundred locks share a command, and each needs one every 10 s: ten a second, and some more for locks that were not taken
/// together.
const COMMANDS_MAX: f64 = 15.0;
/// The thread's name, cut to the length that the system keeps.
const KEEPER: &str = "ferrolock-keepe";

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    two_threads().block_on(async {
        let client = Client::connect(server.url()).await.unwrap();
        let guards = hold_all(&client, LOCKS).await;
        let (begun, commands, server_cpu, keeper) = look(server);
        tokio::time::sleep(WATCHED).await;
        let (ended, commands_after, server_cpu_after, keeper_after) = look(server);
        assert!(guards.iter().all(Guard::is_held), "a lock was lost");
        let seconds = (ended - begun) as f64 / 1e9;
        let rows = [
            (
                "commands",
                "/s",
                (commands_after - commands) as f64 / seconds,
                Must::AtMost(COMMANDS_MAX),
            ),
            (
                "server CPU",
                " %",
                (server_cpu_after - server_cpu) * 100.0 / seconds,
                Must::Stated,
            ),
            (
                "keeper CPU",
                " %",
                (keeper_after - keeper) as f64 / 1e7 / seconds,
                Must::Stated,
            ),
        ];
        release_all(guards).await;
        rows.map(|(what, unit, ours, must)| Row {
            what: format!("renewal of {LOCKS} held locks, lease 30 s, over {seconds:.0} s: {what}"),
            unit,
            ours,
            reference: None,
            ratio: None,
            must,
        })
        .into()
    })
}

/// The time, script calls so far, the server's seconds and the keeper's nanoseconds of processor time.
fn look(server: &Server) -> (u64, u64, f64, u64) {
    let calls = server.commandstats().get("evalsha").copied().unwrap_or(0);
    (now(), calls, cpu(server), keeper_nanos())
}

/// Takes that number of locks, each of another name.
pub(crate) async fn hold_all(client: &Client, locks: usize) -> Vec<Guard> {
    let turn = Arc::new(Semaphore::new(ACQUIRING));
    let mut tasks = JoinSet::new();
    for number in 0..locks {
        let (lock, turn) = (client.lock(format!("held/{number}")), turn.clone());
        tasks.spawn(async move {
            let _turn = turn.acquire().await.unwrap();
            lock.lock().await.unwrap()
        });
    }
    tasks.join_all().await
}

async fn release_all(guards: Vec<Guard>) {
    let mut tasks = JoinSet::new();
    for guard in guards {
        tasks.spawn(async move { guard.unlock().await.unwrap() });
    }
    tasks.join_all().await;
}

/// Processor time of the keeper's thread so far.
fn keeper_nanos() -> u64 {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let paths = tasks.map(|task| task.unwrap().path());
    paths
        .filter(|task| {
            fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim() == KEEPER)
        })
        .map(|task| {
            let times = fs::read_to_string(task.join("schedstat")).unwrap();
            times.split(' ').next().unwrap().parse::<u64>().unwrap()
        })
        .sum()
}
