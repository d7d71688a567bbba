//! Where a story happens: an engine, and a look at it from outside. Every suite that runs on several engines shares this.
#![allow(dead_code, unused_macros, reason = "each suite needs a part of it")]

pub(crate) mod causes;
#[macro_use]
pub(crate) mod stories;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use ferrolock::{Client, ClientBuilder, Guard, Lock, Remaining};
use testkit::{Kind, LIMIT, Server, Value, eventually_async, poll_once};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// An engine of the story's own.
#[derive(Debug)]
pub(crate) enum Stage {
    Memory {
        url: String,
        time: Time,
        /// A space lives while somebody has it open.
        _open: Client,
    },
    /// The directory of the store.
    File(tempfile::TempDir),
    Server(Box<Server>),
}

/// The time of a story in this process; elsewhere it is real.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Time {
    /// Paused: what took an hour takes nothing, and is exact.
    Virtual,
    Real,
}

/// A lock as somebody outside sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Fields and counts.
    pub(crate) holds: BTreeMap<String, u32>,
    pub(crate) ttl: Duration,
}

impl Stage {
    pub(crate) fn memory(time: Time) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let url = format!("memory:{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let _open = Client::builder().url(&url).connect_lazy().unwrap();
        Self::Memory { url, time, _open }
    }

    pub(crate) fn file() -> Self {
        Self::File(testkit::store_folder())
    }

    pub(crate) fn on(kind: Kind) -> Self {
        Self::Server(Box::new(Server::start(kind)))
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        match self {
            Self::Memory { .. } | Self::File(_) => None,
            Self::Server(server) => Some(server),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Memory { .. } => "memory",
            Self::File(_) => "file",
            Self::Server(server) => server.kind().name(),
        }
    }

    pub(crate) fn is_virtual(&self) -> bool {
        matches!(
            self,
            Self::Memory {
                time: Time::Virtual,
                ..
            }
        )
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Memory { url, .. } => url.clone(),
            Self::File(folder) => format!("file:{}", folder.path().display()),
            Self::Server(server) => server.url(),
        }
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(self.url())
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// Two clients, as two machines have them.
    pub(crate) async fn clients(&self) -> (Client, Client) {
        (self.client().await, self.client().await)
    }

    /// What the lock's key holds; `None`: there is none.
    pub(crate) async fn look(&self, name: &str) -> Option<Look> {
        match self {
            Self::Memory { .. } | Self::File(_) => {
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
            Self::Server(server) => {
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
        }
    }

    /// The counts under the lock's key, of whomever.
    pub(crate) async fn counts(&self, name: &str) -> Vec<u32> {
        let look = self.look(name).await;
        look.map_or_else(Vec::new, |look| look.holds.into_values().collect())
    }

    pub(crate) async fn ttl(&self, name: &str) -> Duration {
        self.look(name).await.expect("it is held").ttl
    }

    /// The key goes, and not by an unlock.
    pub(crate) async fn vanish(&self, name: &str) {
        match self {
            Self::Memory { .. } | Self::File(_) => {
                assert!(self.client().await.lock(name).force_unlock().await.unwrap());
            }
            Self::Server(server) => {
                assert_eq!(server.command(&["DEL", name]), testkit::Reply::Int(1));
            }
        }
    }

    /// The lease runs down by some seconds: by waiting where nobody can shorten it.
    pub(crate) async fn run_down(&self, name: &str, by: Duration) {
        match self {
            Self::Memory { .. } | Self::File(_) => sleep(by).await,
            Self::Server(server) => {
                let left = self.ttl(name).await - by;
                server.command(&["PEXPIRE", name, &left.as_millis().to_string()]);
            }
        }
    }

    /// Somebody else has the lock in its holder's place.
    pub(crate) async fn take_over(&self, name: &str) {
        let lease = "30000";
        let Some(server) = self.server() else {
            let lock = self
                .client()
                .await
                .lock(name)
                .lease(Duration::from_secs(30));
            assert!(lock.force_unlock().await.unwrap());
            return std::mem::forget(lock.try_lock().await.unwrap().expect("it is free"));
        };
        let mut connection = server.connect();
        connection.command(&["MULTI"]);
        connection.command(&["DEL", name]);
        let field = "6f6b6f1e-1111-4222-8333-444455556666:1";
        connection.command(&["HSET", name, field, "1"]);
        connection.command(&["PEXPIRE", name, lease]);
        connection.command(&["EXEC"]);
    }

    pub(crate) async fn is_free(&self, name: &str) -> bool {
        self.look(name).await.is_none()
    }

    /// Until nobody holds it any more.
    pub(crate) async fn freed(&self, name: &str) {
        let what = format!("{name} is free");
        eventually_async(LIMIT, &what, async || self.is_free(name).await).await;
    }

    /// A lease that is worth waiting for here. In real time it ends only if the machine stands still for a second.
    pub(crate) fn lease(&self) -> Duration {
        match self.is_virtual() {
            true => Duration::from_secs(30),
            false => Duration::from_millis(2400),
        }
    }

    /// Until somebody of that client who waits for the lock rests: see [`rests`]. Virtual time does not stand still: whoever
    /// listens there rests.
    pub(crate) async fn rests(&self, client: &Client, name: &str) {
        match self.is_virtual() {
            true => listens(client, name).await,
            false => rests(client, name).await,
        }
    }

    /// Tells what was measured beside what is promised. Virtual time is exact; in real time ten times the promise is
    /// allowed, because machines are shared.
    pub(crate) fn took(&self, what: &str, begun: Instant, promised: Duration) {
        let took = begun.elapsed();
        let who = self.name();
        eprintln!("{who}: {what}: {took:.1?} (promised {promised:?})");
        let allowed = if self.is_virtual() {
            promised
        } else {
            promised * 10
        };
        assert!(took <= allowed, "{who}: {what}: {took:?} of {promised:?}");
    }

    /// The same for what follows its cause at once: a process may let others go first for 2 ms, and real ones take their time.
    pub(crate) fn took_no_time(&self, what: &str, begun: Instant) {
        let promised = if self.is_virtual() { ms(2) } else { ms(100) };
        self.took(what, begun, promised);
    }
}

/// A name that nothing else has in this process: all who play there share its log.
pub(crate) fn unique(name: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{name}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Until somebody of that client who waits for the lock listens: it came, subscribed, and found it busy once more.
pub(crate) async fn listens(client: &Client, name: &str) {
    look_is_over(client, name, "confirmed").await;
}

/// Until somebody of that client who waits for the lock, which is held for long, rests: it listens, and its first safety poll
/// was in vain. The next one is 1.5 s away, or more: whatever wakes it comes sooner, also on a machine that stands still for a second.
pub(crate) async fn rests(client: &Client, name: &str) {
    look_is_over(client, name, "safety_poll").await;
}

/// Until an attempt was made for that cause by those of the client who wait for that lock.
async fn look_is_over(client: &Client, name: &str, cause: &str) {
    causes::attempted(name, cause, 1).await;
    // What is told is that the attempt begins. It is handed over by the poll that tells it, and answered before the question
    // that follows over the same connection.
    polled_meanwhile().await;
    client.ping().await.unwrap();
}

/// Until every poll is over that was under way in this runtime: when all its workers are here at a time, none is at another.
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

/// What led to the grant of each of these guards was that.
#[track_caller]
pub(crate) fn assert_led_to(cause: &str, guard: &Guard) {
    let causes = causes::of_attempts(guard.name());
    assert_eq!(causes::of_guard(guard), cause, "attempts: {causes:?}");
}

/// Waits for the lock in a task of its own.
pub(crate) fn waits(client: &Client, name: &str) -> JoinHandle<Guard> {
    let lock = client.lock(name).lock();
    tokio::spawn(async move { lock.await.unwrap() })
}

/// Waits in a task of its own for a lock that others of its client wait for: it is behind them when this returns.
pub(crate) fn joins(lock: &Lock) -> JoinHandle<ferrolock::Result<Guard>> {
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

/// How many scripts a server was asked to run since its start or the last reset.
pub(crate) fn attempts(server: &Server) -> u64 {
    let stats = server.commandstats();
    let calls = |name: &str| stats.get(name).copied().unwrap_or_default();
    calls("evalsha") + calls("eval")
}
