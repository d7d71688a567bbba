//! A server that is down, hung or half-open: every call ends with its limit, as unreachable and not as busy.
//!
//! On servers only: these are faults of a network or of a server program, and the embedded engines have neither.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use ferrolock::{Client, ErrorKind, Result};
use testkit::{Kind, Proxy, Server};

use crate::stage::{Party, listens, ms, unique};

on_each_server!(
    every_call_to_a_server_that_is_down_ends_with_its_limit,
    every_call_to_a_hung_server_ends_with_its_limit,
    every_call_over_a_half_open_connection_ends_with_its_limit,
);

const LIMIT: Duration = Duration::from_millis(400);
const ENDLESS: Duration = Duration::from_millis(900);

async fn every_call_to_a_server_that_is_down_ends_with_its_limit(kind: Kind) {
    every_call_ends(kind, |server, _| server.kill()).await;
}

async fn every_call_to_a_hung_server_ends_with_its_limit(kind: Kind) {
    every_call_ends(kind, |server, _| server.stop_signal()).await;
}

async fn every_call_over_a_half_open_connection_ends_with_its_limit(kind: Kind) {
    every_call_ends(kind, |_, proxy| proxy.silence(true)).await;
}

async fn every_call_ends(kind: Kind, fall_silent: impl FnOnce(&Server, &Proxy)) {
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address());
    let builder = Client::builder()
        .url(proxy.url())
        .connect_limit(LIMIT)
        .command_limit(LIMIT)
        .unreachable_after(ENDLESS);
    let client = Party::from(builder.clone().connect().await.unwrap());
    let them = Client::connect(server.url()).await.unwrap();
    let (hour, name) = (Duration::from_secs(3600), unique("busy"));
    let _busy = them.lock(&name).lease(hour).lock().await.unwrap();
    let held = client.lock("held").lease(hour).lock().await.unwrap();
    // Longer than it takes to listen, also on a machine that stalls for a while.
    let waiter = tokio::spawn(client.lock(&name).try_lock_for(ms(5000)));
    listens(&client, &name).await;
    let begun = Instant::now();

    fall_silent(&server, &proxy);

    let (free, busy) = (client.lock("free"), client.lock(&name));
    let limited = free.clone().max_wait(LIMIT);
    tokio::join!(
        ends("lock", LIMIT, limited.lock()),
        ends(
            "lock of a busy name",
            LIMIT,
            busy.clone().max_wait(LIMIT).lock()
        ),
        ends("lock without a limit", ENDLESS, client.lock("other").lock()),
        ends("try_lock", LIMIT, free.try_lock()),
        ends("try_lock of a busy name", LIMIT, busy.try_lock()),
        ends("try_lock_for", LIMIT, free.try_lock_for(LIMIT)),
        ends("try_lock_for nothing", ms(0), free.try_lock_for(ms(0))),
        ends("run", LIMIT, limited.run(async |_| ())),
        ends("holders", LIMIT, free.holders()),
        ends("remaining", LIMIT, free.remaining()),
        ends("is_locked", LIMIT, free.is_locked()),
        ends("force_unlock", LIMIT, free.force_unlock()),
        ends("ping", LIMIT, client.ping()),
        ends("check", LIMIT, held.check()),
        ends("renew", LIMIT, held.renew(hour)),
        ends("relock", ENDLESS, held.relock()),
        ends("connect", LIMIT, builder.connect()),
    );
    ends("unlock", LIMIT, held.unlock()).await;
    let waited = waiter.await.unwrap();
    assert_eq!(waited.unwrap_err().kind(), ErrorKind::Unreachable);
    eprintln!("{}: all of it: {:.1?}", kind.name(), begun.elapsed());
}

/// Asserts that the call fails with `Unreachable`; prints the time beyond its limit, and allows ten times the promise.
async fn ends<T: Debug>(what: &str, limit: Duration, call: impl Future<Output = Result<T>>) {
    let begun = Instant::now();
    let answer = tokio::time::timeout((limit + ms(100)) * 10, call).await;
    let error = answer
        .unwrap_or_else(|_| panic!("{what} hangs"))
        .expect_err(what);

    eprintln!(
        "{what}: {:.1?} beyond its limit",
        begun.elapsed().saturating_sub(limit)
    );
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{what}: {error}");
}
