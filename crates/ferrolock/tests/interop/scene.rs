//! Where a story happens: a server, a client of ours, and one of Redisson's in a JVM that all stories share.
//!
//! A story is an `async fn` over a [`Scene`]. `stories!` makes three tests of it: on Redis and on Valkey with the newest
//! Redisson, and on Redis with the oldest. What needs the machine for itself, or keeps it from others,
//! is listed behind `alone:`.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use ferrolock::{Client, Guard, Lock, LostReason, Remaining};
use testkit::java::{JavaClient, JavaPeer, Redisson, now};
use testkit::{Kind, LIMIT, Server, eventually};
use tokio::task::JoinHandle;

macro_rules! stories {
    (alone: $($story:ident),+ $(,)?) => { stories!(@ play_alone $($story)+); };
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

/// A server of the story's own, with both sides on it.
pub(crate) struct Scene {
    /// The JVM; stories that end one start their own.
    pub(crate) peer: &'static JavaPeer,
    /// With Redisson's usual settings.
    pub(crate) java: JavaClient,
    /// With the usual settings.
    pub(crate) ours: Client,
    /// The last to go: a Redisson without its server goes on looking for it.
    pub(crate) server: Server,
}

/// Read by all stories, written by those that are played alone.
static QUIET: RwLock<()> = RwLock::new(());

/// Plays a story; says so where there is no such server or no Java.
pub(crate) fn play(kind: Kind, redisson: Redisson, story: impl AsyncFn(&Scene)) {
    let _among_others = QUIET.read().unwrap_or_else(PoisonError::into_inner);
    perform(kind, redisson, story);
}

/// Plays a story while no other is played.
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
    // Two workers: a story blocks where it waits for Java, and ours goes on.
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
    /// Waits until so many clients listen for the release of a lock.
    pub(crate) fn until_awaited(&self, name: &str, by: i64) {
        self.server.wait_for_subscribers(&channel(name), by);
    }

    /// Ours, waiting for a lock that nobody else asks for, when nothing but a message or the end of the lease would let it
    /// ask again within a second: it came, subscribed and polled once, and the next poll is farther away.
    pub(crate) fn waiter_at_rest(&self, lock: Lock) -> JoinHandle<(Guard, Duration)> {
        let before = refusals(&self.server);
        let waiting = waiter(lock);
        eventually(LIMIT, "a waiter that rests", || {
            refusals(&self.server) >= before + 3
        });
        assert!(!waiting.is_finished(), "it was not busy");
        waiting
    }

    /// Who holds a lock, and how often, as the server has it.
    pub(crate) fn holders(&self, name: &str) -> Vec<(String, u32)> {
        let fields = self.server.command(&["HGETALL", name]).texts();
        let pairs = fields.chunks(2);
        pairs
            .map(|pair| (pair[0].clone(), pair[1].parse().unwrap()))
            .collect()
    }
}

/// How often the server has told somebody that a lock is held: how long that lasts is what it looks up then.
pub(crate) fn refusals(server: &Server) -> u64 {
    let stats = server.commandstats();
    stats.get("pttl").copied().unwrap_or_default()
}

/// The channel on which releases of that name are announced.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// Ours, waiting in a task for a lock; when it has it, it tells the time by [`now`].
pub(crate) fn waiter(lock: Lock) -> JoinHandle<(Guard, Duration)> {
    tokio::spawn(async move {
        let guard = lock.lock().await.unwrap();
        (guard, now())
    })
}

/// Why the guard's hold was lost, as soon as it knows.
pub(crate) async fn told(guard: &Guard) -> LostReason {
    let told = tokio::time::timeout(LIMIT, guard.lost()).await;
    told.expect("the holder is told")
}

/// What must happen at once, and did, so long after its cause.
///
/// A tenth of it is promised.
#[track_caller]
pub(crate) fn assert_at_once(what: &str, from: Duration, to: Duration) {
    assert!(to + GRAIN >= from, "{what}: before its cause");
    let took = to.saturating_sub(from);
    eprintln!("{what}: {took:.1?}");
    assert!(took < Duration::from_secs(1), "{what}: {took:?}");
}

/// What is left of a lease as ours sees it.
pub(crate) async fn left(lock: &Lock) -> Duration {
    match lock.remaining().await.unwrap() {
        Remaining::Left(time) => time,
        other => panic!("{other:?}"),
    }
}

/// When the lease that a lock has now ends, by [`now`], or a moment before that.
///
/// A renewal that a process sent just before it was stopped or killed counts: it is at the server by now, and the server
/// has looked at all that is there between two questions.
pub(crate) async fn lease_end(lock: &Lock) -> Duration {
    left(lock).await;
    left(lock).await;
    let asked = now();
    asked + left(lock).await
}

/// Whether the time lies in the last part of the lease that passed since `begun`, seen now.
pub(crate) fn is_what_is_left(left: Duration, lease: Duration, begun: Instant) -> bool {
    left <= lease && left + begun.elapsed() + GRAIN >= lease
}

/// Redis rounds times to milliseconds, here and there.
const GRAIN: Duration = Duration::from_millis(5);
