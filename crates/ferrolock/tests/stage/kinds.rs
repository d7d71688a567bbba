//! The kinds of lock that stories run with, and what a story must know to be true of each of them.
//!
//! A new kind is a variant here with its row in each `match`, a variant in `locks.rs`, and a line in `of_each_kind!`
//! (`stories.rs`). Stories that are not true of it get rows in `left_out.rs`.

use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use ferrolock::{Client, ClientBuilder};

use super::locks::TestLock;
use super::ms;

/// The kind of lock that a story runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Plain,
    Fenced,
    Spin,
    /// A plain lock, erased: a lock without a name.
    Any,
}

impl LockKind {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Fenced, Self::Spin, Self::Any];

    /// A handle to the lock of that name.
    pub(crate) fn lock(self, client: &Client, name: &str) -> TestLock {
        match self {
            Self::Plain => TestLock::Plain(client.lock(name)),
            Self::Fenced => TestLock::Fenced(client.fenced_lock(name)),
            Self::Spin => TestLock::Spin(client.spin_lock(name)),
            Self::Any => TestLock::Any(client.lock(name).erase(), client.lock(name)),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Fenced => "fenced",
            Self::Spin => "spin",
            Self::Any => "erased",
        }
    }

    /// The kind that a process was told to use.
    pub(crate) fn of_name(name: &str) -> Self {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.unwrap_or_else(|| panic!("no kind of lock: {name}"))
    }

    /// What leads to a grant where, for the plain lock, that cause does; `None`: it cannot be seen.
    pub(crate) fn cause(self, plain: &str) -> Option<&str> {
        match (self, plain) {
            (Self::Plain | Self::Fenced | Self::Any, _) => Some(plain),
            (Self::Spin, "confirmed" | "message") => Some("safety_poll"),
            // It asks so often that it may ask between the end of a lease and the time at which it knew of that end.
            (Self::Spin, "lease_end") => None,
            (Self::Spin, _) => Some(plain),
        }
    }

    /// How much later than a waiter of the plain lock a waiter of this kind may ask.
    pub(crate) fn pause(self) -> Duration {
        match self {
            Self::Plain | Self::Fenced | Self::Any => Duration::ZERO,
            Self::Spin => ms(128),
        }
    }

    /// Whether the key with the lock's name is a hash that has a field for each holder and no others.
    pub(crate) fn is_a_hash_of_holders(self) -> bool {
        match self {
            Self::Plain | Self::Fenced | Self::Spin | Self::Any => true,
        }
    }

    /// Whether a key with this name stays after the release.
    pub(crate) fn keeps(self, key: &str) -> bool {
        match self {
            Self::Plain | Self::Spin | Self::Any => false,
            Self::Fenced => key.starts_with("redisson_lock_token:"),
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lock", self.name())
    }
}

/// A client whose locks are of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    client: Client,
    kind: LockKind,
}

impl Party {
    pub(crate) async fn connect(builder: ClientBuilder, kind: LockKind) -> Self {
        let client = builder.connect().await.unwrap();
        Self { client, kind }
    }

    /// In another process: what [`Stage::address`](super::Stage::address) gave to it.
    pub(crate) async fn at(address: &str) -> Self {
        let (kind, url) = address.split_once(' ').expect("a kind and a URL");
        Self::connect(Client::builder().url(url), LockKind::of_name(kind)).await
    }

    pub(crate) fn lock(&self, name: impl AsRef<str>) -> TestLock {
        self.kind.lock(&self.client, name.as_ref())
    }

    pub(crate) fn kind(&self) -> LockKind {
        self.kind
    }
}

/// Of the plain lock.
impl From<Client> for Party {
    fn from(client: Client) -> Self {
        let kind = LockKind::Plain;
        Self { client, kind }
    }
}

impl Deref for Party {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
