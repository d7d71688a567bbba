//! Many at once, and many in a row: nothing piles up.

use std::time::{Duration, Instant};

use testkit::process::{Child, Role};
use testkit::{LIMIT, eventually_async};
use tokio::runtime::Handle;

use crate::stage::{Party, Stage, stories};

stories!(three_thousand_guards_dropped_at_once_are_released_within_a_second);

stories_in_real_time!(an_unrelated_hold_outlives_guards_dropped_as_fast_as_locks_can_be_taken);

stories_of_processes!(a_hundred_thousand_acquisitions_leave_keys_memory_and_tasks_as_they_were);

async fn three_thousand_guards_dropped_at_once_are_released_within_a_second(stage: &Stage) {
    const GUARDS: usize = 3000;
    let (client, other) = stage.clients().await;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..GUARDS {
        let lock = client.lock(format!("orders/{n}"));
        tasks.spawn(async move { lock.lock().await.unwrap() });
    }
    let guards = tasks.join_all().await;

    let begun = tokio::time::Instant::now();
    drop(guards);
    for n in 0..GUARDS {
        let lock = other.lock(format!("orders/{n}"));
        eventually_async(LIMIT, "it is released", async || {
            !lock.is_locked().await.unwrap()
        })
        .await;
    }

    stage.took("3,000 dropped guards", begun, Duration::from_secs(1));
}

/// A client never owes more than 4,096 releases; the benchmark `overload` shows it with a million names.
async fn an_unrelated_hold_outlives_guards_dropped_as_fast_as_locks_can_be_taken(stage: &Stage) {
    const TASKS: usize = 50;
    const NAMES: usize = 20_000;
    let client = stage.client().await;
    let lock = client.lock("kept").watchdog_lease(stage.lease());
    let kept = lock.lock().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            for n in 0..NAMES / TASKS {
                drop(client.lock(format!("{task}/{n}")).lock().await.unwrap());
            }
        });
    }
    tasks.join_all().await;

    assert!(kept.is_held(), "{}: {kept:?}", stage.name());
    kept.unlock().await.unwrap();
    if let Some(server) = stage.server() {
        let what = "everything is free";
        eventually_async(LIMIT, what, async || server.command(&["DBSIZE"]).int() == 0).await;
    }
}

const PAIRS: usize = 100_000;
const WORKERS: usize = 64;

/// Takes and releases locks, and reports its tasks and memory before and after. A process of its own, because its memory is
/// measured.
pub(crate) fn busy_program(role: &Role) {
    let address = role.args()[0].clone();
    stories::threads().block_on(async {
        let client = Party::at(&address).await;
        // After this, buffers, threads and maps have their final size.
        pairs(&client, PAIRS / 5).await;
        settle(0).await;
        let (tasks, memory) = (tasks(), resident_kib());
        let begun = Instant::now();
        pairs(&client, PAIRS).await;
        let took = begun.elapsed();
        settle(tasks).await;
        role.say(&format!("{}", tasks_over(tasks)));
        role.say(&format!("{}", resident_kib().saturating_sub(memory)));
        role.say(&format!("{took:?}, tasks {tasks}, memory {memory} KiB"));
        role.hear();
    });
}

async fn pairs(client: &Party, count: usize) {
    let mut workers = tokio::task::JoinSet::new();
    for worker in 0..WORKERS {
        let client = client.clone();
        workers.spawn(async move {
            for n in 0..count / WORKERS {
                // Mostly names never used before, some that other workers want too; unlocked, and now and then dropped.
                let name = match n % 50 {
                    0 => "shared".to_owned(),
                    _ => format!("orders/{worker}/{n}"),
                };
                let guard = client.lock(name).lock().await.unwrap();
                match n % 10 {
                    0 => drop(guard),
                    _ => drop(guard.unlock().await.unwrap()),
                }
            }
        });
    }
    workers.join_all().await;
}

/// Waits longer than subscriptions linger, and until there are at most `wanted` tasks.
async fn settle(wanted: usize) {
    tokio::time::sleep(Duration::from_secs(6)).await;
    if wanted > 0 {
        eventually_async(LIMIT, "the tasks have ended", async || tasks() <= wanted).await;
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}

fn tasks_over(before: usize) -> usize {
    tasks().saturating_sub(before)
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

async fn a_hundred_thousand_acquisitions_leave_keys_memory_and_tasks_as_they_were(stage: &Stage) {
    let mut program = Child::again("many::busy_program", &[&stage.address()]);
    let limit = Duration::from_secs(240);
    let tasks: usize = program.hear(limit).parse().unwrap();
    let memory: usize = program.hear(limit).parse().unwrap();
    let took = program.hear(limit);

    let who = stage.name();
    eprintln!("{who}: {PAIRS} pairs in {took}; {memory} KiB more");
    assert_eq!(tasks, 0, "tasks are left");
    // A leak of a hundred bytes per acquisition would be ten thousand KiB.
    assert!(memory < 8 * 1024, "{memory} KiB more");
    assert!(stage.is_free("shared").await);
    if let Some(server) = stage.server() {
        assert_eq!(server.command(&["DBSIZE"]).int(), 0);
        let channels = server.command(&["PUBSUB", "CHANNELS"]).list();
        assert!(channels.is_empty(), "{channels:?}");
    }
    program.say("end");
}

/// The same inside one process.
#[test]
fn a_hundred_thousand_acquisitions_inside_the_process_leave_memory_and_tasks_as_they_were() {
    let mut program = Child::again("many::busy_program", &["plain memory:"]);
    let limit = Duration::from_secs(240);
    let tasks: usize = program.hear(limit).parse().unwrap();
    let memory: usize = program.hear(limit).parse().unwrap();

    eprintln!(
        "memory: {PAIRS} pairs in {}; {memory} KiB more",
        program.hear(limit)
    );
    assert_eq!(tasks, 0, "tasks are left");
    assert!(memory < 8 * 1024, "{memory} KiB more");
    program.say("end");
}
