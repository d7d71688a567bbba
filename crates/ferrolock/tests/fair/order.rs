//! First come, first served.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrolock::{ErrorKind, Owner};
use testkit::LIMIT;

use crate::stage::{Stage, ms, unique};
use crate::support::{queues, queues_elsewhere};

stories_of_one_kind!(
    waiters_of_two_clients_are_served_in_the_order_in_which_they_came,
    a_try_overtakes_no_waiter,
    cancelled_waiters_leave_no_entry,
    an_owner_enters_again_unless_the_lock_is_non_reentrant,
    a_forced_unlock_serves_the_first_waiter,
);
stories_of_processes!(processes_are_served_in_the_order_in_which_they_came);

async fn waiters_of_two_clients_are_served_in_the_order_in_which_they_came(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = us.fair_lock(&name).lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..12 {
        let client = if number % 3 == 0 { &us } else { &them };
        let (waiter, served) = (queues(client, &name).await, served.clone());
        waiters.push(tokio::spawn(async move {
            let guard = waiter.await.unwrap();
            served.lock().unwrap().push(number);
            tokio::time::sleep(ms(2)).await;
            guard.unlock().await.unwrap();
        }));
    }

    held.unlock().await.unwrap();

    for waiter in waiters {
        waiter.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..12).collect::<Vec<_>>());
    assert!(stage.is_free(&name).await);
}

async fn a_try_overtakes_no_waiter(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.fair_lock(&name).lock().await.unwrap();
    let waiter = queues(&them, &name).await;
    assert!(us.fair_lock(&name).try_lock().await.unwrap().is_none());

    held.unlock().await.unwrap();

    // It finds the lock free or taken, and is not the first in the queue in either case.
    assert!(us.fair_lock(&name).try_lock().await.unwrap().is_none());
    waiter.await.unwrap().unlock().await.unwrap();
    assert!(us.fair_lock(&name).try_lock().await.unwrap().is_some());
}

async fn cancelled_waiters_leave_no_entry(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.fair_lock(&name).lock().await.unwrap();
    let cancelled = [queues(&us, &name).await, queues(&us, &name).await];
    let timed = us.fair_lock(&name).try_lock_for(ms(300)).await;
    assert!(timed.unwrap().is_none());
    let last = queues(&them, &name).await;
    cancelled.iter().for_each(|waiter| waiter.abort());
    // The leaves are on their way; the lock goes to the one that is left.
    held.unlock().await.unwrap();
    last.await.unwrap().unlock().await.unwrap();

    let is_empty = async || match stage.server() {
        Some(server) => !server.keys().iter().any(|key| key.contains("waiters")),
        None => {
            let tried = us.fair_lock(&name).try_lock().await.unwrap();
            let is_free = tried.is_some();
            if let Some(guard) = tried {
                guard.unlock().await.unwrap();
            }
            is_free
        }
    };
    testkit::eventually_async(LIMIT, "no entry is left", is_empty).await;
}

async fn an_owner_enters_again_unless_the_lock_is_non_reentrant(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let owner = Owner::new();
    let lock = us.fair_lock(&name).owned_by(&owner);
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);

    let strict = us.fair_lock(&name).owned_by(&owner).non_reentrant();
    let error = strict.lock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
    assert!(stage.is_free(&name).await);
}

async fn a_forced_unlock_serves_the_first_waiter(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.fair_lock(&name).lock().await.unwrap();
    let [first, second] = [queues(&us, &name).await, queues(&them, &name).await];

    assert!(us.fair_lock(&name).force_unlock().await.unwrap());

    let first = first.await.unwrap();
    assert!(!second.is_finished());
    first.unlock().await.unwrap();
    second.await.unwrap().unlock().await.unwrap();
    drop(held);
}

async fn processes_are_served_in_the_order_in_which_they_came(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let held = us.fair_lock(&name).lock().await.unwrap();
    let mut elsewhere = [
        queues_elsewhere(stage, &name),
        queues_elsewhere(stage, &name),
    ];
    let ours = queues(&us, &name).await;
    let mut last = queues_elsewhere(stage, &name);
    // Their processes live while they wait.
    tokio::time::sleep(Duration::from_secs(7)).await;

    held.unlock().await.unwrap();

    for child in &mut elsewhere {
        assert_eq!(child.hear(LIMIT), "in");
        assert!(!ours.is_finished());
        child.say("go");
        assert_eq!(child.hear(LIMIT), "out");
    }
    ours.await.unwrap().unlock().await.unwrap();
    assert_eq!(last.hear(LIMIT), "in");
    last.say("go");
}
