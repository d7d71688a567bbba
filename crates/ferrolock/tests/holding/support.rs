//! What these tests share: one test per server, and a look at the renewals a server gets.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrolock::Client;
use testkit::{Kind, LIMIT, Monitor, Reply, Server, eventually_async, servers};

/// Makes a test of each function `async fn name(kind: Kind)`.
macro_rules! on_each_server {
    ($($name:ident),+ $(,)?) => {
        mod on_each_server {
            $(#[test] fn $name() { $crate::support::on_each_server(super::$name); })+
        }
    };
}

/// The lease of holds that are to be kept: it ends only if this machine stands still for more than a second.
pub const LEASE: Duration = ms(2400);
pub const INTERVAL: Duration = ms(800);

/// Runs a test on the servers that are here, side by side: it sleeps most of its time.
pub fn on_each_server(test: impl AsyncFn(Kind) + Send + Copy) {
    std::thread::scope(|scope| {
        for kind in servers() {
            scope.spawn(move || runtime(2).block_on(test(kind)));
        }
    });
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
