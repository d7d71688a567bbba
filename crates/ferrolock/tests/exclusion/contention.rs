//! 8 tasks in each of 4 processes, and a counter that loses counts if two of them count at once.

use testkit::process::{Child, Role};
use testkit::{Counter, LIMIT};

use crate::stage::{Party, Stage};

stories_of_processes!(
    two_owners_never_hold_at_once_in_10000_acquisitions,
    two_owners_never_hold_at_once_in_1000_acquisitions,
    without_a_lock_the_counter_loses_counts,
    with_a_lock_of_its_own_in_each_process_the_counter_loses_counts,
);

stories_of_every_kind!(two_owners_never_hold_at_once_in_1000_acquisitions);

const PROCESSES: u64 = 4;
const TASKS: u64 = 8;

/// How the processes are kept apart.
#[derive(Clone, Copy)]
enum Lock {
    /// One lock for all: what is promised.
    Shared,
    /// A lock of its own for each process.
    OwnInEachProcess,
    None,
}

impl Lock {
    fn name(self, process: u64) -> String {
        match self {
            Lock::Shared => "x".to_owned(),
            Lock::OwnInEachProcess => format!("x{process}"),
            Lock::None => String::new(),
        }
    }
}

/// One of the processes. Its arguments: the engine, the file of the counter, the lock, and how often each task counts.
pub(crate) fn contender(role: &Role) {
    let [address, file, name, rounds] = role.args() else {
        panic!("four arguments: {role:?}");
    };
    let (counter, rounds) = (Counter::file(file), rounds.parse::<u64>().unwrap());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Party::at(address).await;
        role.say("ready");
        role.hear();
        let tasks: Vec<_> = (0..TASKS)
            .map(|_| tokio::spawn(count(client.clone(), name.clone(), counter.clone(), rounds)))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    role.say("done");
}

async fn count(client: Party, name: String, counter: Counter, rounds: u64) {
    for _ in 0..rounds {
        if name.is_empty() {
            counter.bump_async().await;
        } else {
            let guard = client.lock(&name).lock().await.unwrap();
            counter.bump_async().await;
            guard.unlock().await.unwrap();
        }
    }
}

async fn two_owners_never_hold_at_once_in_10000_acquisitions(stage: &Stage) {
    assert_exclusion(stage, 313, 10_000).await;
}

/// Short enough to run with every kind of lock.
async fn two_owners_never_hold_at_once_in_1000_acquisitions(stage: &Stage) {
    assert_exclusion(stage, 32, 1_000).await;
}

async fn assert_exclusion(stage: &Stage, rounds: u64, least: u64) {
    let (due, counted) = crowd(stage, Lock::Shared, rounds);

    assert!(due >= least);
    assert_eq!(counted, due, "somebody counted while another did");
    assert!(stage.is_free("x").await);
}

async fn without_a_lock_the_counter_loses_counts(stage: &Stage) {
    let (due, counted) = crowd(stage, Lock::None, 40);

    assert!(counted < due, "the harness does not bite");
}

async fn with_a_lock_of_its_own_in_each_process_the_counter_loses_counts(stage: &Stage) {
    let (due, counted) = crowd(stage, Lock::OwnInEachProcess, 40);

    assert!(counted < due, "the harness does not bite");
}

/// Runs the processes; returns the count that is due at the end, and the count that was reached.
fn crowd(stage: &Stage, lock: Lock, rounds: u64) -> (u64, u64) {
    let folder = testkit::store_folder();
    let (file, address) = (folder.path().join("count"), stage.address());
    let mut contenders: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let (file, name) = (file.to_str().unwrap(), lock.name(process));
            let args = [&address, file, &name, &rounds.to_string()];
            Child::again("contention::contender", &args)
        })
        .collect();
    for contender in &mut contenders {
        assert_eq!(contender.hear(LIMIT), "ready");
    }
    let begun = std::time::Instant::now();
    contenders.iter_mut().for_each(|each| each.say("go"));
    for contender in &mut contenders {
        assert_eq!(contender.hear(10 * LIMIT), "done");
        assert!(contender.wait(LIMIT).success());
    }
    let (due, counted) = (PROCESSES * TASKS * rounds, Counter::file(file).read());
    let (who, took) = (stage.name(), begun.elapsed());
    eprintln!("{who}: {counted} of {due} counted in {took:?}");
    (due, counted)
}
