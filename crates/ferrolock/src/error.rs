//! One error; its kinds are named for what the caller can do.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::engine::Failure;

/// The result of almost every call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a caller can do about an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The lock was busy for the whole `max_wait`: try later.
    TimedOut,
    /// Waiting was ended by the token given with `cancelled_by`.
    Cancelled,
    /// We had the lock, and no longer have it: stop, and do not write.
    Lost,
    /// The call would wait for itself, as a non-reentrant lock taken again: mend the program.
    WouldDeadlock,
    /// No answer within the limit. Whether the call ran is taken care of: try later, or go on without.
    Unreachable,
    /// The server or the disk said no: a right, a type, its memory. Call the operator.
    Refused,
    /// Fewer than a majority of the nodes of a quorum could be had: as `TimedOut` or `Unreachable`, by what
    /// [`nodes`](Error::nodes) says.
    NoQuorum,
    /// `shutdown` was called, or the runtime of the client has ended; of a quorum, of so many clients that there is no majority.
    Closed,
    /// A bad name, duration or address, or an engine that is not built in: mend the call.
    Invalid,
}

/// Why a hold is over without our release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LostReason {
    /// No renewal was confirmed before the local deadline, which lies before the end of the lease.
    Expired,
    /// Another owner has the lock now.
    TakenOver,
    /// The lock was gone before its lease was over: deleted, force-unlocked, flushed, evicted, or lost in a failover.
    Removed,
    /// The limit set with `max_hold` is reached.
    MaxHold,
    /// The client was shut down and the holder did not let go within the limit.
    ShutDown,
}

impl fmt::Display for LostReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LostReason::Expired => "no renewal was confirmed before its deadline",
            LostReason::TakenOver => "somebody else has it",
            LostReason::Removed => "it was removed before its lease was over",
            LostReason::MaxHold => "the limit set with max_hold is reached",
            LostReason::ShutDown => "the client was shut down",
        })
    }
}

/// What went wrong, with the lock it happened to.
///
/// Cheap to clone. Its text is one line that says what to try; it never contains a password.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// use ferrolock::{Client, ErrorKind};
///
/// let error = Client::memory().lock("").lock().await.unwrap_err();
///
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// # }
/// ```
#[derive(Clone)]
pub struct Error {
    inner: Arc<Inner>,
}

struct Inner {
    cause: ErrorCause,
    lock: Option<Arc<str>>,
    nodes: Vec<NodeError>,
}

/// What one member of a [`MultiLock`](crate::MultiLock), or one node of a [`Quorum`](crate::Quorum), answered.
#[derive(Clone, Debug)]
pub struct NodeError {
    node: Arc<str>,
    error: Error,
}

impl NodeError {
    pub(crate) fn new(node: &str, error: Error) -> Self {
        let node = node.into();
        Self { node, error }
    }

    /// The address of its server or store, without credentials.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// What went wrong there.
    pub fn error(&self) -> &Error {
        &self.error
    }
}

#[derive(Clone)]
pub(crate) enum ErrorCause {
    TimedOut {
        waited: Duration,
        remaining: Option<Duration>,
    },
    Cancelled,
    Lost(LostReason),
    WouldDeadlock,
    Unreachable(String),
    Refused {
        code: String,
        message: String,
    },
    NoQuorum {
        done: usize,
        nodes: usize,
    },
    Closed(String),
    Invalid(String),
}

impl Error {
    pub(crate) fn new(cause: ErrorCause) -> Self {
        Self {
            inner: Arc::new(Inner {
                cause,
                lock: None,
                nodes: Vec::new(),
            }),
        }
    }

    pub(crate) fn invalid(why: impl Into<String>) -> Self {
        Self::new(ErrorCause::Invalid(why.into()))
    }

    pub(crate) fn closed(why: impl Into<String>) -> Self {
        Self::new(ErrorCause::Closed(why.into()))
    }

    pub(crate) fn unreachable(why: impl Into<String>) -> Self {
        Self::new(ErrorCause::Unreachable(why.into()))
    }

    pub(crate) fn lost(reason: LostReason) -> Self {
        Self::new(ErrorCause::Lost(reason))
    }

    /// Fewer than a majority of that many nodes.
    pub(crate) fn no_quorum(done: usize, nodes: usize) -> Self {
        Self::new(ErrorCause::NoQuorum { done, nodes })
    }

    /// The same error, about that lock.
    pub(crate) fn of(self, name: &Arc<str>) -> Self {
        Self {
            inner: Arc::new(Inner {
                cause: self.inner.cause.clone(),
                lock: Some(name.clone()),
                nodes: self.inner.nodes.clone(),
            }),
        }
    }

    /// The same error, about that lock if it is about none.
    pub(crate) fn of_whole(self, name: &Arc<str>) -> Self {
        match self.inner.lock {
            Some(_) => self,
            None => self.of(name),
        }
    }

    /// The same error, with what the members answered.
    pub(crate) fn with_nodes(self, nodes: Vec<NodeError>) -> Self {
        Self {
            inner: Arc::new(Inner {
                cause: self.inner.cause.clone(),
                lock: self.inner.lock.clone(),
                nodes,
            }),
        }
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match &self.inner.cause {
            ErrorCause::TimedOut { .. } => ErrorKind::TimedOut,
            ErrorCause::Cancelled => ErrorKind::Cancelled,
            ErrorCause::Lost(_) => ErrorKind::Lost,
            ErrorCause::WouldDeadlock => ErrorKind::WouldDeadlock,
            ErrorCause::Unreachable(_) => ErrorKind::Unreachable,
            ErrorCause::Refused { .. } => ErrorKind::Refused,
            ErrorCause::NoQuorum { .. } => ErrorKind::NoQuorum,
            ErrorCause::Closed(_) => ErrorKind::Closed,
            ErrorCause::Invalid(_) => ErrorKind::Invalid,
        }
    }

    /// The lock it is about, if it is about one.
    pub fn lock_name(&self) -> Option<&str> {
        self.inner.lock.as_deref()
    }

    /// How long the call waited ([`ErrorKind::TimedOut`]).
    pub fn waited(&self) -> Option<Duration> {
        match self.inner.cause {
            ErrorCause::TimedOut { waited, .. } => Some(waited),
            _ => None,
        }
    }

    /// How long the holder's lease still ran when it was last seen ([`ErrorKind::TimedOut`]; `None`: it has no end).
    pub fn holder_remaining(&self) -> Option<Duration> {
        match self.inner.cause {
            ErrorCause::TimedOut { remaining, .. } => remaining,
            _ => None,
        }
    }

    /// Why the hold is over ([`ErrorKind::Lost`]).
    pub fn lost_reason(&self) -> Option<LostReason> {
        match self.inner.cause {
            ErrorCause::Lost(reason) => Some(reason),
            _ => None,
        }
    }

    /// The server's own word ([`ErrorKind::Refused`]): `WRONGTYPE`, `NOPERM`, `OOM` …
    ///
    /// `NOPERM` for every right that is missing, also where a server says `ERR`. Ours are `VERSION` (the server is too
    /// old) and `TLS`.
    ///
    /// A store (`file:`) says `OOM` and `NOPERM` too, and besides: `FOREIGN` (a directory that is no store, or one of
    /// programs built otherwise), `CORRUPT`, `REMOVED` (under our hands: connect again), `INUSE` (begun before this
    /// machine was started, or half removed, and still used), `NAMESPACE` (of another time namespace), `NETWORKFS`,
    /// `FORKED` (by a process that has it open), `BROKEN` (start the process again), and the system's words: `ENOSPC`,
    /// `EROFS`, `EACCES`, `ENOENT`, `ENOTDIR`, `EMFILE`; `EIO` for all others.
    pub fn code(&self) -> Option<&str> {
        match &self.inner.cause {
            ErrorCause::Refused { code, .. } => Some(code),
            _ => None,
        }
    }

    /// The members of a [`MultiLock`](crate::MultiLock) or nodes of a [`Quorum`](crate::Quorum) that failed, each with its own
    /// error; empty for an error of one lock.
    pub fn nodes(&self) -> &[NodeError] {
        &self.inner.nodes
    }

    /// Whether the same call may work a moment later.
    pub fn is_transient(&self) -> bool {
        match &self.inner.cause {
            ErrorCause::TimedOut { .. }
            | ErrorCause::Unreachable(_)
            | ErrorCause::NoQuorum { .. } => true,
            ErrorCause::Refused { code, .. } => refusal_passes(code),
            _ => false,
        }
    }
}

/// Whether a server that answers with this word may answer otherwise soon.
pub(crate) fn refusal_passes(code: &str) -> bool {
    const PASSING: [&str; 11] = [
        "BUSY",
        "LOADING",
        "READONLY",
        "MOVED",
        "ASK",
        "TRYAGAIN",
        "CLUSTERDOWN",
        "MASTERDOWN",
        "NOREPLICAS",
        "MISCONF",
        "OOM",
    ];
    PASSING.contains(&code)
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(match failure {
            Failure::NotSent(why) | Failure::Unknown(why) => ErrorCause::Unreachable(why),
            Failure::Refused { code, message } => ErrorCause::Refused { code, message },
            Failure::Closed(why) => ErrorCause::Closed(why),
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(name) = &self.inner.lock {
            let colon = matches!(self.inner.cause, ErrorCause::Invalid(_));
            write!(f, "lock {name:?}{} ", if colon { ":" } else { "" })?;
        }
        let named = self.inner.lock.is_some();
        match &self.inner.cause {
            ErrorCause::TimedOut { waited, remaining } => {
                write!(
                    f,
                    "{}busy for {waited:.1?}",
                    if named { "was " } else { "" }
                )?;
                match remaining {
                    Some(left) => write!(
                        f,
                        "; its holder's lease runs another {left:.1?} unless it is renewed"
                    ),
                    None => write!(f, "; its holder's lease has no end"),
                }
            }
            ErrorCause::Cancelled => write!(
                f,
                "{}cancelled while waiting",
                if named { "was " } else { "" }
            ),
            ErrorCause::Lost(reason) => {
                write!(f, "{}lost: {reason}", if named { "was " } else { "" })
            }
            ErrorCause::WouldDeadlock => {
                write!(
                    f,
                    "{}held by the same owner already: the call would wait for itself",
                    if named { "is " } else { "" }
                )
            }
            ErrorCause::Unreachable(why) => {
                write!(f, "{}unreachable: {why}", if named { "is " } else { "" })
            }
            ErrorCause::Refused { code, message } => {
                write!(
                    f,
                    "{}refused: {code} {message}",
                    if named { "was " } else { "" }
                )
            }
            ErrorCause::NoQuorum { done, nodes } => {
                write!(
                    f,
                    "{}no quorum: {done} of {nodes} nodes, and {} are needed",
                    if named { "has " } else { "" },
                    nodes / 2 + 1
                )?;
                for node in &self.inner.nodes {
                    write!(f, "; {}: {}", node.node, node.error)?;
                }
                Ok(())
            }
            ErrorCause::Closed(why) => {
                write!(f, "{}{why}", if named { "cannot be used: " } else { "" })
            }
            ErrorCause::Invalid(why) => {
                write!(f, "{why}")
            }
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.kind())
            .field("text", &self.to_string())
            .finish()
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_names_the_lock_and_what_happened() {
        let error = Error::lost(LostReason::TakenOver).of(&Arc::from("orders/42"));

        assert_eq!(
            error.to_string(),
            "lock \"orders/42\" was lost: somebody else has it"
        );
        assert_eq!(error.lost_reason(), Some(LostReason::TakenOver));
        assert_eq!(error.lock_name(), Some("orders/42"));
    }

    #[test]
    fn only_errors_that_can_pass_are_transient() {
        let refused = |code: &str| {
            Error::from(Failure::Refused {
                code: code.into(),
                message: String::new(),
            })
        };

        assert!(refused("LOADING").is_transient());
        assert!(!refused("NOPERM").is_transient());
        assert!(Error::unreachable("no route").is_transient());
        assert!(!Error::invalid("empty name").is_transient());
    }
}
