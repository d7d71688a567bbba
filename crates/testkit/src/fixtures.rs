//! What the real Redisson did, step by step: the file `fixtures/redisson.json`, explained in the README beside it.
//!
//! Anything in the file that this module does not know is an error. A test plays the scenarios of a primitive with
//! [`scenarios_of`], and compares what it finds with [`Outcome`], [`KeyState`] and [`Message`].

mod call;
mod outcome;
mod state;
#[cfg(test)]
mod tests;

pub use call::{Call, Caller, Object};
pub use outcome::{Completion, Millis, Outcome, Returned};
pub use state::{Content, KeyState, Message, Moment, Ttl, Word};

use serde::Deserialize;
use std::collections::BTreeMap;

const REDISSON: &str = include_str!("../fixtures/redisson.json");

/// All scenarios.
pub fn scenarios() -> Vec<Scenario> {
    recording().scenarios
}

/// The scenarios of one primitive.
pub fn scenarios_of(primitive: Primitive) -> Vec<Scenario> {
    let mut scenarios = scenarios();
    scenarios.retain(|scenario| scenario.primitive == primitive);
    scenarios
}

/// All scenarios, with where they come from.
pub fn recording() -> Recording {
    serde_json::from_str(REDISSON).expect("the fixtures have the documented form")
}

/// A file of scenarios.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The library that was recorded, with its version.
    pub recorded_from: String,
    /// The server it ran on.
    pub server: String,
    /// What it did.
    pub scenarios: Vec<Scenario>,
}

/// What is played in a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[expect(missing_docs, reason = "the names are Redisson's")]
pub enum Primitive {
    #[serde(rename = "lock")]
    Lock,
    #[serde(rename = "non-reentrant lock")]
    NonReentrantLock,
    #[serde(rename = "fenced lock")]
    FencedLock,
    #[serde(rename = "spin lock")]
    SpinLock,
    #[serde(rename = "fair lock")]
    FairLock,
    #[serde(rename = "non-reentrant fair lock")]
    NonReentrantFairLock,
    #[serde(rename = "read-write lock")]
    ReadWriteLock,
    #[serde(rename = "multi lock")]
    MultiLock,
    #[serde(rename = "multi lock of a group")]
    GroupMultiLock,
    #[serde(rename = "red lock")]
    RedLock,
    #[serde(rename = "semaphore")]
    Semaphore,
    #[serde(rename = "permit-expirable semaphore")]
    PermitSemaphore,
    #[serde(rename = "count-down latch")]
    CountDownLatch,
}

/// A few calls and their effects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its unique name.
    pub name: String,
    /// What is played.
    pub primitive: Primitive,
    /// What is remarkable about it.
    pub note: Option<String>,
    /// The calls, in order.
    pub steps: Vec<Step>,
}

/// One call and its effects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its number, from 1.
    pub step: usize,
    /// Who calls.
    pub owner: Caller,
    /// The object of a method.
    pub on: Option<Object>,
    /// What is done.
    pub call: Call,
    /// What the caller of a method saw.
    pub reply: Option<Outcome>,
    /// Calls of earlier steps that returned during this one.
    #[serde(default)]
    pub completes: Vec<Completion>,
    /// The whole keyspace at the end of the step.
    pub keyspace: Vec<KeyState>,
    /// Everything published in the step, in order.
    pub messages: Vec<Message>,
    /// Keys written and deleted again within the step.
    #[serde(default)]
    pub transient: Vec<KeyState>,
    /// Commands the clients sent, by kind; for the record, not for comparison.
    #[serde(default)]
    pub commands: BTreeMap<String, u64>,
}
