//! A hold is renewed as long as it lasts, and not once longer.

use std::time::Instant;

use ferrolock::{ErrorKind, HoldState, LostReason, Unlocked};
use testkit::{Kind, LIMIT, Server, eventually_async};

use crate::support::{INTERVAL, LEASE, Renewals, client, is_release, ms, rest, runtime};

on_each_server!(
    a_lock_held_for_three_leases_stays_held,
    a_holder_that_computes_on_a_current_thread_runtime_keeps_its_lock,
    a_holder_that_computes_on_every_worker_keeps_its_lock,
    a_lease_of_199_ms_is_an_invalid_argument,
    not_one_renewal_follows_an_unlock_a_drop_a_panic_or_max_hold,
    releases_in_the_midst_of_renewals_are_not_followed_by_one,
    a_fixed_lease_is_not_renewed,
    with_max_hold_the_key_is_gone_within_the_margin_after_the_cap,
);

async fn a_lock_held_for_three_leases_stays_held(kind: Kind) {
    let server = Server::start(kind);
    let (client, other) = (client(&server).await, client(&server).await);
    let guard = client
        .lock("kept")
        .watchdog_lease(LEASE)
        .lock()
        .await
        .unwrap();

    for _ in 0..6 {
        tokio::time::sleep(LEASE / 2).await;
        assert!(other.lock("kept").try_lock().await.unwrap().is_none());
        assert!(guard.is_held());
    }

    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
}

/// Nothing of the holder's runtime runs while it computes.
async fn a_holder_that_computes_on_a_current_thread_runtime_keeps_its_lock(kind: Kind) {
    let server = Server::start(kind);
    let holder = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let lock = client(&server).await.lock("kept").watchdog_lease(LEASE);
            let guard = lock.lock().await.unwrap();

            compute(LEASE * 3);

            assert_eq!(guard.state(), HoldState::Held);
            assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
        });
    });
    tokio::task::spawn_blocking(|| holder.join().unwrap())
        .await
        .unwrap();
}

async fn a_holder_that_computes_on_every_worker_keeps_its_lock(kind: Kind) {
    let server = Server::start(kind);
    // A blocking thread of this runtime; the holder's own has nothing but busy workers.
    tokio::task::spawn_blocking(move || {
        let busy = runtime(2);
        let lock = busy
            .block_on(client(&server))
            .lock("kept")
            .watchdog_lease(LEASE);
        let guard = busy.block_on(lock.lock()).unwrap();
        let workers: Vec<_> = (0..2)
            .map(|_| busy.spawn(async { compute(LEASE * 3) }))
            .collect();

        compute_is_over(&busy, workers);

        assert_eq!(guard.state(), HoldState::Held);
        assert_eq!(busy.block_on(guard.unlock()).unwrap(), Unlocked::Released);
    })
    .await
    .unwrap();
}

fn compute(time: std::time::Duration) {
    let begun = Instant::now();
    while begun.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn compute_is_over(busy: &tokio::runtime::Runtime, workers: Vec<tokio::task::JoinHandle<()>>) {
    for worker in workers {
        busy.block_on(worker).unwrap();
    }
}

async fn not_one_renewal_follows_an_unlock_a_drop_a_panic_or_max_hold(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let lock = |name: &str| client.lock(name).watchdog_lease(LEASE);

    let unlocked = lock("unlocked").lock().await.unwrap();
    let dropped = lock("dropped").lock().await.unwrap();
    let capped = lock("capped").max_hold(LEASE).lock().await.unwrap();
    let panicking = lock("panicked");
    let (panic, told) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let _guard = panicking.lock().await.unwrap();
        told.await.unwrap();
        std::panic::resume_unwind(Box::new("as the test wants"));
    });
    for name in ["unlocked", "dropped", "panicked", "capped"] {
        eventually_async(LIMIT, name, async || renewals.count(name) > 0).await;
    }
    unlocked.unlock().await.unwrap();
    drop(dropped);
    panic.send(()).unwrap();
    assert!(task.await.unwrap_err().is_panic());
    assert_eq!(capped.lost().await, LostReason::MaxHold);
    let at_the_cap = renewals.count("capped");

    // Long enough for some renewals, had anything been left.
    tokio::time::sleep(INTERVAL * 3).await;

    let lines = renewals.lines();
    for name in ["unlocked", "dropped", "panicked"] {
        let release = lines
            .iter()
            .position(|line| is_release(line, name))
            .expect(name);
        let late: Vec<_> = lines[release..]
            .iter()
            .filter(|line| renewals.is_renewal(line, name))
            .collect();
        assert!(late.is_empty(), "{name}: {late:?}");
    }
    assert_eq!(renewals.count("capped"), at_the_cap);
    assert_eq!(rest(&server, "capped"), None);
}

async fn releases_in_the_midst_of_renewals_are_not_followed_by_one(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let holders: Vec<_> = (0..120)
        .map(|n| {
            let lock = client.lock(format!("n{n}")).watchdog_lease(LEASE);
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                // Spread over the time in which renewals are due: a little less than the interval after the acquire.
                tokio::time::sleep(INTERVAL * 85 / 100 + ms(2 * n)).await;
                if n % 2 == 0 {
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    for holder in holders {
        holder.await.unwrap();
    }
    eventually_async(LIMIT, "all are released", async || server.keys().is_empty()).await;
    tokio::time::sleep(INTERVAL).await;

    let lines = renewals.lines();
    let mut renewed = 0;
    for n in 0..120 {
        let name = format!("n{n}");
        let release = lines
            .iter()
            .position(|line| is_release(line, &name))
            .expect("a release");
        let is_renewal = |line: &&String| renewals.is_renewal(line, &name);
        renewed += lines[..release].iter().filter(is_renewal).count();
        assert_eq!(
            lines[release..].iter().filter(is_renewal).count(),
            0,
            "{name}"
        );
    }
    eprintln!("{kind:?}: {renewed} renewals before 120 releases, none after");
    assert!(renewed > 0);
}

async fn a_fixed_lease_is_not_renewed(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let guard = client.lock("fixed").lease(ms(500)).lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::Expired);

    eventually_async(LIMIT, "the server's end of it", async || {
        rest(&server, "fixed").is_none()
    })
    .await;
    assert_eq!(renewals.count("fixed"), 0);
    assert!(client.lock("fixed").try_lock().await.unwrap().is_some());
}

async fn with_max_hold_the_key_is_gone_within_the_margin_after_the_cap(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let margin = LEASE / 20;
    let guard = client
        .lock("capped")
        .watchdog_lease(LEASE)
        .max_hold(INTERVAL * 4)
        .lock()
        .await
        .unwrap();

    let reason = guard.lost().await;
    let rest_at_the_cap = rest(&server, "capped").unwrap_or_default();

    eprintln!(
        "{kind:?}: at the cap the key has {rest_at_the_cap:?} left, the margin is {margin:?}"
    );
    assert_eq!(reason, LostReason::MaxHold);
    assert!(
        renewals.count("capped") >= 2,
        "it was renewed up to the cap"
    );
    assert!(rest_at_the_cap <= margin * 10, "{rest_at_the_cap:?}");
    eventually_async(LIMIT, "the server's end of it", async || {
        rest(&server, "capped").is_none()
    })
    .await;
    // The whole lease of 30 s is never given to a hold that may last half a second.
    let short = client.lock("short").max_hold(ms(500)).lock().await.unwrap();
    assert!(rest(&server, "short").unwrap() <= ms(2000));
    drop(short);
}

async fn a_lease_of_199_ms_is_an_invalid_argument(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let scripts = || server.commandstats().get("evalsha").copied();
    let before = scripts();
    for lock in [
        client.lock("x").lease(ms(199)),
        client.lock("x").watchdog_lease(ms(199)),
    ] {
        let error = lock.lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert_eq!(scripts(), before, "nothing was sent");
}
