//! Every future of the read-write lock, dropped at each of its await points: no hold, no hold key, no intent is left.

use std::future::Future;

use testkit::drop_after_polls;

use crate::stage::{Stage, unique};
use crate::support::nothing_left;

stories_of_one_kind!(
    reads_and_writes_on_a_free_name,
    writes_on_a_name_that_is_read,
    reads_on_a_name_that_is_written,
    a_downgrade,
);

stories_on_one_thread!(reads_and_writes_on_a_free_name, a_downgrade);

/// More await points than any future here has.
const POLLS_MAX: usize = 100;

async fn finishes<F: Future>(polls: usize, future: F) -> bool {
    drop_after_polls(polls, future).await.finished().is_some()
}

/// Runs `act` with 0, 1, 2 … polls, each time on a name of its own, until its future finishes.
async fn at_each_await(stage: &Stage, act: impl AsyncFn(&str, usize) -> bool) {
    for polls in 0..POLLS_MAX {
        let name = unique("shelf");
        let is_finished = act(&name, polls).await;
        nothing_left(stage, &name).await;
        if is_finished {
            return;
        }
    }
    panic!("it does not finish");
}

async fn reads_and_writes_on_a_free_name(stage: &Stage) {
    let client = stage.client().await;
    for prefers in [false, true] {
        let lock = |name: &str| match prefers {
            true => client.rw_lock(name).prefer_writers(),
            false => client.rw_lock(name),
        };
        at_each_await(stage, async |name, polls| {
            finishes(polls, lock(name).read()).await
        })
        .await;
        at_each_await(stage, async |name, polls| {
            finishes(polls, lock(name).write()).await
        })
        .await;
        at_each_await(stage, async |name, polls| {
            finishes(polls, lock(name).try_read()).await
        })
        .await;
        at_each_await(stage, async |name, polls| {
            finishes(polls, lock(name).try_write()).await
        })
        .await;
    }
}

async fn writes_on_a_name_that_is_read(stage: &Stage) {
    let (here, there) = stage.clients().await;
    for prefers in [false, true] {
        at_each_await(stage, async |name, polls| {
            let reading = there.rw_lock(name).read().await.unwrap();
            let lock = here.rw_lock(name);
            let lock = if prefers { lock.prefer_writers() } else { lock };
            let lock = lock.max_wait(crate::stage::ms(60));
            let is_finished = finishes(polls, lock.write()).await;
            reading.unlock().await.unwrap();
            is_finished
        })
        .await;
    }
}

async fn reads_on_a_name_that_is_written(stage: &Stage) {
    let (here, there) = stage.clients().await;
    at_each_await(stage, async |name, polls| {
        let writing = there.rw_lock(name).write().await.unwrap();
        let lock = here.rw_lock(name).max_wait(crate::stage::ms(60));
        let is_finished = finishes(polls, lock.read()).await;
        writing.unlock().await.unwrap();
        is_finished
    })
    .await;
}

async fn a_downgrade(stage: &Stage) {
    let client = stage.client().await;
    at_each_await(stage, async |name, polls| {
        let writing = client.rw_lock(name).write().await.unwrap();
        finishes(polls, writing.downgrade()).await
    })
    .await;
}
