//! Futures dropped in a queue, or with a grant on offer.

use ferrolock::Client;
use testkit::poll_once;
use tokio::time::{Instant, sleep};

use crate::dropped_futures::{POLLS_MAX, finishes};
use crate::stage::{Stage, ms};
use crate::world::World;

stories!(
    a_future_dropped_with_a_grant_on_offer_gives_it_back,
    a_waiter_dropped_while_the_lock_stays_busy_leaves_no_task,
    a_future_dropped_in_a_queue_gives_its_place_to_the_next,
);

stories_of_every_kind!(a_future_dropped_in_a_queue_gives_its_place_to_the_next);

async fn a_future_dropped_with_a_grant_on_offer_gives_it_back(stage: &Stage) {
    let world = World::on(stage).await;
    let guard = world.other.lock("x").lock().await.unwrap();
    let mut waiting = Box::pin(world.client.lock("x").lock());
    assert!(poll_once(waiting.as_mut()).is_pending());
    // A future that is not polled after its first attempt is put among the waiters after a second.
    sleep(ms(1000) + world.soon()).await;
    guard.unlock().await.unwrap();
    if stage.kind().is_offered_unpolled() {
        // Now or soon the lock is offered to it for a while, and it does not take it.
        let offered = async || world.is_locked("x").await;
        testkit::eventually_async(testkit::LIMIT, "it is offered", offered).await;
    }

    drop(waiting);

    world.nothing_left("x").await;
}

async fn a_waiter_dropped_while_the_lock_stays_busy_leaves_no_task(stage: &Stage) {
    let world = World::on(stage).await;
    for polls in 1..POLLS_MAX {
        let name = format!("x{polls}");
        let guard = world.other.lock(&name).lock().await.unwrap();
        let lock = world.client.lock(&name).max_wait(world.a_while() * 4);

        let finished = finishes(polls, lock.lock()).await;

        world.nobody_waits(&format!("{polls} polls")).await;
        assert!(guard.is_held());
        guard.unlock().await.unwrap();
        if finished {
            assert!(polls > 1, "lock was not dropped half-way");
            return world.nothing_goes_on().await;
        }
    }
    panic!("lock does not finish");
}

async fn a_future_dropped_in_a_queue_gives_its_place_to_the_next(stage: &Stage) {
    let world = World::on(stage).await;
    let guard = world.other.lock("x").lock().await.unwrap();
    let mut first = Box::pin(world.client.lock("x").lock());
    assert!(poll_once(first.as_mut()).is_pending());
    let lock = world.client.lock("x");
    let second = tokio::spawn(async move { lock.lock().await });
    sleep(world.soon()).await;

    drop(first);
    guard.unlock().await.unwrap();

    let begun = Instant::now();
    second.await.unwrap().unwrap().unlock().await.unwrap();
    stage.took("the next in the queue", begun, world.soon());
    world.nothing_left("x").await;
}

/// It has no await point: it is dropped before its first poll, or done with it.
#[tokio::test(start_paused = true)]
async fn connecting_inside_the_process_is_dropped_unpolled_or_done() {
    assert!(!finishes(0, Client::connect("memory:cancellation-connect")).await);
    assert!(finishes(1, Client::connect("memory:cancellation-connect")).await);
}
