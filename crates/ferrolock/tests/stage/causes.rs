//! The events that the library logs about each lock in this process: above all what led to its grants.
//!
//! A waiter that was not woken gets the lock all the same, a little later: by the safety poll, or at the end of the holder's
//! lease. On a busy machine the time does not tell the two apart; the cause does. `arrival`, `confirmed`, `message`, `gap`,
//! `own_release`, `lease_end`, `safety_poll`, `last_chance`, `reconnected` are the labels of `ferrolock_grants_total` in
//! `docs/operations.md`.
//!
//! States that pass by themselves are noted here too: a test that polls for them may miss them.
//!
//! All tests of a process share these notes, so each gives its locks names of their own. A waiter in another process is not
//! seen here; that process is asked.
#![allow(dead_code, reason = "each suite needs a part of it")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use ferrolock::OwnerId;
use tokio::sync::Notify;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// A driver begins an attempt for waiters; the first attempt of a caller is not logged.
pub(crate) const ATTEMPT: &str = "attempt";
pub(crate) const GRANTED: &str = "granted";
pub(crate) const UNCERTAIN: &str =
    "renewal failed or hangs; the hold is uncertain until its deadline";

/// Only ends a test that would hang.
const LIMIT: Duration = Duration::from_secs(60);

/// Listens to the library for the rest of this process. Must be called before the wait whose causes a test asks for.
pub(crate) fn begin() {
    static BEGUN: OnceLock<()> = OnceLock::new();
    BEGUN.get_or_init(|| {
        tracing::subscriber::set_global_default(Listener).expect("the only log of this process");
    });
}

/// What led to each grant of that lock so far; a grant is noted before its caller has it.
pub(crate) fn of(lock: &str) -> Vec<String> {
    causes_of(GRANTED, lock)
}

/// What led to the last grant of that lock.
pub(crate) fn last_of(lock: &str) -> Option<String> {
    of(lock).pop()
}

/// What led to the last grant of that lock to that owner, or to anyone.
pub(crate) fn of_owner(lock: &str, owner: Option<&OwnerId>) -> Option<String> {
    begin();
    let owner = owner.map(OwnerId::as_str);
    let notes = notes();
    let mut granted = notes.of(GRANTED, lock).iter().rev();
    let note = granted.find(|note| owner.is_none() || note.owner.as_deref() == owner);
    note.and_then(|note| note.cause.clone())
}

/// What led to each attempt that a driver has begun for the waiters of that lock so far; without the first attempt of each
/// caller.
pub(crate) fn of_attempts(lock: &str) -> Vec<String> {
    causes_of(ATTEMPT, lock)
}

/// How often that event of that lock was logged so far.
pub(crate) fn count(event: &str, lock: &str) -> usize {
    begin();
    notes().of(event, lock).len()
}

/// Waits until that event of that lock was logged `times` times.
pub(crate) async fn told(event: &str, lock: &str, times: usize) {
    let what = format!("{event} of {lock}, {times} times");
    until(&what, || count(event, lock) >= times).await;
}

/// Waits until `times` attempts for the waiters of that lock were begun for that cause.
pub(crate) async fn attempted(lock: &str, cause: &str, times: usize) {
    let what = format!("attempts at {lock} for {cause}, {times} of them");
    let is_cause = |attempt: &&String| *attempt == cause;
    let count = || of_attempts(lock).iter().filter(is_cause).count();
    until(&what, || count() >= times).await;
}

/// Waits until `is_true`, which must not become false again; asks once more after each event.
async fn until(what: &str, is_true: impl Fn() -> bool) {
    begin();
    let waiting = async {
        loop {
            let mut news = std::pin::pin!(NEWS.notified());
            news.as_mut().enable();
            if is_true() {
                return;
            }
            news.await;
        }
    };
    let waited = tokio::time::timeout(LIMIT, waiting).await;
    assert!(waited.is_ok(), "waited {LIMIT:?} in vain: {what}");
}

fn causes_of(event: &str, lock: &str) -> Vec<String> {
    begin();
    let notes = notes();
    let events = notes.of(event, lock).iter();
    events.filter_map(|note| note.cause.clone()).collect()
}

/// By event and lock, in the order in which they were logged.
#[derive(Debug)]
struct Notes(BTreeMap<(String, String), Vec<Note>>);

/// The other fields of an event.
#[derive(Debug)]
struct Note {
    cause: Option<String>,
    owner: Option<String>,
}

static NOTES: Mutex<Notes> = Mutex::new(Notes(BTreeMap::new()));
static NEWS: Notify = Notify::const_new();

fn notes() -> MutexGuard<'static, Notes> {
    NOTES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Notes {
    fn of(&self, event: &str, lock: &str) -> &[Note] {
        let key = (event.to_owned(), lock.to_owned());
        self.0.get(&key).map_or(&[], Vec::as_slice)
    }
}

/// Notes an event of the library about a lock; for a log that is set in place of this one in some thread.
pub(crate) fn note(event: &Event<'_>) {
    let mut seen = Seen::default();
    event.record(&mut seen);
    let Some(lock) = seen.lock else { return };
    let note = Note {
        cause: seen.cause,
        owner: seen.owner,
    };
    let mut notes = notes();
    notes.0.entry((seen.message, lock)).or_default().push(note);
    drop(notes);
    NEWS.notify_waiters();
}

/// The fields of an event.
#[derive(Default)]
struct Seen {
    message: String,
    lock: Option<String>,
    owner: Option<String>,
    cause: Option<String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.record_str(field, &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let value = value.to_owned();
        match field.name() {
            "message" => self.message = value,
            "lock" => self.lock = Some(value),
            "owner" => self.owner = Some(value),
            "cause" => self.cause = Some(value),
            _ => {}
        }
    }
}

struct Listener;

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let fields = metadata.fields();
        metadata.target().starts_with("ferrolock") && fields.field("lock").is_some()
    }

    fn event(&self, event: &Event<'_>) {
        note(event);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
