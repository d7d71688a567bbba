//! What these tests share: leases, and a record of the renewals that a server receives.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrolock::Client;
use testkit::{LIMIT, Monitor, Reply, Server, eventually_async};

use crate::stage::{Party, ms};

/// The lease of holds that must be kept: it ends only if this machine stalls for more than a second.
pub const LEASE: Duration = ms(2400);
pub const INTERVAL: Duration = ms(800);

pub async fn client(server: &Server) -> Party {
    Client::connect(server.url()).await.unwrap().into()
}

/// The wall clock, which a server on this machine shares.
pub fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// When the lock expires on the server, by the wall clock.
pub fn expiry(server: &Server, name: &str) -> Duration {
    ms(server.command(&["PEXPIRETIME", name]).int().unsigned_abs())
}

/// What is left of the lock's lease on the server; `None`: there is no lock.
pub fn rest(server: &Server, name: &str) -> Option<Duration> {
    u64::try_from(server.command(&["PTTL", name]).int())
        .ok()
        .map(ms)
}

/// Records the renewals that a server receives.
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

    /// Waits until the lock is released.
    pub fn released(&self, name: &str) {
        self.monitor.wait_for(|line| is_release(line, name), LIMIT);
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

/// Whether this line of the record is the removal of the lock's field by a release.
pub fn is_release(line: &str, name: &str) -> bool {
    line.contains("\"HDEL\"") && line.contains(&format!("\"{name}\""))
}
