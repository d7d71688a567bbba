//! A hold is renewed as long as it lasts, and never after its end.

use std::time::{Duration, Instant};

use ferrolock::{ErrorKind, LostReason, Remaining, Unlocked};
use testkit::{LIMIT, eventually_async};
use tokio::runtime::Runtime;

use crate::stage::kinds::Parts;
use crate::stage::{Party, Stage, ms, stories};
use crate::support::{INTERVAL, LEASE};

stories!(
    a_lock_held_for_three_leases_stays_held,
    renew_called_by_the_holder_sets_the_whole_lease,
    a_lease_of_199_ms_is_an_invalid_argument,
    a_lock_that_was_unlocked_dropped_or_left_by_a_panic_stays_free,
    locks_released_while_renewals_are_due_stay_free,
    a_fixed_lease_is_not_renewed,
    with_max_hold_the_key_is_gone_within_the_margin_after_the_cap,
);

stories_in_real_time!(
    a_holder_that_computes_on_a_current_thread_runtime_keeps_its_lock,
    a_holder_that_computes_on_every_worker_keeps_its_lock,
);

async fn a_lock_held_for_three_leases_stays_held(stage: &Stage) {
    let (client, other) = stage.clients().await;
    let lock = client.lock("kept").watchdog_lease(LEASE);
    let guard = lock.lock().await.unwrap();

    for _ in 0..6 {
        tokio::time::sleep(LEASE / 2).await;
        assert!(other.lock("kept").try_lock().await.unwrap().is_none());
        assert!(guard.is_held());
    }

    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
}

stories_in_paused_time!(a_lock_is_held_for_a_week_of_virtual_time);

/// A week of virtual time with all its renewals takes as long as computing them: milliseconds with a lease of an hour, and
/// not much more with the default lease of 30 s.
async fn a_lock_is_held_for_a_week_of_virtual_time(stage: &Stage) {
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    let leases = [Duration::from_secs(3600), Duration::from_secs(30)];
    // The 60,000 renewals of each part are computed really: of several parts, those of the long lease are enough.
    let is_one = matches!(stage.kind().parts(), Parts::One | Parts::Sides);
    for lease in leases.into_iter().take(if is_one { 2 } else { 1 }) {
        let client = stage.client().await;
        let (virtually, really) = (tokio::time::Instant::now(), Instant::now());
        let lock = client.lock("kept").watchdog_lease(lease);
        let guard = lock.lock().await.unwrap();

        tokio::time::sleep(WEEK).await;

        assert!(guard.is_held());
        let Remaining::Left(left) = lock.remaining().await.unwrap() else {
            panic!("it is there");
        };
        assert!(left > lease / 2 && left <= lease, "{left:?} of {lease:?}");
        assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
        assert!(virtually.elapsed() >= WEEK && virtually.elapsed() < WEEK + ms(10));
        let took = really.elapsed();
        eprintln!("a week with a lease of {lease:?}: {took:?}");
        assert!(took < Duration::from_secs(30), "{took:?}");
    }
}

async fn renew_called_by_the_holder_sets_the_whole_lease(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("kept").lease(LEASE).lock().await.unwrap();
    let wanted = Duration::from_secs(60);

    guard.renew(wanted).await.unwrap();

    let ttl = stage.ttl("kept").await;
    assert!(
        ttl <= wanted && ttl > wanted - Duration::from_secs(10),
        "{ttl:?}"
    );
    tokio::time::sleep(LEASE * 3 / 2).await;
    assert!(guard.is_held());
    guard.check().await.unwrap();
}

/// No task of the holder's runtime runs while it computes.
async fn a_holder_that_computes_on_a_current_thread_runtime_keeps_its_lock(stage: &Stage) {
    let (builder, place) = (stage.builder(), stage.place());
    let holder = std::thread::spawn(move || {
        stories::one_thread().block_on(async {
            let client = Party::connect(builder, &place).await;
            let lock = client.lock("kept").watchdog_lease(LEASE);
            let guard = lock.lock().await.unwrap();

            compute(LEASE * 3);

            assert!(guard.is_held(), "{guard:?}");
            assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
        });
    });
    tokio::task::spawn_blocking(|| holder.join().unwrap())
        .await
        .unwrap();
}

async fn a_holder_that_computes_on_every_worker_keeps_its_lock(stage: &Stage) {
    let (builder, place) = (stage.builder(), stage.place());
    // On a blocking thread of this runtime, because all workers of the holder's own runtime are busy.
    tokio::task::spawn_blocking(move || {
        let busy = stories::threads();
        let client = busy.block_on(Party::connect(builder, &place));
        let lock = client.lock("kept").watchdog_lease(LEASE);
        let guard = busy.block_on(lock.lock()).unwrap();
        let workers: Vec<_> = (0..2)
            .map(|_| busy.spawn(async { compute(LEASE * 3) }))
            .collect();

        wait_for(&busy, workers);

        assert!(guard.is_held(), "{guard:?}");
        assert_eq!(busy.block_on(guard.unlock()).unwrap(), Unlocked::Released);
    })
    .await
    .unwrap();
}

fn compute(time: Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn wait_for(busy: &Runtime, workers: Vec<tokio::task::JoinHandle<()>>) {
    for worker in workers {
        busy.block_on(worker).unwrap();
    }
}

async fn a_lock_that_was_unlocked_dropped_or_left_by_a_panic_stays_free(stage: &Stage) {
    let client = stage.client().await;
    let lock = |name: &str| client.lock(name).watchdog_lease(LEASE);
    let unlocked = lock("unlocked").lock().await.unwrap();
    let dropped = lock("dropped").lock().await.unwrap();
    let panicking = lock("panicked").lock().await.unwrap();
    let task = tokio::spawn(async move {
        let _guard = panicking;
        tokio::time::sleep(INTERVAL * 2).await;
        std::panic::resume_unwind(Box::new("as the test wants"));
    });
    // By then it was renewed.
    assert!(task.await.unwrap_err().is_panic());
    unlocked.unlock().await.unwrap();
    drop(dropped);

    for name in ["unlocked", "dropped", "panicked"] {
        stage.freed(name).await;
    }
    // Long enough for some renewals, if a hold were still renewed.
    tokio::time::sleep(INTERVAL * 3).await;

    for name in ["unlocked", "dropped", "panicked"] {
        assert!(stage.is_free(name).await, "{name}");
    }
}

async fn locks_released_while_renewals_are_due_stay_free(stage: &Stage) {
    const HOLDERS: u64 = 120;
    let client = stage.client().await;
    let mut holders = tokio::task::JoinSet::new();
    for n in 0..HOLDERS {
        let lock = client.lock(format!("n{n}")).watchdog_lease(LEASE);
        holders.spawn(async move {
            let guard = lock.lock().await.unwrap();
            // Spread over the time in which renewals are due, which is a little less than the interval after the acquire.
            tokio::time::sleep(INTERVAL * 85 / 100 + ms(2 * n)).await;
            if n % 2 == 0 {
                guard.unlock().await.unwrap();
            }
        });
    }
    assert_eq!(holders.join_all().await.len(), 120);
    for n in 0..HOLDERS {
        stage.freed(&format!("n{n}")).await;
    }

    tokio::time::sleep(INTERVAL).await;

    for n in 0..HOLDERS {
        assert!(stage.is_free(&format!("n{n}")).await, "n{n}");
    }
}

async fn a_fixed_lease_is_not_renewed(stage: &Stage) {
    let client = stage.client().await;
    let guard = client.lock("fixed").lease(ms(500)).lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::Expired);

    stage.freed("fixed").await;
    assert!(client.lock("fixed").try_lock().await.unwrap().is_some());
}

async fn with_max_hold_the_key_is_gone_within_the_margin_after_the_cap(stage: &Stage) {
    let client = stage.client().await;
    let margin = LEASE / 20 + stage.kind().drift(LEASE);
    let lock = client.lock("capped").watchdog_lease(LEASE);
    let begun = tokio::time::Instant::now();
    let guard = lock.max_hold(INTERVAL * 4).lock().await.unwrap();

    let reason = guard.lost().await;
    let rest = stage.look("capped").await.map(|look| look.ttl);

    let (rest, who) = (rest.unwrap_or_default(), stage.name());
    eprintln!("{who}: at the cap the key has {rest:?} left, the margin is {margin:?}");
    assert_eq!(reason, LostReason::MaxHold);
    assert!(begun.elapsed() >= INTERVAL * 4, "renewed up to the cap");
    assert!(
        rest <= if stage.is_virtual() {
            margin
        } else {
            margin * 10
        },
        "{rest:?}"
    );
    let gone = async || stage.is_free("capped").await;
    eventually_async(LIMIT, "the engine's end of it", gone).await;
    // A hold with a cap of half a second never gets the whole lease of 30 s.
    let short = client.lock("short").max_hold(ms(500)).lock().await.unwrap();
    let drift = stage.kind().drift(Duration::from_secs(30));
    assert!(stage.ttl("short").await <= ms(2000) + drift);
    drop(short);
}

async fn a_lease_of_199_ms_is_an_invalid_argument(stage: &Stage) {
    let client = stage.client().await;

    for lock in [
        client.lock("x").lease(ms(199)),
        client.lock("x").watchdog_lease(ms(199)),
    ] {
        let error = lock.lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }

    assert!(stage.is_free("x").await);
}
