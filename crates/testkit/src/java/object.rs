//! Objects of Redisson, used by a Java thread.

use super::answer::{Exception, Pending};
use super::client::{JavaThread, ms};
use super::rounds::{Place, Rounds};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::ops::Deref;
use std::time::Duration;

/// The unit of the times in a call's arguments.
pub const MS: &str = "MILLISECONDS";

/// An object of Redisson, and the thread that calls its methods.
#[derive(Debug, Clone)]
pub struct JavaObject {
    thread: JavaThread,
    description: Value,
}

impl JavaObject {
    pub(super) fn new(thread: JavaThread, description: Value) -> Self {
        Self {
            thread,
            description,
        }
    }

    /// The thread that calls.
    pub fn thread(&self) -> &JavaThread {
        &self.thread
    }

    pub(super) fn description(&self) -> &Value {
        &self.description
    }

    /// Calls any method of its interface and blocks until it returns.
    ///
    /// Of a method that returns a future, the future's value.
    #[track_caller]
    pub fn call<T: DeserializeOwned>(&self, method: &str, args: Value) -> Result<T, Exception> {
        self.begin(method, args).wait()
    }

    /// Calls any method of its interface and does not wait for it.
    pub fn begin<T: DeserializeOwned>(&self, method: &str, args: Value) -> Pending<T> {
        let fields = json!({"object": self.description, "method": method, "args": args});
        self.thread.begin("call", fields)
    }
}

/// A lock of Redisson (`RLock`) of any kind, and the thread that uses it.
#[derive(Debug, Clone)]
pub struct JavaLock {
    object: JavaObject,
}

impl Deref for JavaLock {
    type Target = JavaObject;

    fn deref(&self) -> &JavaObject {
        &self.object
    }
}

impl JavaLock {
    pub(super) fn new(object: JavaObject) -> Self {
        Self { object }
    }

    /// The same lock, with a new instance of its class for every call.
    ///
    /// Otherwise all threads of a client share one, which remembers its last lease.
    pub fn fresh(mut self) -> Self {
        self.object.description["fresh"] = json!(true);
        self
    }

    /// Takes it, and waits without a limit; the watchdog keeps it.
    #[track_caller]
    pub fn lock(&self) -> Result<(), Exception> {
        self.begin_lock().wait()
    }

    /// The same, to be waited for later.
    pub fn begin_lock(&self) -> Pending<()> {
        self.begin("lock", json!([]))
    }

    /// Takes it for at most this lease, and waits without a limit.
    #[track_caller]
    pub fn lock_for(&self, lease: Duration) -> Result<(), Exception> {
        self.call("lock", json!([ms(lease), MS]))
    }

    /// Takes it if it is free.
    #[track_caller]
    pub fn try_lock(&self) -> Result<bool, Exception> {
        self.call("tryLock", json!([]))
    }

    /// Takes it if it becomes free within that time.
    #[track_caller]
    pub fn try_lock_within(&self, wait: Duration) -> Result<bool, Exception> {
        self.begin_try_lock_within(wait).wait()
    }

    /// The same, to be waited for later.
    pub fn begin_try_lock_within(&self, wait: Duration) -> Pending<bool> {
        self.begin("tryLock", json!([ms(wait), MS]))
    }

    /// Takes it if it becomes free within that time, for at most this lease.
    #[track_caller]
    pub fn try_lock_within_for(&self, wait: Duration, lease: Duration) -> Result<bool, Exception> {
        self.call("tryLock", json!([ms(wait), ms(lease), MS]))
    }

    /// Releases it once.
    #[track_caller]
    pub fn unlock(&self) -> Result<(), Exception> {
        self.call("unlock", json!([]))
    }

    /// Frees it for any holder; returns whether there was one.
    #[track_caller]
    pub fn force_unlock(&self) -> Result<bool, Exception> {
        self.call("forceUnlock", json!([]))
    }

    /// Whether it is held, by any client.
    #[track_caller]
    pub fn is_locked(&self) -> Result<bool, Exception> {
        self.call("isLocked", json!([]))
    }

    /// Whether this thread holds it.
    #[track_caller]
    pub fn is_held(&self) -> Result<bool, Exception> {
        self.call("isHeldByCurrentThread", json!([]))
    }

    /// Whether the thread of its client with this id holds it.
    #[track_caller]
    pub fn is_held_by(&self, thread_id: i64) -> Result<bool, Exception> {
        self.call("isHeldByThread", json!([thread_id]))
    }

    /// How many times this thread holds it.
    #[track_caller]
    pub fn hold_count(&self) -> Result<u32, Exception> {
        self.call("getHoldCount", json!([]))
    }

    /// What is left of the lease; -2: it is free, -1: it does not expire.
    #[track_caller]
    pub fn remaining_ms(&self) -> Result<i64, Exception> {
        self.call("remainTimeToLive", json!([]))
    }

    /// Lets the thread lock, count one more in an unprotected counter and unlock, over and over.
    pub fn rounds(&self, counter: Place<'_>) -> Rounds {
        Rounds::new(self.object.clone(), counter)
    }
}
