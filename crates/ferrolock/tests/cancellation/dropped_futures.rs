//! Every public future, dropped at each of its await points, in paused time.

use std::future::Future;
use std::time::Duration;

use ferrolock::{Client, ErrorKind, Owner};
use testkit::{drop_after_polls, poll_once};
use tokio::time::sleep;

use crate::world::{SOON, World};

/// More await points than any future here has.
const POLLS_MAX: usize = 200;

/// Whether a future finished.
type Finished = bool;

async fn finishes<F: Future>(polls: usize, future: F) -> Finished {
    drop_after_polls(polls, future).await.finished().is_some()
}

/// Runs `act` with 0, 1, 2 … polls until its future finishes, and looks each time for what is left.
async fn at_each_await(what: &str, act: impl AsyncFn(&World, usize) -> Finished) {
    for polls in 0..POLLS_MAX {
        let world = World::new().await;
        let finished = act(&world, polls).await;
        world.nothing_left(&format!("{what}, {polls} polls")).await;
        if finished {
            assert!(polls > 0, "{what} was not dropped half-way");
            return;
        }
    }
    panic!("{what} does not finish");
}

#[tokio::test(start_paused = true)]
async fn lock_on_a_free_name() {
    at_each_await("lock", async |world, polls| {
        finishes(polls, world.client.lock("x").lock()).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lock_on_a_busy_name() {
    at_each_await("lock, busy", async |world, polls| {
        let guard = world.other.lock("x").lock().await.unwrap();
        let holder = tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            guard.unlock().await.unwrap();
        });
        let finished = finishes(polls, world.client.lock("x").lock()).await;
        holder.await.unwrap();
        finished
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lock_on_a_name_that_another_task_of_the_client_holds() {
    at_each_await("lock, busy here", async |world, polls| {
        let guard = world.client.lock("x").lock().await.unwrap();
        let holder = tokio::spawn(async move {
            sleep(Duration::from_secs(1)).await;
            guard.unlock().await.unwrap();
        });
        let finished = finishes(polls, world.client.lock("x").lock()).await;
        holder.await.unwrap();
        finished
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_stays_busy() {
    at_each_await("lock with max_wait", async |world, polls| {
        let guard = world.other.lock("x").lock().await.unwrap();
        let lock = world.client.lock("x").max_wait(Duration::from_secs(3));
        let outcome = drop_after_polls(polls, lock.lock()).await.finished();
        guard.unlock().await.unwrap();
        if let Some(taken) = &outcome {
            let error = taken.as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        outcome.is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_re_entry() {
    at_each_await("re-entry", async |world, polls| {
        let me = Owner::new();
        let lock = world.client.lock("x").owned_by(&me);
        let outer = lock.lock().await.unwrap();
        let finished = finishes(polls, lock.lock()).await;
        // What was given back on the way is given back: one hold is left, here and on the server.
        sleep(SOON).await;
        assert_eq!(outer.hold_count(), 1, "{polls} polls");
        assert_eq!(lock.hold_count(&me).await.unwrap(), 1, "{polls} polls");
        outer.unlock().await.unwrap();
        finished
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_on_a_free_and_on_a_busy_name() {
    at_each_await("try_lock", async |world, polls| {
        finishes(polls, world.client.lock("x").try_lock()).await
    })
    .await;
    at_each_await("try_lock, busy", async |world, polls| {
        let _guard = world.other.lock("x").lock().await.unwrap();
        finishes(polls, world.client.lock("x").try_lock()).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn try_lock_for_on_a_free_and_on_a_busy_name() {
    let wait = Duration::from_secs(2);
    at_each_await("try_lock_for", async |world, polls| {
        finishes(polls, world.client.lock("x").try_lock_for(wait)).await
    })
    .await;
    at_each_await("try_lock_for, busy", async |world, polls| {
        let _guard = world.other.lock("x").lock().await.unwrap();
        finishes(polls, world.client.lock("x").try_lock_for(wait)).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn run_before_its_body_in_it_and_in_the_unlock_after_it() {
    at_each_await("run", async |world, polls| {
        let lock = world.client.lock("x");
        let work = lock.run(async |guard| {
            tokio::task::yield_now().await;
            assert!(guard.is_held());
            sleep(Duration::from_secs(60)).await;
            guard.ensure_held()
        });
        let outcome = drop_after_polls(polls, work).await.finished();
        outcome.map(|ran| ran.unwrap().unwrap()).is_some()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_verbs_that_end_a_guard() {
    at_each_await("unlock", async |world, polls| {
        let guard = world.client.lock("x").lock().await.unwrap();
        finishes(polls, guard.unlock()).await
    })
    .await;
    at_each_await("unlock_after", async |world, polls| {
        let guard = world.client.lock("x").lock().await.unwrap();
        finishes(polls, guard.unlock_after(SOON / 2)).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_unlock_that_leaves_a_hold_leaves_exactly_that() {
    at_each_await("unlock of two", async |world, polls| {
        let me = Owner::new();
        let lock = world.client.lock("x").owned_by(&me);
        let outer = lock.lock().await.unwrap();
        let inner = outer.relock().await.unwrap();
        let finished = finishes(polls, inner.unlock()).await;
        sleep(SOON).await;
        assert_eq!(lock.hold_count(&me).await.unwrap(), 1, "{polls} polls");
        assert!(outer.is_held());
        outer.unlock().await.unwrap();
        finished
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_verbs_of_a_guard_that_lives_on() {
    at_each_await("relock", async |world, polls| {
        let me = Owner::new();
        let lock = world.client.lock("x").owned_by(&me);
        let guard = lock.lock().await.unwrap();
        let finished = finishes(polls, guard.relock()).await;
        sleep(SOON).await;
        assert_eq!(lock.hold_count(&me).await.unwrap(), 1, "{polls} polls");
        finished
    })
    .await;
    at_each_await("renew", async |world, polls| {
        let guard = world.client.lock("x").lock().await.unwrap();
        let finished = finishes(polls, guard.renew(Duration::from_secs(60))).await;
        assert!(guard.is_held());
        finished
    })
    .await;
    at_each_await("check", async |world, polls| {
        let guard = world.client.lock("x").lock().await.unwrap();
        let finished = finishes(polls, guard.check()).await;
        assert!(guard.is_held());
        finished
    })
    .await;
    at_each_await("while_held", async |world, polls| {
        let guard = world.client.lock("x").lock().await.unwrap();
        let work = guard.while_held(sleep(Duration::from_secs(60)));
        let finished = finishes(polls, work).await;
        assert!(guard.is_held());
        finished
    })
    .await;
    at_each_await("lost", async |world, polls| {
        let lock = world.client.lock("x").lease(Duration::from_secs(1));
        let guard = lock.lock().await.unwrap();
        finishes(polls, guard.lost()).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_questions_about_a_lock() {
    macro_rules! question {
        ($verb:ident $(, $owner:ident)?) => {
            at_each_await(stringify!($verb), async |world, polls| {
                $(let $owner = Owner::new();)?
                let lock = world.client.lock("x");
                let _guard = world.client.lock("x").lock().await.unwrap();
                finishes(polls, lock.$verb($(&$owner)?)).await
            })
            .await;
        };
    }
    question!(is_locked);
    question!(is_held_by, me);
    question!(hold_count, me);
    question!(remaining);
    question!(holders);
    question!(force_unlock);
    at_each_await("ping", async |world, polls| {
        finishes(polls, world.client.ping()).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connecting() {
    at_each_await("connect", async |_, polls| {
        let connecting = Client::connect("memory:cancellation-connect");
        // It has nothing to wait for: dropped unpolled, or done.
        finishes(polls, connecting).await
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_that_is_dropped_stays_begun_and_its_holds_go_on() {
    for polls in 1..POLLS_MAX {
        let world = World::new().await;
        let guard = world.client.lock("x").lock().await.unwrap();
        let limit = Duration::from_secs(60);

        let finished = finishes(polls, world.client.shutdown(limit)).await;

        let error = world.client.lock("y").lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        if finished {
            assert!(polls > 1, "shutdown was not dropped half-way");
            assert!(!guard.is_held());
            return;
        }
        // Longer than the lease: still renewed.
        sleep(Duration::from_secs(50)).await;
        assert!(guard.is_held() && world.is_locked().await);
        guard.unlock().await.unwrap();
        assert!(!world.is_locked().await);
    }
    panic!("shutdown does not finish");
}

#[tokio::test(start_paused = true)]
async fn a_future_dropped_with_a_grant_on_offer_gives_it_back() {
    let world = World::new().await;
    let guard = world.other.lock("x").lock().await.unwrap();
    let mut waiting = Box::pin(world.client.lock("x").lock());
    assert!(poll_once(waiting.as_mut()).is_pending());
    // Whoever does not look at its first attempt is put into the line after a second.
    sleep(Duration::from_secs(1) + SOON).await;
    guard.unlock().await.unwrap();
    // Offered by now, for a second, and not taken.
    sleep(SOON).await;
    assert!(world.is_locked().await);

    drop(waiting);

    world.nothing_left("dropped with an offer").await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_dropped_while_the_lock_stays_busy_leaves_no_entry_that_is_worked_for() {
    for polls in 1..POLLS_MAX {
        let world = World::new().await;
        let guard = world.other.lock("x").lock().await.unwrap();
        let lock = world.client.lock("x").max_wait(Duration::from_secs(4));

        let finished = finishes(polls, lock.lock()).await;

        world.nobody_waits(&format!("{polls} polls")).await;
        assert!(guard.is_held());
        if finished {
            assert!(polls > 1, "lock was not dropped half-way");
            return;
        }
    }
    panic!("lock does not finish");
}

#[tokio::test(start_paused = true)]
async fn a_future_dropped_in_a_queue_gives_its_place_to_the_next() {
    let world = World::new().await;
    let guard = world.other.lock("x").lock().await.unwrap();
    let mut first = Box::pin(world.client.lock("x").lock());
    assert!(poll_once(first.as_mut()).is_pending());
    let lock = world.client.lock("x");
    let second = tokio::spawn(async move { lock.lock().await });
    sleep(SOON).await;

    drop(first);
    guard.unlock().await.unwrap();

    let begun = tokio::time::Instant::now();
    second.await.unwrap().unwrap().unlock().await.unwrap();
    assert!(begun.elapsed() < SOON);
    world.nothing_left("dropped in a queue").await;
}
