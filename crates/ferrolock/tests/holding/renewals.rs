//! Not one renewal too many, according to the server's own record: only a server shows which commands it received.

use ferrolock::LostReason;
use testkit::{Kind, LIMIT, Server, eventually_async};

use crate::stage::ms;
use crate::support::{INTERVAL, LEASE, Renewals, client, is_release, rest};

on_each_server!(
    not_one_renewal_follows_an_unlock_a_drop_a_panic_or_max_hold,
    no_renewal_follows_a_release_that_comes_when_renewals_are_due,
    a_fixed_lease_gets_no_renewal,
    a_lease_that_is_refused_is_not_even_sent,
);

async fn not_one_renewal_follows_an_unlock_a_drop_a_panic_or_max_hold(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let lock = |name: &str| client.lock(name).watchdog_lease(LEASE);

    let unlocked = lock("unlocked").lock().await.unwrap();
    let dropped = lock("dropped").lock().await.unwrap();
    let capped = lock("capped").max_hold(LEASE).lock().await.unwrap();
    let panicking = lock("panicked");
    let (panic, panic_now) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        let _guard = panicking.lock().await.unwrap();
        panic_now.await.unwrap();
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

    for name in ["unlocked", "dropped", "panicked"] {
        renewals.released(name);
    }
    // Long enough for some renewals, if a hold were still renewed.
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

async fn no_renewal_follows_a_release_that_comes_when_renewals_are_due(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let holders: Vec<_> = (0..120)
        .map(|n| {
            let lock = client.lock(format!("n{n}")).watchdog_lease(LEASE);
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                // Spread over the time in which renewals are due, which is a little less than the interval after the acquire.
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

async fn a_fixed_lease_gets_no_renewal(kind: Kind) {
    let server = Server::start(kind);
    let renewals = Renewals::of(&server);
    let lock = client(&server).await.lock("fixed").lease(ms(500));
    let guard = lock.lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::Expired);

    assert_eq!(renewals.count("fixed"), 0);
}

async fn a_lease_that_is_refused_is_not_even_sent(kind: Kind) {
    let server = Server::start(kind);
    let client = client(&server).await;
    let scripts = || server.commandstats().get("evalsha").copied();
    let before = scripts();

    client.lock("x").lease(ms(199)).lock().await.unwrap_err();

    assert_eq!(scripts(), before);
}
