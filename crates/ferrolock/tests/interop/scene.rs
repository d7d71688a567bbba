//! The place of a test (a story): a server, a client of ours, and a Redisson client in a JVM that all stories share.
//!
//! A story is an `async fn` over a [`Scene`]. `stories!` makes three tests of it: on Redis and on Valkey with the newest
//! Redisson, and on Redis with the oldest. Stories that need the machine for themselves, or slow down others, are listed behind
//! `alone:`; what the oldest has not, behind `newest:`.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use ferrolock::{Client, Guard, Lock, LostReason, Remaining};
use testkit::java::{JavaClient, JavaPeer, Redisson, now};
use testkit::{Kind, LIMIT, Server, eventually};
use tokio::task::JoinHandle;

macro_rules! stories {
    (alone: $($story:ident),+ $(,)?) => { stories!(@ play_alone $($story)+); };
    (all: $($story:ident),+ $(,)?) => { stories!(@ play $($story)+); };
    (newest: $($story:ident),+ $(,)?) => {
        stories!(in redis: play Redis Newest $($story)+);
        stories!(in valkey: play Valkey Newest $($story)+);
    };
    (@ $play:ident $($story:ident)+) => {
        stories!(in redis: $play Redis Newest $($story)+);
        stories!(in valkey: $play Valkey Newest $($story)+);
        stories!(in oldest: $play Redis Oldest $($story)+);
    };
    (in $place:ident: $play:ident $kind:ident $version:ident $($story:ident)+) => {
        mod $place {
            use testkit::{Kind, java::Redisson};
            $(#[test] fn $story() { crate::scene::$play(Kind::$kind, Redisson::$version, super::$story) })+
        }
    };
    ($($story:ident),+ $(,)?) => { stories!(@ play $($story)+); };
}

/// A server for one story, with a client of each side.
pub(crate) struct Scene {
    /// The shared JVM; stories that end a JVM start their own.
    pub(crate) peer: &'static JavaPeer,
    /// With Redisson's usual settings.
    pub(crate) java: JavaClient,
    /// With the usual settings.
    pub(crate) ours: Client,
    /// Dropped last: a Redisson client without its server keeps trying to connect.
    pub(crate) server: Server,
}

/// Read-locked by all stories, write-locked by those that run alone.
static QUIET: RwLock<()> = RwLock::new(());

/// Runs a story; reports it where there is no such server or no Java.
pub(crate) fn play(kind: Kind, redisson: Redisson, story: impl AsyncFn(&Scene)) {
    let _among_others = QUIET.read().unwrap_or_else(PoisonError::into_inner);
    perform(kind, redisson, story);
}

/// Runs a story while no other runs.
pub(crate) fn play_alone(kind: Kind, redisson: Redisson, story: impl AsyncFn(&Scene)) {
    let _alone = QUIET.write().unwrap_or_else(PoisonError::into_inner);
    perform(kind, redisson, story);
}

fn perform(kind: Kind, redisson: Redisson, story: impl AsyncFn(&Scene)) {
    if !kind.is_here() {
        return;
    }
    let Some(peer) = JavaPeer::shared(redisson) else {
        return;
    };
    // Two workers: a story blocks its thread while it waits for Java, and our client must go on.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::start(kind);
        let scene = Scene {
            java: peer.open(&server),
            ours: Client::connect(server.url()).await.unwrap(),
            peer,
            server,
        };
        story(&scene).await;
    });
}

impl Scene {
    /// Waits until `by` clients listen for the release of a lock.
    pub(crate) fn until_awaited(&self, name: &str, by: i64) {
        self.server.wait_for_subscribers(&channel(name), by);
    }

    /// A waiter of ours for a lock that no other client asks for. Returns when only a message or the end of the lease would
    /// lead to an attempt within the next second: the waiter has made its first attempt, subscribed and polled once, and
    /// the next poll is further away.
    pub(crate) fn waiter_at_rest(&self, lock: Lock) -> JoinHandle<(Guard, Duration)> {
        let before = refusals(&self.server);
        let waiting = waiter(lock);
        eventually(LIMIT, "a waiter that rests", || {
            refusals(&self.server) >= before + 3
        });
        assert!(!waiting.is_finished(), "it was not busy");
        waiting
    }

    /// The holders of a lock and their counts, as the server has them.
    pub(crate) fn holders(&self, name: &str) -> Vec<(String, u32)> {
        let fields = self.server.command(&["HGETALL", name]).texts();
        let pairs = fields.chunks(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].parse().unwrap()))
            .collect()
    }
}

/// How often the server has answered that a lock is held: the script looks up the remaining lease then.
pub(crate) fn refusals(server: &Server) -> u64 {
    let stats = server.commandstats();
    stats.get("pttl").copied().unwrap_or_default()
}

/// The channel on which releases of that name are announced.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// A waiter of ours, in a task; returns the guard, and when it got the lock by [`now`].
pub(crate) fn waiter(lock: Lock) -> JoinHandle<(Guard, Duration)> {
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        (guard, now())
    })
}

/// Waits until the guard's hold is lost; returns why.
pub(crate) async fn told(guard: &Guard) -> LostReason {
    let told = tokio::time::timeout(LIMIT, guard.lost()).await;
    told.expect("the holder is told")
}

/// Asserts that something happened at once after its cause, and prints how long it took.
///
/// The limit is ten times what is promised.
#[track_caller]
pub(crate) fn assert_at_once(what: &str, from: Duration, to: Duration) {
    assert!(to + GRAIN >= from, "{what}: before its cause");
    let took = to.saturating_sub(from);
    eprintln!("{what}: {took:.1?}");
    assert!(took < Duration::from_secs(1), "{what}: {took:?}");
}

/// What is left of a lease as our client sees it.
pub(crate) async fn left(lock: &Lock) -> Duration {
    match lock.remaining().await.unwrap() {
        Remaining::Left(time) => time,
        other => panic!("{other:?}"),
    }
}

/// When the current lease of a lock ends, by [`now`], or a moment before that.
///
/// This includes a renewal that a process sent just before it was stopped or killed: the renewal has arrived at the server by
/// now, and the server processes everything that has arrived between two of these requests.
pub(crate) async fn lease_end(lock: &Lock) -> Duration {
    left(lock).await;
    left(lock).await;
    let asked = now();
    asked + left(lock).await
}

/// Whether `left` is what remains now of a lease that began at or after `begun`.
pub(crate) fn is_what_is_left(left: Duration, lease: Duration, begun: Instant) -> bool {
    left <= lease && left + begun.elapsed() + GRAIN >= lease
}

/// Redis rounds times to milliseconds in some places.
const GRAIN: Duration = Duration::from_millis(5);
