//! What Java answers, now or later.

use super::dialogue::Dialogue;
use crate::wait::LIMIT;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// An exception of Java.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Exception {
    /// The full name of its class.
    pub class: String,
    /// Its message.
    pub message: String,
    /// Class and message of what caused it, and of what caused that.
    pub causes: Vec<String>,
}

impl Exception {
    /// Whether its class has this name; without a package, in any package.
    pub fn is(&self, class: &str) -> bool {
        let short = self.class.rsplit(['.', '$']).next();
        self.class == class || short == Some(class)
    }

    /// Whether this Redisson lacks the method, or the kind of object, that was asked for.
    pub fn is_not_in_this_version(&self) -> bool {
        self.is("ferrolock.peer.NotInThisVersion")
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.message)?;
        self.causes
            .iter()
            .try_for_each(|cause| write!(f, "; caused by {cause}"))
    }
}

impl std::error::Error for Exception {}

/// An answer with its circumstances.
#[derive(Debug)]
pub struct Answer<T> {
    /// What the call returned or threw.
    pub result: Result<T, Exception>,
    /// The id of the Java thread that ran the command.
    pub thread: i64,
    /// When Java began, by [`now`](super::now).
    pub began: Duration,
    /// When Java was done, by [`now`](super::now).
    pub ended: Duration,
    /// Whether the thread was interrupted and the call did not throw because of it.
    pub was_interrupted: bool,
}

/// An answer as it stands on its line.
#[derive(Debug, Deserialize)]
pub(super) struct Line {
    pub(super) id: u64,
    #[serde(default)]
    result: Value,
    error: Option<Exception>,
    thread: i64,
    began: u64,
    ended: u64,
    #[serde(default)]
    interrupted: bool,
}

/// Where an answer arrives.
#[derive(Debug, Default)]
pub(super) struct Slot {
    arrived: Mutex<Arrived>,
    blocking: Condvar,
    waking: Notify,
}

#[derive(Debug, Default)]
enum Arrived {
    #[default]
    Not,
    Answer(Line),
    /// The JVM ended without one.
    Never,
}

impl Slot {
    /// Puts the answer in; `None`: there will be none.
    pub(super) fn put(&self, line: Option<Line>) {
        *self.arrived() = line.map_or(Arrived::Never, Arrived::Answer);
        self.blocking.notify_all();
        self.waking.notify_one();
    }

    fn arrived(&self) -> MutexGuard<'_, Arrived> {
        self.arrived.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_done(&self) -> bool {
        !matches!(*self.arrived(), Arrived::Not)
    }
}

/// A command that was given, and whose answer will come.
#[derive(Debug)]
#[must_use = "the answer may be an exception"]
pub struct Pending<T> {
    dialogue: Arc<Dialogue>,
    slot: Arc<Slot>,
    command: String,
    kind: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Pending<T> {
    pub(super) fn new(dialogue: Arc<Dialogue>, slot: Arc<Slot>, command: String) -> Self {
        Self {
            dialogue,
            slot,
            command,
            kind: PhantomData,
        }
    }

    /// Whether the answer is there.
    pub fn is_done(&self) -> bool {
        self.slot.is_done()
    }

    /// Blocks until the answer is there; panics after [`LIMIT`], or when the JVM is gone.
    #[track_caller]
    pub fn wait(self) -> Result<T, Exception> {
        self.answer(LIMIT).result
    }

    /// The same with its circumstances, and another limit.
    #[track_caller]
    pub fn answer(self, limit: Duration) -> Answer<T> {
        let deadline = Instant::now() + limit;
        let mut arrived = self.slot.arrived();
        while matches!(*arrived, Arrived::Not) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // The thread that brings answers locks it while this one asks for the state of the JVM.
                drop(arrived);
                self.fail("did not answer in time");
            }
            arrived = self
                .slot
                .blocking
                .wait_timeout(arrived, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let line = std::mem::take(&mut *arrived);
        drop(arrived);
        self.read(line)
    }

    /// Waits until the answer is there, and leaves the runtime free meanwhile; panics as [`Pending::wait`] does.
    pub async fn done(self) -> Result<T, Exception> {
        let arrival = self.slot.waking.notified();
        if !self.is_done() && tokio::time::timeout(LIMIT, arrival).await.is_err() {
            self.fail("did not answer in time");
        }
        let line = std::mem::take(&mut *self.slot.arrived());
        self.read(line).result
    }

    #[track_caller]
    fn read(&self, arrived: Arrived) -> Answer<T> {
        let Arrived::Answer(line) = arrived else {
            self.fail("is gone");
        };
        let result = match line.error {
            Some(exception) => Err(exception),
            None => Ok(serde_json::from_value(line.result)
                .unwrap_or_else(|error| panic!("the answer to {}: {error}", self.command))),
        };
        Answer {
            result,
            thread: line.thread,
            began: Duration::from_nanos(line.began),
            ended: Duration::from_nanos(line.ended),
            was_interrupted: line.interrupted,
        }
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        panic!(
            "the JVM {what}: {}\nafter {}",
            self.dialogue.state(),
            self.command
        );
    }
}
