//! The engine on which a story runs and the kind of lock that it runs with, and a view of both from outside. Every suite that
//! runs on several engines shares this.
#![allow(dead_code, unused_macros, reason = "each suite needs a part of it")]

pub(crate) mod causes;
pub(crate) mod kinds;
pub(crate) mod left_out;
pub(crate) mod locks;
pub(crate) mod party;
#[macro_use]
pub(crate) mod stories;
pub(crate) mod view;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use ferrolock::{Client, ClientBuilder};
use testkit::{Kind, Server, poll_once};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub(crate) use kinds::LockKind;
pub(crate) use locks::{TestGuard, TestLock};
pub(crate) use party::{Party, Place};

/// An engine that only one story uses (of a quorum, several), and the kind of lock that the story is about.
#[derive(Debug)]
pub(crate) struct Stage {
    /// One, or those of a quorum.
    engines: Vec<Engine>,
    kind: LockKind,
}

#[derive(Debug)]
enum Engine {
    Memory {
        url: String,
        time: Time,
        /// A space exists while a client has it open.
        _open: Client,
    },
    /// The directory of the store.
    File(tempfile::TempDir),
    Server(Box<Server>),
}

impl Engine {
    fn url(&self) -> String {
        match self {
            Engine::Memory { url, .. } => url.clone(),
            Engine::File(folder) => format!("file:{}", folder.path().display()),
            Engine::Server(server) => server.url(),
        }
    }
}

/// The time of a story that runs in this process; other processes and servers have real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Paused: an hour passes at once, and times are exact.
    Virtual,
    Real,
}

impl Stage {
    /// One more stage like this one.
    pub(crate) fn another(&self) -> Self {
        match self.first() {
            Engine::Memory { time, .. } => Stage::memory(*time, self.kind),
            Engine::File(_) => Stage::file(self.kind),
            Engine::Server(server) => Stage::on(server.kind(), self.kind),
        }
    }

    fn of(kind: LockKind, engine: impl Fn() -> Engine) -> Self {
        let engines = (0..kind.engines()).map(|_| engine()).collect();
        Self { engines, kind }
    }

    pub(crate) fn memory(time: Time, kind: LockKind) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::of(kind, || {
            let url = format!("memory:{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let _open = Client::builder().url(&url).connect_lazy().unwrap();
            Engine::Memory { url, time, _open }
        })
    }

    pub(crate) fn file(kind: LockKind) -> Self {
        Self::of(kind, || Engine::File(testkit::store_folder()))
    }

    pub(crate) fn on(server: Kind, kind: LockKind) -> Self {
        Self::of(kind, || Engine::Server(Box::new(Server::start(server))))
    }

    fn first(&self) -> &Engine {
        self.engines.first().expect("an engine")
    }

    pub(crate) fn kind(&self) -> LockKind {
        self.kind
    }

    /// The first one, of several.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.servers().next()
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &Server> {
        self.engines.iter().filter_map(|engine| match engine {
            Engine::Memory { .. } | Engine::File(_) => None,
            Engine::Server(server) => Some(&**server),
        })
    }

    pub(crate) fn name(&self) -> &'static str {
        match self.first() {
            Engine::Memory { .. } => "memory",
            Engine::File(_) => "file",
            Engine::Server(server) => server.kind().name(),
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        let time = Time::Virtual;
        matches!(self.first(), Engine::Memory { time: it, .. } if *it == time)
    }

    /// That of the first engine, of several.
    pub(crate) fn url(&self) -> String {
        self.first().url()
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            kind: self.kind,
            urls: self.engines.iter().map(Engine::url).collect(),
        }
    }

    /// For another process, which becomes a [`Party`] with it.
    pub(crate) fn address(&self) -> String {
        format!("{} {}", self.kind.name(), self.place().urls.join(" "))
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(self.url())
    }

    pub(crate) async fn client(&self) -> Party {
        self.connect(self.builder()).await
    }

    pub(crate) async fn connect(&self, builder: ClientBuilder) -> Party {
        Party::connect(builder, &self.place()).await
    }

    /// A client whose locks exclude those of the others.
    pub(crate) async fn opposite(&self) -> Party {
        self.connect_opposite(self.builder()).await
    }

    pub(crate) async fn connect_opposite(&self, builder: ClientBuilder) -> Party {
        let place = self.place().opposite();
        Party::connect(builder, &place).await
    }

    /// Two clients, as on two machines.
    pub(crate) async fn clients(&self) -> (Party, Party) {
        (self.client().await, self.opposite().await)
    }

    /// A lease that a test can wait for. In real time it ends only if the machine stalls for a second.
    pub(crate) fn lease(&self) -> Duration {
        match self.is_virtual() {
            true => Duration::from_secs(30),
            false => Duration::from_millis(2400),
        }
    }

    /// Waits until a waiter of that client rests: see [`rests`]. In virtual time the machine cannot stall: there it is enough
    /// that the waiter listens.
    pub(crate) async fn rests(&self, client: &Party, name: &str) {
        match self.is_virtual() {
            true => listens(client, name).await,
            false => rests(client, name).await,
        }
    }

    /// Waits until that many callers who [joined](joins) a waiter of that client have their places, if they get some.
    pub(crate) async fn placed(&self, client: &Party, name: &str, joined: usize) {
        if self.kind.has_places() {
            causes::attempted(name, "arrival", joined).await;
            answered(client).await;
        }
    }

    /// Prints the measured time beside the promised one. Virtual time is exact; in real time ten times the promise is
    /// allowed, because machines are shared. A kind of lock whose waiters ask only now and then gets the time of a pause more.
    pub(crate) fn took(&self, what: &str, begun: Instant, promised: Duration) {
        let (took, promised) = (begun.elapsed(), promised + self.kind.pause());
        let who = self.name();
        eprintln!("{who}: {what}: {took:.1?} (promised {promised:?})");
        let allowed = if self.is_virtual() {
            promised
        } else {
            promised * 10
        };
        assert!(took <= allowed, "{who}: {what}: {took:?} of {promised:?}");
    }

    /// The same for an effect that follows at once: within 2 ms in virtual time, because a process may let others go first,
    /// and within 100 ms in real time.
    pub(crate) fn took_no_time(&self, what: &str, begun: Instant) {
        let promised = if self.is_virtual() { ms(2) } else { ms(100) };
        self.took(what, begun, promised);
    }
}

/// A name that no other lock in this process has: all stories of a process share its log.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Waits until a waiter of that client listens: it came, subscribed, and found the lock busy once more.
pub(crate) async fn listens(client: &Party, name: &str) {
    attempt_made(client, name, "confirmed").await;
}

/// Waits until a waiter of that client rests, for a lock that is held for a long time: it listens, and its first safety poll
/// has found the lock busy. The next poll is at least 1.5 s away: a wake-up comes sooner, also on a machine that stalls for a
/// second.
pub(crate) async fn rests(client: &Party, name: &str) {
    attempt_made(client, name, "safety_poll").await;
}

/// Waits until an attempt for the client's waiters for that lock was made for that cause.
async fn attempt_made(client: &Party, name: &str, cause: &str) {
    let cause = client.kind().cause(cause).expect("a cause to wait for");
    causes::attempted(name, cause, 1).await;
    answered(client).await;
}

/// Waits for the answer to an attempt of that client that was logged. The log says that it begins: the same poll hands it over
/// to the connection, and the server answers it before the ping that follows over that connection.
async fn answered(client: &Party) {
    polled_meanwhile().await;
    client.ping().await.unwrap();
}

/// Waits until every poll is over that was under way in this runtime: when all its workers are here at once, none of them is
/// polling another task.
pub(crate) async fn polled_meanwhile() {
    let workers = Handle::current().metrics().num_workers();
    let all = Arc::new(Barrier::new(workers));
    let meet = |_| {
        let all = all.clone();
        tokio::spawn(async move { all.wait().is_leader() })
    };
    for met in (0..workers).map(meet).collect::<Vec<_>>() {
        met.await.unwrap();
    }
}

/// What led to the grant of that guard, also if other locks have the same name.
#[track_caller]
pub(crate) fn cause_of(guard: &TestGuard) -> String {
    let cause = causes::of_owner(guard.name(), guard.owner_id());
    cause.unwrap_or_else(|| panic!("nobody was told of the grant of {guard:?}"))
}

/// Asserts that this cause led to the grant of that guard, or what does in its place for that kind of lock; of several locks,
/// to a grant of one of them.
#[track_caller]
pub(crate) fn assert_led_to(cause: &str, guard: &TestGuard) {
    let Some(cause) = guard.kind().cause(cause) else {
        return;
    };
    let names = guard.names();
    if let [_, _, ..] = names.as_slice() {
        let causes: Vec<_> = names.iter().map(|name| causes::of(name)).collect();
        let led = causes.iter().flatten().any(|led| led == cause);
        return assert!(led, "{cause} led to no grant of {guard:?}: {causes:?}");
    }
    let causes = causes::of_attempts(guard.name());
    assert_eq!(cause_of(guard), cause, "attempts: {causes:?}");
}

/// Waits for the lock in a task of its own.
pub(crate) fn waits(client: &Party, name: &str) -> JoinHandle<TestGuard> {
    let lock = client.lock(name).lock();
    tokio::spawn(async move { lock.await.unwrap() })
}

/// Waits in a task of its own for a lock that other tasks of its client wait for: it is queued behind them when this returns.
pub(crate) fn joins(lock: &TestLock) -> JoinHandle<ferrolock::Result<TestGuard>> {
    let mut waiting = Box::pin(lock.lock());
    assert!(poll_once(waiting.as_mut()).is_pending(), "{lock:?} is free");
    tokio::spawn(waiting)
}

pub(crate) const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The channel on which releases of that name are announced.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

/// How many scripts clients asked the server to run since its start or the last reset.
pub(crate) fn attempts(server: &Server) -> u64 {
    let stats = server.commandstats();
    let calls = |name: &str| stats.get(name).copied().unwrap_or_default();
    calls("evalsha") + calls("eval")
}
