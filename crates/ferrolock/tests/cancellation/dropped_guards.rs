//! Guards dropped in unusual places: released all the same.

use std::time::Duration;

use ferrolock::{AnyGuard, LostReason};
use testkit::LIMIT;
use testkit::process::{Child, Role};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::stage::{Party, Stage, TestGuard, ms, stories};
use crate::world::World;

stories!(
    a_task_that_panics_releases_its_lock,
    a_body_of_run_that_panics_or_is_aborted_releases_its_lock,
    a_forgotten_guard_is_ended_by_max_hold,
    a_guard_is_lost_with_max_hold_at_its_limit,
);

stories_in_real_time!(
    a_guard_dropped_on_a_plain_thread_is_released,
    a_guard_dropped_after_its_runtime_ended_is_released,
    a_guard_that_outlives_its_client_and_runtime_is_released,
    a_guard_kept_past_the_end_of_its_runtime_is_still_renewed,
);

stories_of_every_kind!(a_guard_dropped_after_its_runtime_ended_is_released);

stories_of_processes!(a_guard_dropped_at_the_end_of_main_is_released_before_the_process_ends);

/// A client that holds a lock, with a runtime of its own.
struct Elsewhere {
    runtime: Runtime,
    client: Party,
    guard: TestGuard,
}

async fn elsewhere(stage: &Stage, lease: Duration) -> Elsewhere {
    let (runtime, builder, place) = (stories::threads(), stage.builder(), stage.place());
    let held = runtime.spawn(async move {
        let client = Party::connect(builder.watchdog_lease(lease), &place).await;
        let guard = client.lock("orders").lock().await.unwrap();
        (client, guard)
    });
    let (client, guard) = held.await.unwrap();
    Elsewhere {
        runtime,
        client,
        guard,
    }
}

/// So long that the end of the lease cannot be what frees the lock in time.
const LEASE: Duration = Duration::from_secs(120);

/// Runs `work` on a thread that has no runtime.
async fn on_a_plain_thread(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(work);
    tokio::task::spawn_blocking(|| thread.join().unwrap())
        .await
        .unwrap();
}

async fn assert_soon_free(stage: &Stage) {
    let begun = Instant::now();
    stage.freed("orders").await;
    let took = begun.elapsed();
    eprintln!("{}: released after {took:?}", stage.name());
    assert!(took < Duration::from_secs(10), "{took:?}");
}

async fn a_guard_dropped_on_a_plain_thread_is_released(stage: &Stage) {
    let held = elsewhere(stage, LEASE).await;
    assert!(!stage.is_free("orders").await);

    let (guard, kept) = (held.guard, (held.client, held.runtime));
    on_a_plain_thread(move || drop(guard)).await;

    assert_soon_free(stage).await;
    on_a_plain_thread(move || drop(kept)).await;
}

async fn a_guard_dropped_after_its_runtime_ended_is_released(stage: &Stage) {
    let held = elsewhere(stage, LEASE).await;
    let (runtime, guard) = (held.runtime, held.guard);
    on_a_plain_thread(move || drop(runtime)).await;
    assert!(!stage.is_free("orders").await);

    on_a_plain_thread(move || drop(guard)).await;

    assert_soon_free(stage).await;
    drop(held.client);
}

async fn a_guard_that_outlives_its_client_and_runtime_is_released(stage: &Stage) {
    let held = elsewhere(stage, LEASE).await;
    let (client, runtime) = (held.client, held.runtime);
    on_a_plain_thread(move || drop((client, runtime))).await;
    assert!(!stage.is_free("orders").await);

    drop(held.guard);

    assert_soon_free(stage).await;
}

async fn a_guard_kept_past_the_end_of_its_runtime_is_still_renewed(stage: &Stage) {
    let lease = stage.lease();
    let held = elsewhere(stage, lease).await;
    let runtime = held.runtime;
    on_a_plain_thread(move || drop(runtime)).await;

    sleep(lease * 2).await;

    assert!(held.guard.is_held());
    assert!(!stage.is_free("orders").await);
}

/// A small program: takes a lock, drops its guard inside or outside of the runtime, and returns from `main`.
pub(crate) fn short_program(role: &Role) {
    let (address, way) = (&role.args()[0], role.args()[1].as_str());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let kept = runtime.block_on(async {
        let client = Party::at(address).await;
        let guard = client.lock("orders").lock().await.unwrap();
        role.say("held");
        role.hear();
        match way {
            "inside" => None,
            "outside" => Some((client, guard)),
            other => panic!("{other}"),
        }
    });
    drop(runtime);
    drop(kept);
}

/// With a file store the end of the process would release the lock too.
async fn a_guard_dropped_at_the_end_of_main_is_released_before_the_process_ends(stage: &Stage) {
    for way in ["inside", "outside"] {
        let role = "dropped_guards::short_program";
        let mut program = Child::again(role, &[&stage.address(), way]);
        assert_eq!(program.hear(LIMIT), "held");
        assert!(!stage.is_free("orders").await);

        program.say("end");
        assert!(program.wait(LIMIT).success());

        assert!(stage.is_free("orders").await, "{way}");
    }
}

async fn a_task_that_panics_releases_its_lock(stage: &Stage) {
    let world = World::on(stage).await;
    let lock = world.client.lock("x");
    let task = tokio::spawn(async move {
        let _guard = lock.lock().await.unwrap();
        panic!("as planned");
    });

    assert!(task.await.unwrap_err().is_panic());

    world.nothing_left("x").await;
}

async fn a_body_of_run_that_panics_or_is_aborted_releases_its_lock(stage: &Stage) {
    let world = World::on(stage).await;
    let lock = world.client.lock("x");
    let task = tokio::spawn(async move {
        lock.run(async |_| {
            tokio::task::yield_now().await;
            panic!("as planned")
        })
        .await
        .map(|(): ()| ())
    });
    assert!(task.await.unwrap_err().is_panic());
    world.nothing_left("x").await;

    let lock = world.client.lock("x");
    let (begun, is_begun) = tokio::sync::oneshot::channel();
    let task = tokio::spawn(async move {
        let body = async |_: &AnyGuard| {
            begun.send(()).unwrap();
            std::future::pending::<()>().await
        };
        lock.run(body).await
    });
    is_begun.await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    world.nothing_left("x").await;
}

async fn a_forgotten_guard_is_ended_by_max_hold(stage: &Stage) {
    let world = World::on(stage).await;
    let limit = stage.lease() * 3;
    let guard = world.client.lock("x").max_hold(limit);
    let begun = Instant::now();
    let guard = guard.lock().await.unwrap();
    let token = guard.cancellation_token();
    std::mem::forget(guard);

    // It is renewed past its lease, up to the limit.
    sleep(limit * 2 / 3).await;
    assert!(world.is_locked("x").await && !token.is_cancelled());
    token.cancelled().await;
    let fired = begun.elapsed();
    assert!(fired >= limit, "{fired:?}");
    stage.took("told of the limit", begun, limit + ms(10));

    // The key is gone a margin (a twentieth of the lease) later.
    let next = world.other.lock("x").lock().await.unwrap();
    stage.took(
        "free after the limit",
        begun,
        limit + stage.lease() / 20 + stage.kind().drift(stage.lease()) + ms(100),
    );
    next.unlock().await.unwrap();
}

async fn a_guard_is_lost_with_max_hold_at_its_limit(stage: &Stage) {
    let world = World::on(stage).await;
    let lock = world.client.lock("x").max_hold(ms(1000));

    let guard = lock.lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::MaxHold);
    drop(guard);
    world.nothing_left("x").await;
}
