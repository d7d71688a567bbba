//! A Java thread that takes a lock over and over, to count under it.

use super::answer::Pending;
use super::client::ms;
use super::object::JavaObject;
use serde::Deserialize;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Where the unprotected counter is; the same places as those of [`Counter`](crate::Counter).
#[derive(Debug, Clone, Copy)]
pub enum Place<'a> {
    /// A key on the client's server.
    Key(&'a str),
    /// A file.
    File(&'a Path),
}

/// What a thread is to do in its loop; without an end it goes on until it is stopped.
#[derive(Debug)]
#[must_use = "it begins by `begin`"]
pub struct Rounds {
    object: JavaObject,
    fields: Value,
}

/// What a thread did in its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Looped {
    /// The number of rounds.
    pub done: u64,
    longest_wait_ns: u64,
}

impl Looped {
    /// The longest time that one `lock` took.
    pub fn longest_wait(&self) -> Duration {
        Duration::from_nanos(self.longest_wait_ns)
    }
}

impl Rounds {
    pub(super) fn new(object: JavaObject, counter: Place<'_>) -> Self {
        let counter = match counter {
            Place::Key(key) => json!({"key": key}),
            Place::File(path) => json!({"file": path}),
        };
        let fields = json!({"object": object.description(), "counter": counter});
        Self { object, fields }
    }

    /// Ends after this number of rounds.
    pub fn times(mut self, times: u64) -> Self {
        self.fields["times"] = json!(times);
        self
    }

    /// Ends at this moment of [`now`](super::now).
    pub fn until(mut self, moment: Duration) -> Self {
        let ns = u64::try_from(moment.as_nanos()).expect("less than an age");
        self.fields["until"] = json!(ns);
        self
    }

    /// Holds the lock for this time in each round.
    pub fn hold(mut self, time: Duration) -> Self {
        self.fields["hold_ms"] = json!(ms(time));
        self
    }

    /// Begins; [`JavaThread::stop`](super::JavaThread::stop) ends it after its round.
    pub fn begin(self) -> Pending<Looped> {
        self.object.thread().begin("loop", self.fields)
    }
}
