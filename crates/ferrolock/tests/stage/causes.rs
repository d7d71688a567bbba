//! What led to the grants of each lock in this process, as the library tells it.
//!
//! Whoever was not woken gets the lock all the same, a little later: by the safety poll, or at the end of the holder's lease. No
//! time tells the two apart on a busy machine; the cause does. `arrival`, `confirmed`, `message`, `gap`, `own_release`, `lease_end`,
//! `safety_poll`, `last_chance`, `reconnected` are the words of `ferrolock_grants_total` in `docs/operations.md`.
//!
//! All tests of a process share this, so each gives its locks names of their own. A waiter in another process is asked there.
#![allow(dead_code, reason = "each suite needs a part of it")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Listens to the library for the rest of this process; before a lock is waited for whose causes are asked.
pub(crate) fn begin() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| {
        tracing::subscriber::set_global_default(Listener).expect("the only log of this process");
    });
}

/// What led to each grant of that lock so far; a grant is noted before its caller has it.
pub(crate) fn of(lock: &str) -> Vec<String> {
    begin();
    with_noted("granted", lock, <[_]>::to_vec)
}

/// What led to the last grant of that lock.
pub(crate) fn last_of(lock: &str) -> Option<String> {
    begin();
    with_noted("granted", lock, |causes| causes.last().cloned())
}

/// What led to each attempt that a driver has begun for that lock so far: for those who wait, not for the first of a caller.
pub(crate) fn of_attempts(lock: &str) -> Vec<String> {
    begin();
    with_noted("attempt", lock, <[_]>::to_vec)
}

fn with_noted<R>(event: &str, lock: &str, look: impl FnOnce(&[String]) -> R) -> R {
    let notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
    let causes = notes.get(&(event.to_owned(), lock.to_owned()));
    look(causes.map_or(&[], Vec::as_slice))
}

/// An event, and the lock.
type Key = (String, String);

static NOTES: Mutex<BTreeMap<Key, Vec<String>>> = Mutex::new(BTreeMap::new());

struct Listener;

/// An event of the library.
#[derive(Default)]
struct Note {
    message: String,
    lock: String,
    cause: Option<String>,
}

impl Visit for Note {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "lock" => self.lock = format!("{value:?}"),
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "cause" {
            self.cause = Some(value.to_owned());
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let fields = metadata.fields();
        metadata.target().starts_with("ferrolock") && fields.field("cause").is_some()
    }

    fn event(&self, event: &Event<'_>) {
        let mut note = Note::default();
        event.record(&mut note);
        let Some(cause) = note.cause else { return };
        let mut notes = NOTES.lock().unwrap_or_else(PoisonError::into_inner);
        let causes = notes.entry((note.message, note.lock)).or_default();
        causes.push(cause);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
