//! What these tests share: one test per server, and a look at the renewals a server gets.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ferrolock::Client;
use testkit::{Kind, LIMIT, Monitor, Reply, Server, eventually_async};

/// Makes a test per server of each function `async fn name(kind: Kind)`.
macro_rules! on_each_server {
    ($($name:ident),+ $(,)?) => {
        mod redis {
            $(#[test] fn $name() { $crate::support::on(testkit::Kind::Redis, super::$name); })+
        }
        mod valkey {
            $(#[test] fn $name() { $crate::support::on(testkit::Kind::Valkey, super::$name); })+
        }
    };
}

/// A machine that stands still for longer makes short leases end, rightly.
const STALL: Duration = ms(100);
const TRIES: usize = 8;

/// Runs a test on that server, if it is here; `servers` names it if it is not.
///
/// The leases here are short and real. A failure counts if this machine kept time meanwhile; if it stood still, the
/// test runs once more.
pub fn on(kind: Kind, test: impl AsyncFn(Kind)) {
    if !testkit::servers().contains(&kind) {
        return;
    }
    for attempt in 1..=TRIES {
        let stalls = Stalls::watch();
        let told = AssertUnwindSafe(|| runtime(2).block_on(test(kind)));
        let Err(failure) = std::panic::catch_unwind(told) else {
            return;
        };
        let stall = stalls.longest();
        if stall < STALL || attempt == TRIES {
            std::panic::resume_unwind(failure);
        }
        eprintln!("{kind:?}: this machine stood still for {stall:?} meanwhile; once more");
    }
}

/// Sees how long a thread that only sleeps for a moment does not run.
struct Stalls {
    longest: Arc<AtomicU64>,
}

impl Stalls {
    fn watch() -> Self {
        let longest = Arc::new(AtomicU64::new(0));
        let seen = Arc::downgrade(&longest);
        std::thread::spawn(move || {
            let mut last = Instant::now();
            while let Some(longest) = seen.upgrade() {
                let gap = u64::try_from(last.elapsed().as_millis()).unwrap();
                longest.fetch_max(gap, Ordering::Relaxed);
                last = Instant::now();
                drop(longest);
                std::thread::sleep(ms(2));
            }
        });
        Self { longest }
    }

    fn longest(&self) -> Duration {
        ms(self.longest.load(Ordering::Relaxed))
    }
}

pub fn runtime(workers: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .unwrap()
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub async fn client(server: &Server) -> Client {
    Client::connect(server.url()).await.unwrap()
}

/// The wall clock, which a server on this machine shares.
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// When the server will end the lock, by the wall clock.
pub fn expiry(server: &Server, name: &str) -> Duration {
    ms(server.command(&["PEXPIRETIME", name]).int().unsigned_abs())
}

/// What the lock's lease still has on the server; `None`: there is no lock.
pub fn rest(server: &Server, name: &str) -> Option<Duration> {
    u64::try_from(server.command(&["PTTL", name]).int())
        .ok()
        .map(ms)
}

/// Sees the renewals that a server gets.
pub struct Renewals<'a> {
    server: &'a Server,
    monitor: Monitor,
    sha: String,
}

impl<'a> Renewals<'a> {
    pub fn of(server: &'a Server) -> Self {
        let script = include_str!("../../src/protocol/lock/renew.lua");
        let sha = server.command(&["SCRIPT", "LOAD", script]).text();
        Self {
            server,
            monitor: server.monitor(),
            sha,
        }
    }

    /// Waits until the lock is renewed once more.
    pub async fn next(&self, name: &str) {
        let before = self.count(name);
        let what = format!("a renewal of {name}");
        eventually_async(LIMIT, &what, async || self.count(name) > before).await;
    }

    /// Every command so far, in the server's order.
    pub fn lines(&self) -> Vec<String> {
        let mark = format!("mark-{}", wall().as_nanos());
        assert_eq!(
            self.server.command(&["ECHO", &mark]),
            Reply::Text(mark.clone())
        );
        self.monitor.wait_for(|line| line.contains(&mark), LIMIT);
        self.monitor.lines()
    }

    pub fn is_renewal(&self, line: &str, name: &str) -> bool {
        line.contains(&self.sha) && line.contains(&format!("\"{name}\""))
    }

    pub fn count(&self, name: &str) -> usize {
        let lines = self.lines();
        lines
            .iter()
            .filter(|line| self.is_renewal(line, name))
            .count()
    }
}

/// Whether a line is the removal of the lock's field by a release.
pub fn is_release(line: &str, name: &str) -> bool {
    line.contains("\"HDEL\"") && line.contains(&format!("\"{name}\""))
}
