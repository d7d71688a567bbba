//! Waiters whose process was killed.

use std::time::Duration;

use testkit::LIMIT;
use tokio::time::Instant;

use crate::stage::{Stage, ms, unique};
use crate::support::{queues, queues_elsewhere};

stories_of_processes!(
    a_waiter_of_a_killed_process_is_skipped,
    waiters_of_a_killed_process_behind_the_head_are_skipped,
);

/// At most the dead time and one beat on a server; with a file at once, because the system reports the death.
fn promised(stage: &Stage) -> Duration {
    match stage.server() {
        Some(_) => ms(5_000 + 1_250),
        None => ms(1_000),
    }
}

async fn a_waiter_of_a_killed_process_is_skipped(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let held = us.fair_lock(&name).lock().await.unwrap();
    let mut killed = [
        queues_elsewhere(stage, &name),
        queues_elsewhere(stage, &name),
    ];
    let ours = queues(&us, &name).await;
    let mut last = queues_elsewhere(stage, &name);
    let begun = Instant::now();
    killed.iter_mut().for_each(|child| {
        child.kill();
    });

    held.unlock().await.unwrap();

    let guard = ours.await.unwrap();
    stage.took(
        "after the waiters before it were killed",
        begun,
        promised(stage),
    );
    guard.unlock().await.unwrap();
    assert_eq!(last.hear(LIMIT), "in");
    last.say("go");
}

/// It is found dead when it becomes the head, and costs nothing more if that is later than its death.
async fn waiters_of_a_killed_process_behind_the_head_are_skipped(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let held = us.fair_lock(&name).lock().await.unwrap();
    let first = queues(&us, &name).await;
    let mut killed = queues_elsewhere(stage, &name);
    let last = queues(&us, &name).await;
    killed.kill();
    tokio::time::sleep(promised(stage)).await;
    held.unlock().await.unwrap();
    let first = first.await.unwrap();
    let begun = Instant::now();

    first.unlock().await.unwrap();

    last.await.unwrap().unlock().await.unwrap();
    stage.took_no_time("after a release to one that was dead long ago", begun);
}
