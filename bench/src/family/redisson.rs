//! A replay of what Redisson does to fair and read-write locks: scripts called by their hash, and after each unlock its latch is
//! deleted. The scripts are ours; they do to the keys what Redisson's do.

use crate::lock::redisson::{
    Acquired, LATCH_MS, LEASE_MS, channel, delete, latch, load, owner, script, send,
};
use redis::Value;
use redis::aio::MultiplexedConnection;
use std::time::{SystemTime, UNIX_EPOCH};

const DROP_OVERDUE: &str = include_str!("redisson/drop_overdue.lua");
const FAIR_ACQUIRE: &str = include_str!("redisson/fair_acquire.lua");
const FAIR_UNLOCK: &str = include_str!("redisson/fair_unlock.lua");

/// So long that a holder needs no renewal while others come and go.
const FAIR_LEASE_MS: u64 = 3_600_000;
/// How long a caller without a limit waits for a fair lock, as Redisson counts.
const FAIR_WAIT_MS: u64 = 300_000;

/// The fair lock: the hashes of its scripts, which the server has.
#[derive(Debug, Clone)]
pub(crate) struct FairReplay {
    acquire: String,
    unlock: String,
}

impl FairReplay {
    pub(crate) async fn load(connection: &mut MultiplexedConnection) -> Self {
        let acquire = format!("{DROP_OVERDUE}\n{FAIR_ACQUIRE}");
        let unlock = format!("{DROP_OVERDUE}\n{FAIR_UNLOCK}");
        Self {
            acquire: load(connection, &acquire).await,
            unlock: load(connection, &unlock).await,
        }
    }

    /// An attempt of a caller that waits.
    pub(crate) async fn acquire(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        thread: u64,
    ) -> Acquired {
        let [queue, deadlines] = fair_keys(name);
        let mut acquire = script(&self.acquire, &[name, &queue, &deadlines]);
        acquire.arg(FAIR_LEASE_MS).arg(owner(thread));
        acquire.arg(FAIR_WAIT_MS).arg(clock_ms());
        Acquired::of(send(connection, &acquire).await)
    }

    pub(crate) async fn unlock(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        thread: u64,
    ) {
        let ([queue, deadlines], latch) = (fair_keys(name), latch(name, thread.into()));
        let keys = [name, &queue, &deadlines, &channel(name), &latch];
        let mut unlock = script(&self.unlock, &keys);
        unlock.arg(0).arg(FAIR_LEASE_MS).arg(owner(thread));
        unlock.arg(clock_ms()).arg("PUBLISH").arg(LATCH_MS);
        assert_eq!(send(connection, &unlock).await, Value::Int(1));
        delete(connection, &latch).await;
    }
}

/// Queue and deadlines.
fn fair_keys(name: &str) -> [String; 2] {
    ["queue", "timeout"].map(|key| format!("redisson_lock_{key}:{{{name}}}"))
}

/// Redisson gives its own time to the scripts of a fair lock.
fn clock_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_millis().try_into().unwrap()
}

/// The read-write lock: the same.
#[derive(Debug, Clone)]
pub(crate) struct ReadWriteReplay {
    read_acquire: String,
    read_unlock: String,
    write_acquire: String,
    write_unlock: String,
}

impl ReadWriteReplay {
    pub(crate) async fn load(connection: &mut MultiplexedConnection) -> Self {
        Self {
            read_acquire: load(connection, include_str!("redisson/read_acquire.lua")).await,
            read_unlock: load(connection, include_str!("redisson/read_unlock.lua")).await,
            write_acquire: load(connection, include_str!("redisson/write_acquire.lua")).await,
            write_unlock: load(connection, include_str!("redisson/write_unlock.lua")).await,
        }
    }

    pub(crate) async fn acquire(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        thread: u64,
        side: Side,
    ) -> Acquired {
        let acquire = match side {
            Side::Read => {
                let mut acquire = script(&self.read_acquire, &[name, &holds(name, thread)]);
                acquire.arg(LEASE_MS).arg(owner(thread)).arg(writer(thread));
                acquire
            }
            Side::Write => {
                let mut acquire = script(&self.write_acquire, &[name]);
                acquire.arg(LEASE_MS).arg(writer(thread));
                acquire
            }
        };
        Acquired::of(send(connection, &acquire).await)
    }

    /// The latch is deleted in the background, as Redisson does it.
    pub(crate) async fn unlock(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        thread: u64,
        side: Side,
        request: u128,
    ) {
        let (channel, latch) = (rw_channel(name), latch(name, request));
        let unlock = match side {
            Side::Read => {
                let (own, all) = (holds(name, thread), format!("{{{name}}}"));
                let mut unlock = script(&self.read_unlock, &[name, &channel, &own, &all, &latch]);
                unlock.arg(0).arg(owner(thread));
                unlock
            }
            Side::Write => {
                let mut unlock = script(&self.write_unlock, &[name, &channel, &latch]);
                unlock.arg(1).arg(LEASE_MS).arg(writer(thread));
                unlock
            }
        };
        let mut unlock = unlock;
        unlock.arg("PUBLISH").arg(LATCH_MS);
        let reply = send(connection, &unlock).await;
        assert!(matches!(reply, Value::Int(0 | 1)), "not held: {reply:?}");
        let mut connection = connection.clone();
        tokio::spawn(async move { delete(&mut connection, &latch).await });
    }
}

/// A side of a read-write lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

/// The channel on which releases of a read-write lock are published.
pub(crate) fn rw_channel(name: &str) -> String {
    format!("redisson_rwlock:{{{name}}}")
}

fn writer(thread: u64) -> String {
    format!("{}:write", owner(thread))
}

fn holds(name: &str, thread: u64) -> String {
    format!("{{{name}}}:{}:rwlock_timeout", owner(thread))
}
