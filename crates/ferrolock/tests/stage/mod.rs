//! The engine on which a story runs and the kind of lock that it runs with, and a view of both from outside. Every suite that
//! runs on several engines shares this.
#![allow(dead_code, unused_macros, reason = "each suite needs a part of it")]

pub(crate) mod causes;
pub(crate) mod kinds;
pub(crate) mod left_out;
pub(crate) mod locks;
#[macro_use]
pub(crate) mod stories;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use ferrolock::{Client, ClientBuilder, Remaining};
use testkit::{Kind, LIMIT, Server, Value, eventually_async, poll_once};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

pub(crate) use kinds::{LockKind, Party};
pub(crate) use locks::{TestGuard, TestLock};

/// An engine that only one story uses, and the kind of lock that the story is about.
#[derive(Debug)]
pub(crate) struct Stage {
    engine: Engine,
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

/// The time of a story that runs in this process; other processes and servers have real time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Paused: an hour passes at once, and times are exact.
    Virtual,
    Real,
}

/// A lock as another client sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Fields and counts.
    pub(crate) holds: BTreeMap<String, u32>,
    pub(crate) ttl: Duration,
}

impl Look {
    /// How many holds the guard's owner has; if the guard does not say whose it is, the only holder.
    pub(crate) fn count_of(&self, guard: &TestGuard) -> Option<u32> {
        match guard.owner_id() {
            Some(id) => self.holds.get(id.as_str()).copied(),
            None if self.holds.len() == 1 => self.holds.values().next().copied(),
            None => None,
        }
    }
}

impl Stage {
    /// One more engine like this one.
    pub(crate) fn another(&self) -> Self {
        match &self.engine {
            Engine::Memory { time, .. } => Stage::memory(*time, self.kind),
            Engine::File(_) => Stage::file(self.kind),
            Engine::Server(server) => Stage::on(server.kind(), self.kind),
        }
    }

    pub(crate) fn memory(time: Time, kind: LockKind) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let url = format!("memory:{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let _open = Client::builder().url(&url).connect_lazy().unwrap();
        let engine = Engine::Memory { url, time, _open };
        Self { engine, kind }
    }

    pub(crate) fn file(kind: LockKind) -> Self {
        let engine = Engine::File(testkit::store_folder());
        Self { engine, kind }
    }

    pub(crate) fn on(server: Kind, kind: LockKind) -> Self {
        let engine = Engine::Server(Box::new(Server::start(server)));
        Self { engine, kind }
    }

    pub(crate) fn kind(&self) -> LockKind {
        self.kind
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        match &self.engine {
            Engine::Memory { .. } | Engine::File(_) => None,
            Engine::Server(server) => Some(server),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match &self.engine {
            Engine::Memory { .. } => "memory",
            Engine::File(_) => "file",
            Engine::Server(server) => server.kind().name(),
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        let time = Time::Virtual;
        matches!(&self.engine, Engine::Memory { time: it, .. } if *it == time)
    }

    pub(crate) fn url(&self) -> String {
        match &self.engine {
            Engine::Memory { url, .. } => url.clone(),
            Engine::File(folder) => format!("file:{}", folder.path().display()),
            Engine::Server(server) => server.url(),
        }
    }

    /// For another process, which becomes a [`Party`] with it.
    pub(crate) fn address(&self) -> String {
        format!("{} {}", self.kind.name(), self.url())
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(self.url())
    }

    pub(crate) async fn client(&self) -> Party {
        self.connect(self.builder()).await
    }

    pub(crate) async fn connect(&self, builder: ClientBuilder) -> Party {
        Party::connect(builder, self.kind).await
    }

    /// Two clients, as on two machines.
    pub(crate) async fn clients(&self) -> (Party, Party) {
        (self.client().await, self.client().await)
    }

    /// What the lock's key holds; `None`: there is none.
    pub(crate) async fn look(&self, name: &str) -> Option<Look> {
        match self.server() {
            Some(server) if self.kind.is_a_hash_of_holders() => look_at_hash(server, name),
            _ => self.look_as_a_client(name).await,
        }
    }

    async fn look_as_a_client(&self, name: &str) -> Option<Look> {
        let lock = self.client().await.lock(name);
        let Remaining::Left(ttl) = lock.remaining().await.unwrap() else {
            return None;
        };
        let holders = lock.holders().await.unwrap().into_iter();
        let holds = holders.map(|holder| (holder.owner.to_string(), holder.count));
        Some(Look {
            holds: holds.collect(),
            ttl,
        })
    }

    /// The counts under the lock's key, of all holders.
    pub(crate) async fn counts(&self, name: &str) -> Vec<u32> {
        let look = self.look(name).await;
        look.map_or_else(Vec::new, |look| look.holds.into_values().collect())
    }

    pub(crate) async fn ttl(&self, name: &str) -> Duration {
        self.look(name).await.expect("it is held").ttl
    }

    /// Removes the key, and not by an unlock of its holder.
    pub(crate) async fn vanish(&self, name: &str) {
        match self.server() {
            None => assert!(self.client().await.lock(name).force_unlock().await.unwrap()),
            Some(server) => assert_eq!(server.command(&["DEL", name]), testkit::Reply::Int(1)),
        }
    }

    /// Makes the rest of the lease shorter: by a command on a server, by waiting elsewhere.
    pub(crate) async fn run_down(&self, name: &str, by: Duration) {
        match self.server() {
            None => sleep(by).await,
            Some(server) => {
                let left = self.ttl(name).await - by;
                server.command(&["PEXPIRE", name, &left.as_millis().to_string()]);
            }
        }
    }

    /// Another owner gets the lock in place of its holder.
    pub(crate) async fn take_over(&self, name: &str) {
        let lease = Duration::from_secs(30);
        let Some(server) = self.server().filter(|_| self.kind.is_a_hash_of_holders()) else {
            let lock = self.client().await.lock(name).lease(lease);
            assert!(lock.force_unlock().await.unwrap());
            return std::mem::forget(lock.try_lock().await.unwrap().expect("it is free"));
        };
        let mut connection = server.connect();
        connection.command(&["MULTI"]);
        connection.command(&["DEL", name]);
        let field = "6f6b6f1e-1111-4222-8333-444455556666:1";
        connection.command(&["HSET", name, field, "1"]);
        connection.command(&["PEXPIRE", name, &lease.as_millis().to_string()]);
        connection.command(&["EXEC"]);
    }

    pub(crate) async fn is_free(&self, name: &str) -> bool {
        self.look(name).await.is_none()
    }

    /// Waits until the lock is free.
    pub(crate) async fn freed(&self, name: &str) {
        let what = format!("{name} is free");
        eventually_async(LIMIT, &what, async || self.is_free(name).await).await;
    }

    /// The server's keys, without those that the kind of lock keeps for good; none on other engines.
    pub(crate) fn keys(&self) -> Vec<String> {
        let mut keys = self.server().map(Server::keys).unwrap_or_default();
        keys.retain(|key| !self.kind.keeps(key));
        keys
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

fn look_at_hash(server: &Server, name: &str) -> Option<Look> {
    let entry = server.dump().into_iter().find(|entry| entry.key == name)?;
    let Value::Hash(fields) = entry.value else {
        panic!("no lock: {entry:?}");
    };
    let holds = fields
        .into_iter()
        .map(|(field, count)| (field, count.parse().unwrap()));
    Some(Look {
        holds: holds.collect(),
        ttl: entry.ttl.expect("a lock has an end"),
    })
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
    // The log says that the attempt begins. The same poll hands it over to the connection, and the server answers it before
    // the ping that follows over that connection.
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

/// Asserts that this cause led to the grant of that guard, or what does in its place for that kind of lock.
#[track_caller]
pub(crate) fn assert_led_to(cause: &str, guard: &TestGuard) {
    let Some(cause) = guard.kind().cause(cause) else {
        return;
    };
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
