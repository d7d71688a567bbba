//! Waiters for a fair lock, in this process and in others.

use ferrolock::kind::Fair;
use ferrolock::{Client, FairLock, Guard};
use testkit::LIMIT;
use testkit::process::{Child, Role};
use tokio::task::JoinHandle;

use crate::stage::{Stage, causes, polled_meanwhile};

/// Waits for the lock in a task of its own; it has its place in the queue when this returns.
pub(crate) async fn queues(client: &Client, name: &str) -> JoinHandle<Guard<Fair>> {
    queues_for(client, &client.fair_lock(name)).await
}

/// The same with a handle of that client.
pub(crate) async fn queues_for(client: &Client, lock: &FairLock) -> JoinHandle<Guard<Fair>> {
    let name = lock.name();
    let before = causes_of_places(name);
    let waits = lock.lock();
    let waiter = tokio::spawn(async move { waits.await.unwrap() });
    testkit::eventually_async(LIMIT, "it has a place", async || {
        causes_of_places(name) > before
    })
    .await;
    // As `stage::attempt_made`: the attempt was begun, and is answered before the ping.
    polled_meanwhile().await;
    client.ping().await.unwrap();
    waiter
}

/// Attempts of newcomers, and of a first waiter after it began to listen.
fn causes_of_places(name: &str) -> usize {
    let attempts = causes::of_attempts(name).into_iter();
    attempts
        .filter(|cause| cause == "arrival" || cause == "confirmed")
        .count()
}

/// A process that waits for the lock, says when it has it, and gives it back when it is told.
pub(crate) fn waiter(role: &Role) {
    let runtime = crate::stage::stories::threads();
    runtime.block_on(async {
        let [url, name] = role.args() else {
            panic!("two arguments: {role:?}");
        };
        let client = Client::connect(url).await.unwrap();
        let queued = queues(&client, name).await;
        role.say("queued");
        let guard = queued.await.unwrap();
        role.say("in");
        role.hear();
        guard.unlock().await.unwrap();
        role.say("out");
    });
}

/// Starts a process that waits for the lock; it has its place in the queue when this returns.
pub(crate) fn queues_elsewhere(stage: &Stage, name: &str) -> Child {
    let mut child = Child::again("support::waiter", &[&stage.url(), name]);
    assert_eq!(child.hear(LIMIT), "queued");
    child
}
