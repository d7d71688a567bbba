//! What the tests of this folder share.

use std::future::Future;
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use ferrolock::{Client, Guard};
use testkit::{Kind, Server, eventually_async};

/// Some tests measure what other tests' load would spoil.
static QUIET: RwLock<()> = RwLock::new(());

/// Runs `body` on a server of that kind, if there is one.
pub(crate) fn among_others<F: Future<Output = ()>>(kind: Kind, body: impl FnOnce(Kind) -> F) {
    let _shared = QUIET.read().unwrap_or_else(PoisonError::into_inner);
    on(kind, body);
}

/// The same while no other test of this program runs.
pub(crate) fn alone<F: Future<Output = ()>>(kind: Kind, body: impl FnOnce(Kind) -> F) {
    let _alone = QUIET.write().unwrap_or_else(PoisonError::into_inner);
    on(kind, body);
}

fn on<F: Future<Output = ()>>(kind: Kind, body: impl FnOnce(Kind) -> F) {
    if !kind.is_here() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(body(kind));
    runtime.shutdown_background();
}

pub(crate) async fn connect(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The channel on which releases of that name are announced.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Waits for the lock in a task of its own.
pub(crate) fn waits(client: &Client, name: &str) -> tokio::task::JoinHandle<Guard> {
    let lock = client.lock(name).lock();
    tokio::spawn(async move { lock.await.unwrap() })
}

/// How many scripts were called since the start or the last reset.
pub(crate) fn attempts(server: &Server) -> u64 {
    let stats = server.commandstats();
    let calls = |name: &str| stats.get(name).copied().unwrap_or_default();
    calls("evalsha") + calls("eval")
}

/// Until somebody who waits has subscribed, and its attempt after that is answered too.
pub(crate) async fn settled(server: &Server, name: &str) {
    let mut connection = server.connect();
    let channel = channel(name);
    eventually_async(testkit::LIMIT, "somebody has subscribed", async || {
        let counts = connection.command(&["PUBSUB", "NUMSUB", &channel]).list();
        counts.last() == Some(&testkit::Reply::Int(1))
    })
    .await;
    let mut before = attempts(server);
    eventually_async(testkit::LIMIT, "the waiter rests", async || {
        tokio::time::sleep(ms(20)).await;
        let now = attempts(server);
        std::mem::replace(&mut before, now) == now
    })
    .await;
}

/// Prints what was measured beside what is promised, and allows ten times the promise: the machine is shared.
pub(crate) fn took(what: &str, kind: Kind, begun: Instant, promised: Duration) {
    let took = begun.elapsed();
    eprintln!(
        "{}: {what}: {took:.1?} (promised {promised:?})",
        kind.name()
    );
    assert!(took <= promised * 10, "{what}: {took:?} of {promised:?}");
}
