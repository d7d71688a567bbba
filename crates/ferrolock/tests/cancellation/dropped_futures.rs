//! Every public future, dropped at each of its await points.
//!
//! In paused time a future is polled the same way each time. In real time it is not: answers also come between the polls.

use std::future::Future;
use std::time::Duration;

use ferrolock::{ErrorKind, Owner};
use testkit::drop_after_polls;
use tokio::time::sleep;

use crate::stage::{Stage, ms};
use crate::world::World;

stories!(
    lock_on_a_free_name,
    lock_on_a_busy_name,
    lock_on_a_name_that_another_task_of_the_client_holds,
    a_lock_that_stays_busy,
    a_re_entry,
    try_lock_on_a_free_and_on_a_busy_name,
    try_lock_for_on_a_free_and_on_a_busy_name,
    run_before_its_body_in_it_and_in_the_unlock_after_it,
    unlock_and_unlock_after,
    an_unlock_of_one_of_two_holds_leaves_the_other,
    relock_renew_check_while_held_and_lost,
    queries_force_unlock_and_ping,
    a_dropped_shutdown_keeps_the_client_closed_and_its_holds_renewed,
);

stories_of_every_kind!(lock_on_a_free_name);

stories_on_one_thread!(
    lock_on_a_free_name,
    lock_on_a_busy_name,
    a_re_entry,
    try_lock_on_a_free_and_on_a_busy_name,
    try_lock_for_on_a_free_and_on_a_busy_name,
    run_before_its_body_in_it_and_in_the_unlock_after_it,
    unlock_and_unlock_after,
);

/// More await points than any future here has.
pub(crate) const POLLS_MAX: usize = 200;

/// Whether a future finished.
type Finished = bool;

pub(crate) async fn finishes<F: Future>(polls: usize, future: F) -> Finished {
    drop_after_polls(polls, future).await.finished().is_some()
}

/// Runs `act` with 0, 1, 2 … polls, each time on a name of its own, until its future finishes; and asserts each time that
/// nothing is left.
async fn at_each_await(
    world: &World<'_>,
    what: &str,
    act: impl AsyncFn(&World<'_>, &str, usize) -> Finished,
) {
    for polls in 0..POLLS_MAX {
        let name = format!("{what}, {polls} polls");
        let finished = act(world, &name, polls).await;
        world.nothing_left(&name).await;
        if finished {
            assert!(polls > 0, "{what} was not dropped half-way");
            return;
        }
    }
    panic!("{what} does not finish");
}

async fn lock_on_a_free_name(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "lock", async |world, name, polls| {
        finishes(polls, world.client.lock(name).lock()).await
    })
    .await;
    world.nothing_goes_on().await;
}

async fn lock_on_a_busy_name(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "lock, busy", async |world, name, polls| {
        let holder = world.held_for_a_while(&world.other, name).await;
        let finished = finishes(polls, world.client.lock(name).lock()).await;
        holder.gone().await;
        finished
    })
    .await;
    world.nothing_goes_on().await;
}

async fn lock_on_a_name_that_another_task_of_the_client_holds(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "lock, busy here", async |world, name, polls| {
        let holder = world.held_for_a_while(&world.client, name).await;
        let finished = finishes(polls, world.client.lock(name).lock()).await;
        holder.gone().await;
        finished
    })
    .await;
    world.nothing_goes_on().await;
}

async fn a_lock_that_stays_busy(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "lock with max_wait", async |world, name, polls| {
        let guard = world.other.lock(name).lock().await.unwrap();
        let lock = world.client.lock(name).max_wait(world.a_while() * 3);
        let outcome = drop_after_polls(polls, lock.lock()).await.finished();
        guard.unlock().await.unwrap();
        if let Some(taken) = &outcome {
            let error = taken.as_ref().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        }
        outcome.is_some()
    })
    .await;
    world.nothing_goes_on().await;
}

async fn a_re_entry(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "re-entry", async |world, name, polls| {
        let me = Owner::new();
        let lock = world.client.lock(name).owned_by(&me);
        let outer = lock.lock().await.unwrap();
        let finished = finishes(polls, lock.lock()).await;
        // A grant of the dropped call is given back: one hold is left, here and on the server.
        wait_for_one_hold(world, name, &me).await;
        outer.assert_holds(1);
        outer.unlock().await.unwrap();
        finished
    })
    .await;
    world.nothing_goes_on().await;
}

/// Waits until the owner has one hold; in virtual time also asserts that it stays so.
async fn wait_for_one_hold(world: &World<'_>, name: &str, owner: &Owner) {
    let lock = world.client.lock(name);
    testkit::eventually_async(testkit::LIMIT, name, async || {
        lock.hold_count(owner).await.unwrap() == 1
    })
    .await;
    if world.stage.is_virtual() {
        sleep(world.soon()).await;
        assert_eq!(lock.hold_count(owner).await.unwrap(), 1, "{name}");
    }
}

async fn try_lock_on_a_free_and_on_a_busy_name(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "try_lock", async |world, name, polls| {
        finishes(polls, world.client.lock(name).try_lock()).await
    })
    .await;
    at_each_await(&world, "try_lock, busy", async |world, name, polls| {
        let _guard = world.other.lock(name).lock().await.unwrap();
        finishes(polls, world.client.lock(name).try_lock()).await
    })
    .await;
    world.nothing_goes_on().await;
}

async fn try_lock_for_on_a_free_and_on_a_busy_name(stage: &Stage) {
    let world = World::on(stage).await;
    let wait = world.a_while() * 2;
    at_each_await(&world, "try_lock_for", async |world, name, polls| {
        finishes(polls, world.client.lock(name).try_lock_for(wait)).await
    })
    .await;
    at_each_await(&world, "try_lock_for, busy", async |world, name, polls| {
        let _guard = world.other.lock(name).lock().await.unwrap();
        finishes(polls, world.client.lock(name).try_lock_for(wait)).await
    })
    .await;
    world.nothing_goes_on().await;
}

async fn run_before_its_body_in_it_and_in_the_unlock_after_it(stage: &Stage) {
    let world = World::on(stage).await;
    // Longer than the lease in virtual time, where that costs nothing.
    let work = if stage.is_virtual() {
        stage.lease() * 2
    } else {
        ms(20)
    };
    at_each_await(&world, "run", async |world, name, polls| {
        let lock = world.client.lock(name);
        let work = lock.run(async |guard| {
            tokio::task::yield_now().await;
            assert!(guard.is_held());
            sleep(work).await;
            guard.ensure_held()
        });
        let outcome = drop_after_polls(polls, work).await.finished();
        outcome.map(|ran| ran.unwrap().unwrap()).is_some()
    })
    .await;
    world.nothing_goes_on().await;
}

async fn unlock_and_unlock_after(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "unlock", async |world, name, polls| {
        let guard = world.held(name).await;
        finishes(polls, guard.unlock()).await
    })
    .await;
    at_each_await(&world, "unlock_after", async |world, name, polls| {
        let guard = world.held(name).await;
        finishes(polls, guard.unlock_after(ms(100))).await
    })
    .await;
    world.nothing_goes_on().await;
}

async fn an_unlock_of_one_of_two_holds_leaves_the_other(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "unlock of two", async |world, name, polls| {
        let me = Owner::new();
        let lock = world.client.lock(name).owned_by(&me);
        let outer = lock.lock().await.unwrap();
        let inner = outer.relock().await.unwrap();
        let finished = finishes(polls, inner.unlock()).await;
        wait_for_one_hold(world, name, &me).await;
        assert!(outer.is_held());
        outer.unlock().await.unwrap();
        finished
    })
    .await;
    world.nothing_goes_on().await;
}

async fn relock_renew_check_while_held_and_lost(stage: &Stage) {
    let world = World::on(stage).await;
    at_each_await(&world, "relock", async |world, name, polls| {
        let me = Owner::new();
        let lock = world.client.lock(name).owned_by(&me);
        let guard = lock.lock().await.unwrap();
        let finished = finishes(polls, guard.relock()).await;
        wait_for_one_hold(world, name, &me).await;
        finished
    })
    .await;
    at_each_await(&world, "renew", async |world, name, polls| {
        let guard = world.held(name).await;
        let finished = finishes(polls, guard.renew(Duration::from_secs(60))).await;
        assert!(guard.is_held());
        finished
    })
    .await;
    at_each_await(&world, "check", async |world, name, polls| {
        let guard = world.held(name).await;
        let finished = finishes(polls, guard.check()).await;
        assert!(guard.is_held());
        finished
    })
    .await;
    at_each_await(&world, "while_held", async |world, name, polls| {
        let guard = world.held(name).await;
        let finished = finishes(polls, guard.while_held(sleep(world.a_while()))).await;
        assert!(guard.is_held());
        finished
    })
    .await;
    at_each_await(&world, "lost", async |world, name, polls| {
        let lock = world.client.lock(name).lease(ms(1000));
        let guard = lock.lock().await.unwrap();
        finishes(polls, guard.lost()).await
    })
    .await;
    world.nothing_goes_on().await;
}

async fn queries_force_unlock_and_ping(stage: &Stage) {
    let world = World::on(stage).await;
    macro_rules! question {
        ($verb:ident $(, $owner:ident)?) => {
            at_each_await(&world, stringify!($verb), async |world, name, polls| {
                $(let $owner = Owner::new();)?
                let lock = world.client.lock(name);
                let _guard = world.held(name).await;
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
    at_each_await(&world, "force_unlock", async |world, name, polls| {
        let _guard = world.held(name).await;
        let finished = finishes(polls, world.client.lock(name).force_unlock()).await;
        // After the ping a command that was sent before the drop is done: it must not hit the next holder.
        world.client.ping().await.unwrap();
        finished
    })
    .await;
    at_each_await(&world, "ping", async |world, _, polls| {
        finishes(polls, world.client.ping()).await
    })
    .await;
    world.nothing_goes_on().await;
}

async fn a_dropped_shutdown_keeps_the_client_closed_and_its_holds_renewed(stage: &Stage) {
    for polls in 1..POLLS_MAX {
        let world = World::on(stage).await;
        let guard = world.held("x").await;
        let limit = if stage.is_virtual() {
            stage.lease() * 2
        } else {
            ms(300)
        };

        let finished = finishes(polls, world.client.shutdown(limit)).await;

        let error = world.client.lock("y").lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        if finished {
            assert!(polls > 1, "shutdown was not dropped half-way");
            assert!(!guard.is_held());
            return;
        }
        // Longer than the lease: still renewed.
        sleep(stage.lease() * 3 / 2).await;
        assert!(guard.is_held() && world.is_locked("x").await);
        guard.unlock().await.unwrap();
        assert!(!world.is_locked("x").await);
    }
    panic!("shutdown does not finish");
}
