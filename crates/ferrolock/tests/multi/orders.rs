//! Members in any order: no deadlock, never two holders of a member, nothing left.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrolock::{Client, MultiLock, Unlocked};
use tokio::time::sleep;

use crate::stage::{Stage, ms};

stories_of_one_kind!(
    opposite_orders_do_not_deadlock,
    random_sets_exclude_each_other_and_the_largest_is_served,
    one_busy_member_makes_all_busy,
    a_member_that_is_removed_ends_the_hold,
    a_dropped_guard_gives_all_back,
);

const TASKS: usize = 8;

/// How many are inside each name: one at most.
#[derive(Default)]
struct Rooms(BTreeMap<String, AtomicU32>);

impl Rooms {
    fn new(names: &[String]) -> Arc<Self> {
        let rooms = names.iter().map(|name| (name.clone(), AtomicU32::new(0)));
        Arc::new(Self(rooms.collect()))
    }

    fn enter(&self, names: &[String]) {
        for name in names {
            let inside = self.0[name].fetch_add(1, Ordering::SeqCst);
            assert_eq!(inside, 0, "{name} has two holders");
        }
    }

    fn leave(&self, names: &[String]) {
        for name in names {
            self.0[name].fetch_sub(1, Ordering::SeqCst);
        }
    }
}

fn all(client: &Client, names: &[String]) -> MultiLock {
    names.iter().map(|name| client.lock(name)).collect()
}

fn names(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("member-{number}"))
        .collect()
}

async fn nothing_left(stage: &Stage, names: &[String]) {
    for name in names {
        stage.freed(name).await;
    }
}

/// Rounds of each task; in the long form 10,000 of all.
fn rounds(stage: &Stage) -> u32 {
    let short = if stage.is_virtual() { 125 } else { 40 };
    testkit::count(short, 1250)
}

async fn opposite_orders_do_not_deadlock(stage: &Stage) {
    let (one, other) = stage.clients().await;
    let names = names(3);
    let rooms = Rooms::new(&names);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = [&one, &other][task % 2].clone();
            let (mut names, rooms) = (names.clone(), rooms.clone());
            if task % 4 < 2 {
                names.reverse();
            }
            let rounds = rounds(stage);
            tokio::spawn(async move {
                for _ in 0..rounds {
                    let guard = all(&client, &names).lock().await.unwrap();
                    rooms.enter(&names);
                    tokio::task::yield_now().await;
                    rooms.leave(&names);
                    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    nothing_left(stage, &names).await;
}

async fn random_sets_exclude_each_other_and_the_largest_is_served(stage: &Stage) {
    let (one, other) = stage.clients().await;
    let names = names(6);
    let rooms = Rooms::new(&names);
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let client = [&one, &other][task % 2].clone();
            let (names, rooms) = (names.clone(), rooms.clone());
            let rounds = rounds(stage) / 4;
            tokio::spawn(async move {
                for round in 0..rounds as usize {
                    // The first task always wants all of them, the others two or three.
                    let wanted: Vec<String> = match task {
                        0 => names.clone(),
                        _ => {
                            let wants = |at: &usize| (at * 7 + task * 5 + round * 3) % 6 < 3;
                            let picked = (0..names.len()).filter(wants);
                            picked.map(|at| names[at].clone()).collect()
                        }
                    };
                    let guard = all(&client, &wanted).lock().await.unwrap();
                    rooms.enter(&wanted);
                    sleep(ms(1)).await;
                    rooms.leave(&wanted);
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    nothing_left(stage, &names).await;
}

async fn one_busy_member_makes_all_busy(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let names = names(3);
    let theirs = them.lock(&names[1]).lock().await.unwrap();
    assert!(all(&us, &names).try_lock().await.unwrap().is_none());
    stage.freed(&names[0]).await;
    let waiting = tokio::spawn(all(&us, &names).lock());
    sleep(ms(50)).await;

    theirs.unlock().await.unwrap();

    let guard = waiting.await.unwrap().unwrap();
    for name in &names {
        assert_eq!(stage.counts(name).await, [1]);
    }
    guard.unlock().await.unwrap();
    nothing_left(stage, &names).await;
}

async fn a_member_that_is_removed_ends_the_hold(stage: &Stage) {
    let client = stage.client().await;
    let names = names(3);
    let lock = all(&client, &names).watchdog_lease(stage.lease());
    let guard = lock.lock().await.unwrap();
    let token = guard.cancellation_token();

    stage.vanish(&names[2]).await;

    guard.lost().await;
    token.cancelled().await;
    assert!(!guard.is_held());
    assert!(guard.unlock().await.is_err());
    nothing_left(stage, &names).await;
}

async fn a_dropped_guard_gives_all_back(stage: &Stage) {
    let client = stage.client().await;
    let names = names(3);

    drop(all(&client, &names).lock().await.unwrap());

    // The same client asks after its own releases were answered.
    let again = all(&client, &names).try_lock().await.unwrap();
    again.expect("it is free").unlock().await.unwrap();
    nothing_left(stage, &names).await;
}
