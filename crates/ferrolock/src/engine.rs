//! The interface between the lock logic and what it runs on: engines run scripts and deliver messages.
//!
//! All lock logic is Lua, written once. An [`Engine`] runs a script atomically, listens on channels and tells the
//! time it is judged by; everything above this file is the same for all engines.

mod clock;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
#[cfg(feature = "redis")]
pub(crate) mod redis;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use clock::{Clock, Tick};

use crate::protocol::call::{Call, Value};
use crate::protocol::renewal::RowError;
use crate::protocol::scheme::BadReply;

/// What calls fail with after the client was shut down.
pub(crate) const SHUT_DOWN: &str = "the client was shut down";
/// What calls fail with after the runtime ended that the client's tasks live in.
pub(crate) const RUNTIME_ENDED: &str = "the runtime that this client was connected in has ended";

/// The thread that renews everything in this process: an engine must never let it wait for a disk.
pub(crate) const KEEPER_THREAD: &str = "ferrolock-keeper";

/// A boxed future, as the methods of [`Engine`] return it.
pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send + 'static>>;

/// A reply to come.
pub(crate) type Calling = Boxed<Result<Value, Failure>>;

/// Runs scripts, delivers messages, tells the time.
///
/// An engine never runs a call twice, never repeats one by itself, and puts no limit on the time of a call: the caller
/// that waits sets the limit. The engine keeps a call until its reply came or its connection ended, also when the
/// returned future is dropped.
pub(crate) trait Engine: fmt::Debug + Send + Sync + 'static {
    /// Runs one script call atomically and gives its reply.
    ///
    /// Fails at once with [`Failure::NotSent`] while there is no connection (see [`Engine::ready`]).
    fn call(&self, lane: Lane, call: Call) -> Calling;

    /// Resolves when the lane has a connection, starting to connect if nothing does so yet. Never fails: the caller
    /// sets the limit, and [`Engine::trouble`] returns why there is no connection.
    fn ready(&self, lane: Lane) -> Boxed<()>;

    /// Resolves when the lane has a connection that it did not have before.
    fn reconnected(&self, lane: Lane) -> Boxed<()>;

    /// Why there is no connection, as far as the engine knows: one line, no credentials.
    fn trouble(&self) -> Option<Failure>;

    /// Listens on a channel. Resolves when the server has confirmed the subscription; from then on `listener` gets every
    /// message, and a [`Signal::Gap`] each time the subscription was interrupted and has been confirmed anew.
    /// Refused (rights, a proxy): `Err`. While there is no connection it waits. Dropping the [`Subscription`], or
    /// this future, ends it. A channel may have several listeners, of one client too: each gets everything, and the
    /// others stay when one ends. One that joins a confirmed channel is confirmed at once.
    fn listen(
        &self,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Boxed<Result<Subscription, Failure>>;

    /// The clock that deadlines of this engine are read from.
    fn clock(&self) -> Clock;

    /// Whether other processes can hold what it keeps. Where none can, no client need pause for less than a millisecond.
    fn is_shared_with_processes(&self) -> bool {
        true
    }

    /// The seed that random pauses and ids of its client are drawn from. `None`: the system's randomness.
    fn seed(&self) -> Option<u64> {
        None
    }

    /// The address of the server or store, without credentials; for messages.
    fn address(&self) -> &str;

    /// How long one round trip takes, roughly, as last measured on [`Lane::Commands`]; zero: unknown.
    fn round_trip(&self) -> std::time::Duration;

    /// Sets how soon a connection for renewals is needed again: a function that returns the shortest lease now renewed, if any.
    fn hurried_by(&self, _shortest_lease: ShortestLease) {}

    /// Sets the id of the client that will call it: for an engine that can see whether the process of a holder lives.
    fn introduce(&self, _client: &str) {}

    /// Whether its data was removed, for good: nothing that it granted is held any longer.
    fn is_removed(&self) -> bool {
        false
    }

    /// Sets the function that loses every hold of its client. The engine calls it only once it
    /// [is removed](Engine::is_removed), on a thread of its own; until it returns, no other process is granted the same.
    fn when_removed(&self, _lose_all: LoseAll) {}

    /// The file whose lock tells others that this process lives, where there is one.
    #[cfg(unix)]
    fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        None
    }

    /// Ends all connections for good. Calls still under way end with [`Failure::Unknown`].
    fn close(&self);
}

/// Returns the shortest lease that is renewed now.
pub(crate) type ShortestLease = Box<dyn Fn() -> Option<std::time::Duration> + Send + Sync>;

/// Loses every hold of a client.
pub(crate) type LoseAll = Box<dyn Fn() + Send + Sync>;

/// Which connection a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// The callers': acquire, unlock, inspect. Its tasks live in the client's runtime.
    Commands,
    /// The keeper's: renewals, dropped guards, releases still to be made. Its tasks live in the runtime that first used it.
    Keeper,
    /// The keeper's second one, used only while the first hangs.
    KeeperSpare,
}

/// What a listener gets from its channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A message, as it was published.
    Message(Vec<u8>),
    /// The subscription was interrupted and stands again: messages may be missing.
    Gap,
}

/// Takes the signals of a channel. Called from the engine's task: must not block.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Takes one signal.
    fn hear(&self, signal: Signal);
}

/// A confirmed subscription; dropping it unsubscribes.
pub(crate) struct Subscription {
    end: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Subscription {
    /// A subscription that calls `end` when it is dropped.
    pub(crate) fn new(end: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self {
            end: Some(Box::new(end)),
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(end) = self.end.take() {
            end();
        }
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subscription")
    }
}

/// Why a call has no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There was no connection at that moment: it has not run and will not run.
    NotSent(String),
    /// It may have run, and may still run.
    Unknown(String),
    /// The server's own error: the script ended there. What it had written before stays; the scripts of this crate read
    /// first, and after their first write can only be refused the message (`PUBLISH`) or a command's right.
    Refused {
        /// The first word: `WRONGTYPE`, `NOPERM`, `OOM`, `READONLY`, `LOADING`, `BUSY`, `MISCONF` …
        code: String,
        /// The rest, one line.
        message: String,
    },
    /// The engine was closed, or the runtime that its connections live in has ended.
    Closed(String),
}

/// The error for an address of a kind that this build does not know.
pub(crate) fn no_address() -> String {
    let kinds = [
        ("memory:", cfg!(feature = "embedded")),
        (
            "file:",
            cfg!(all(feature = "embedded", target_os = "linux")),
        ),
        ("redis://", cfg!(feature = "redis")),
        ("rediss://", cfg!(feature = "tls")),
        ("unix:", cfg!(feature = "redis")),
    ];
    let known: Vec<&str> = kinds
        .iter()
        .filter(|(_, is_built_in)| *is_built_in)
        .map(|(begin, _)| *begin)
        .collect();
    let begin = match known.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => return "this build of ferrolock has no engine: give it a feature".to_owned(),
    };
    format!("this is no address: one begins with {begin}")
}

/// The bytes that an address means; `None`: a `%` without two hexadecimal digits.
#[cfg(any(feature = "redis", all(feature = "embedded", target_os = "linux")))]
fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    let (mut decoded, mut bytes) = (Vec::with_capacity(text.len()), text.bytes());
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => u8::try_from(digit(bytes.next())? * 16 + digit(bytes.next())?).ok()?,
            byte => byte,
        });
    }
    Some(decoded)
}

impl From<BadReply> for Failure {
    /// The reply of another script, or of a proxy: what ran, if anything, is unknown.
    fn from(BadReply(script, reply): BadReply) -> Self {
        Failure::Unknown(format!(
            "the reply to the {script} script makes no sense: {reply:?}"
        ))
    }
}

impl From<RowError> for Failure {
    fn from(RowError { code, message }: RowError) -> Self {
        Failure::Refused { code, message }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::NotSent(why) | Failure::Unknown(why) | Failure::Closed(why) => {
                f.write_str(why)
            }
            Failure::Refused { code, message } => write!(f, "{code} {message}"),
        }
    }
}

/// Locks a mutex, also after a panic under it: every change under such a lock is made whole or not at all.
pub(crate) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
