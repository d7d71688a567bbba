//! The kinds of lock that stories run with, and what a story must know to be true of each of them.
//!
//! A new kind is a variant here with its row in each `match`, a variant in `locks.rs`, and a line in `of_each_kind!`
//! (`stories.rs`). Stories that are not true of it get rows in `left_out.rs`.

use std::fmt;
use std::time::Duration;

use ferrolock::{Client, MultiLock, Quorum};
use testkit::LIMIT;

use super::locks::TestLock;
use super::ms;

/// The kind of lock that a story runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockKind {
    Plain,
    Fair,
    Fenced,
    Spin,
    /// The read side of a read-write lock. The other of two clients writes: readers do not exclude each other.
    Read,
    Write,
    /// The write side, of a writer that keeps new readers out while it waits.
    Preferred,
    /// Three plain locks of one client, which can be taken in one call.
    Multi,
    /// A plain lock, a fair one and the write side of a third, which are taken one by one.
    Mixed,
    /// On three engines.
    Quorum,
    /// A plain lock, erased: a lock without a name.
    Any,
}

/// How the parts of a lock make one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    One,
    /// The two sides of a read-write lock.
    Sides,
    /// Held if all of them are.
    All,
    /// Held if most of them are.
    Majority,
}

use LockKind::{Any, Fair, Fenced, Mixed, Multi, Plain, Preferred, Read, Spin, Write};

impl LockKind {
    pub(crate) const ALL: [Self; 11] = [
        Plain,
        Fair,
        Fenced,
        Spin,
        Read,
        Write,
        Preferred,
        Multi,
        Mixed,
        Self::Quorum,
        Any,
    ];

    /// A handle to the lock of that name. A quorum needs a client on each of its engines, all others have one client.
    pub(crate) fn lock(self, clients: &[Client], name: &str) -> TestLock {
        let client = clients.first().expect("a client");
        match self {
            Plain => TestLock::Plain(client.lock(name)),
            Fair => TestLock::Fair(client.fair_lock(name)),
            Fenced => TestLock::Fenced(client.fenced_lock(name)),
            Spin => TestLock::Spin(client.spin_lock(name)),
            Read => TestLock::Read(client.rw_lock(name).read_lock()),
            Write => TestLock::Write(client.rw_lock(name).write_lock()),
            Preferred => TestLock::Write(client.rw_lock(name).prefer_writers().write_lock()),
            Multi | Mixed => {
                let parts = self.parts_of(clients, name);
                let all: MultiLock = parts.iter().cloned().map(TestLock::erase).collect();
                TestLock::Multi(all, parts)
            }
            Self::Quorum => {
                // Machines stand still now and then, and no story is about the time limit of a node.
                let quorum = Quorum::new(clients.iter().cloned()).node_limit(LIMIT);
                TestLock::Quorum(quorum.lock(name))
            }
            Any => TestLock::Any(client.lock(name).erase(), client.lock(name)),
        }
    }

    /// The locks that it is made of, each of one name on one engine.
    pub(crate) fn parts_of(self, clients: &[Client], name: &str) -> Vec<TestLock> {
        let client = clients.first().expect("a client");
        let part = |kind: Self, name: &str| kind.lock(clients, name);
        match self {
            Plain | Fair | Fenced | Spin => vec![part(self, name)],
            Any => vec![part(Plain, name)],
            Read | Write => vec![part(Read, name), part(Write, name)],
            Preferred => {
                let preferring = client.rw_lock(name).prefer_writers();
                vec![
                    TestLock::Read(preferring.read_lock()),
                    TestLock::Write(preferring.write_lock()),
                ]
            }
            Multi | Mixed => {
                let kinds = match self {
                    Multi => [Plain; 3],
                    _ => [Plain, Fair, Write],
                };
                let names = self.names(name);
                let parts = kinds.into_iter().zip(&names);
                parts.map(|(kind, name)| part(kind, name)).collect()
            }
            Self::Quorum => {
                let on = |client: &Client| TestLock::Fenced(client.fenced_lock(name));
                clients.iter().map(on).collect()
            }
        }
    }

    pub(crate) fn parts(self) -> Parts {
        match self {
            Plain | Fair | Fenced | Spin | Any => Parts::One,
            Read | Write | Preferred => Parts::Sides,
            Multi | Mixed => Parts::All,
            Self::Quorum => Parts::Majority,
        }
    }

    /// The names that a lock of that name takes, in the order in which it takes them.
    pub(crate) fn names(self, name: &str) -> Vec<String> {
        match self {
            Multi | Mixed => ["", "/b", "/c"].map(|end| format!("{name}{end}")).into(),
            _ => vec![name.to_owned()],
        }
    }

    /// On how many engines it is.
    pub(crate) fn engines(self) -> usize {
        match self.parts() {
            Parts::Majority => 3,
            Parts::One | Parts::Sides | Parts::All => 1,
        }
    }

    /// How many of them it can do without.
    pub(crate) fn spare(self) -> usize {
        (self.engines() - 1) / 2
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Plain => "plain",
            Fair => "fair",
            Fenced => "fenced",
            Spin => "spin",
            Read => "read",
            Write => "write",
            Preferred => "preferred",
            Multi => "multi",
            Mixed => "mixed",
            Self::Quorum => "quorum",
            Any => "erased",
        }
    }

    /// The kind that a process was told to use.
    pub(crate) fn of_name(name: &str) -> Self {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == name);
        kind.unwrap_or_else(|| panic!("no kind of lock: {name}"))
    }

    /// The kind that excludes this one: that of the other of two clients.
    pub(crate) fn opposite(self) -> Self {
        match self {
            Read => Write,
            other => other,
        }
    }

    /// What leads to a grant where, for the plain lock, that cause does; `None`: it cannot be seen.
    pub(crate) fn cause(self, plain: &str) -> Option<&str> {
        match (self, plain) {
            (Spin, "confirmed" | "message") => Some("safety_poll"),
            // It asks so often that it may ask between the end of a lease and the time at which it knew of that end.
            (Spin, "lease_end") => None,
            // It waits for one of its nodes at a time, and asks all of them anew each second. That it is woken shows in
            // paused time, where it has no time for that.
            (Self::Quorum, "message" | "lease_end" | "own_release") => None,
            (Self::Quorum, "safety_poll") => Some("confirmed"),
            // The message of its own client comes first.
            (Fair | Write | Preferred, "own_release") => Some("message"),
            _ => Some(plain),
        }
    }

    /// How much later than a waiter of the plain lock a waiter of this kind may ask.
    pub(crate) fn pause(self) -> Duration {
        match self {
            Spin => ms(128),
            _ => Duration::ZERO,
        }
    }

    /// Whether each waiter has a place of its own on the server, and makes an attempt for it when it comes.
    pub(crate) fn has_places(self) -> bool {
        matches!(self, Fair | Preferred)
    }

    /// Whether a future that was polled once is offered the lock when it is free. What is taken in several steps is not: no step
    /// follows the first without a poll.
    pub(crate) fn is_offered_unpolled(self) -> bool {
        !matches!(self, Multi | Self::Quorum)
    }

    /// What it does not rely on of a lease, besides the margin of every lock.
    pub(crate) fn drift(self, lease: Duration) -> Duration {
        match self {
            Self::Quorum => lease / 100 + ms(2),
            _ => Duration::ZERO,
        }
    }

    /// Whether each key with the name of a part is a hash that has a field for each holder and no others.
    pub(crate) fn is_a_hash_of_holders(self) -> bool {
        match self {
            Plain | Fair | Fenced | Spin | Multi | Self::Quorum | Any => true,
            Read | Write | Preferred | Mixed => false,
        }
    }

    /// What another holder has under the key with the name of a part.
    pub(crate) fn fields_of(self, holder: &str) -> Vec<String> {
        match self.parts() {
            Parts::Sides => ["mode", "write", &format!("{holder}:write"), "1"]
                .map(str::to_owned)
                .into(),
            _ => vec![holder.to_owned(), "1".to_owned()],
        }
    }

    /// Whether a key with this name stays after the release.
    pub(crate) fn keeps(self, key: &str) -> bool {
        match self {
            Fenced | Self::Quorum => key.starts_with("redisson_lock_token:"),
            // Signs of life of processes, for a minute at most; no waiter's.
            Fair | Mixed => ["ferrolock_fair_clients:", "ferrolock_fair_amnesty:"]
                .iter()
                .any(|sign| key.starts_with(sign)),
            _ => false,
        }
    }
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} lock", self.name())
    }
}
