//! A replay of Redisson's flow for an uncontended pair: acquire, unlock with a latch, delete the latch. The flow of a waiter
//! is made of the same parts: see `peers/replay.rs`.
//!
//! Three commands, of which two run scripts, called by their hash as Redisson does. The scripts are ours; they do to the keys
//! what Redisson's do.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Value};
use std::time::Duration;

pub(crate) const LEASE_MS: u64 = 30_000;
/// The expiry that Redisson gives a latch with its default settings.
pub(crate) const LATCH_MS: u64 = 18_000;
const OWNER: &str = "5f2c31b5-93a1-4c11-9bdc-0c6f2b3a7d10";

/// The hashes of the scripts, which the server has.
#[derive(Debug, Clone)]
pub(crate) struct Replay {
    acquire: String,
    unlock: String,
}

/// The answer to an acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acquired {
    Granted,
    /// With the rest of the holder's lease.
    Busy(Duration),
}

impl Acquired {
    pub(crate) fn of(reply: Value) -> Self {
        match reply {
            Value::Nil => Self::Granted,
            Value::Int(left) => Self::Busy(Duration::from_millis(left.try_into().unwrap())),
            other => panic!("no reply of an acquire: {other:?}"),
        }
    }
}

impl Replay {
    pub(crate) async fn load(connection: &mut MultiplexedConnection) -> Self {
        Self {
            acquire: load(connection, include_str!("redisson/acquire.lua")).await,
            unlock: load(connection, include_str!("redisson/unlock.lua")).await,
        }
    }

    /// Takes the lock and releases it, each command after the reply to the one before.
    pub(crate) async fn pair(&self, connection: &mut MultiplexedConnection, name: &str, n: u64) {
        assert_eq!(self.acquire(connection, name, n).await, Acquired::Granted);
        self.unlock(connection, name, n, n.into()).await;
    }

    /// Tries once, for a thread with this number.
    pub(crate) async fn acquire(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        thread: u64,
    ) -> Acquired {
        let mut acquire = script(&self.acquire, &[name]);
        acquire.arg(LEASE_MS).arg(owner(thread));
        Acquired::of(send(connection, &acquire).await)
    }

    /// Releases one hold of the thread; no two requests have the same number.
    pub(crate) async fn unlock(
        &self,
        connection: &mut MultiplexedConnection,
        name: &str,
        thread: u64,
        request: u128,
    ) {
        let latch = latch(name, request);
        let mut unlock = script(&self.unlock, &[name, &channel(name), &latch]);
        unlock.arg(0).arg(LEASE_MS).arg(owner(thread));
        unlock.arg("PUBLISH").arg(LATCH_MS);
        assert_eq!(send(connection, &unlock).await, Value::Int(1));
        delete(connection, &latch).await;
    }
}

/// Deletes the latch of an unlock that was answered.
pub(crate) async fn delete(connection: &mut MultiplexedConnection, latch: &str) {
    let mut delete = redis::cmd("DEL");
    delete.arg(latch);
    assert_eq!(send(connection, &delete).await, Value::Int(1));
}

/// The latch of an unlock; no two requests have the same number.
pub(crate) fn latch(name: &str, request: u128) -> String {
    format!("redisson_unlock_latch:{{{name}}}:{request:032x}")
}

/// The channel on which a release of that lock is published.
pub(crate) fn channel(name: &str) -> String {
    format!("redisson_lock__channel:{{{name}}}")
}

pub(crate) fn owner(thread: u64) -> String {
    format!("{OWNER}:{thread}")
}

pub(crate) async fn load(connection: &mut MultiplexedConnection, source: &str) -> String {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(source);
    load.query_async(connection).await.unwrap()
}

pub(crate) fn script(sha: &str, keys: &[&str]) -> Cmd {
    let mut command = redis::cmd("EVALSHA");
    command.arg(sha).arg(keys.len()).arg(keys);
    command
}

pub(crate) async fn send(connection: &mut MultiplexedConnection, command: &Cmd) -> Value {
    connection.send_packed_command(command).await.unwrap()
}
