//! The lock on a majority of independent servers.

mod ballot;
mod mending;
#[cfg(all(test, feature = "embedded"))]
mod tests;

use std::sync::Arc;

use crate::client::Client;
use crate::coordination::holding::bundle::Enough;
use crate::coordination::waiting::Patience;
use crate::engine::Boxed;
use crate::error::Result;
use crate::fence::Fence;
use crate::guard::Guard;
use crate::guard::members::Members;
use crate::kind::Quorum;
use crate::options::LockOptions;
use crate::protocol::fenced_lock::FencedScheme;
use crate::sync::fenced_lock::FencedLock;
use crate::sync::lock::Lock;
use crate::sync::quorum::NodeLimits;
use crate::sync::quorum_lock::ballot::Ballot;
use crate::sync::target::{OneName, Target};

/// A lock that is held by whoever has a majority of the servers of a [`Quorum`](crate::Quorum): it works, and costs no
/// time limit, while a minority of them is down.
///
/// # Guarantees
/// All servers are asked at once. The time that the answers took and the drift of the clocks count against the lease. The hold on
/// each server is renewed by itself, and the guard is held as long as a majority of them is. A server that did not grant, or that
/// lost its hold, is tried again while the guard is held, and joins it. Not so for a guard by [`relock`](Guard::relock): it has
/// the servers that entered it again, and is lost when fewer than a majority of all servers are left of those. Each guard has a
/// [fence](Guard::fence) that grows from grant to grant, over whatever majorities.
///
/// A call that gets fewer than a majority gives back what it got, and waits for a holder as any lock does. If so few servers
/// answer that there can be no majority, it returns [`NoQuorum`](crate::ErrorKind::NoQuorum) at once, with what each of them
/// answered ([`nodes`](crate::Error::nodes)).
///
/// # Cancel safety
/// As for [`lock`](Lock::lock): a dropped future gives back what it has. One that is kept and not polled keeps the servers that
/// have granted: it asks the others, and gives back, only while it is polled, and until then what it has is renewed, or with a
/// fixed lease held to its end. So poll it until it is ready, drop it, or spawn it.
///
/// # Not promised
/// See [`Quorum`](crate::Quorum) for nodes that lose their data.
///
/// Questions (`is_locked`, `remaining`, `holders`) need the answer of a majority, and look at what that majority says:
/// `remaining` is the time after which all of it may be free, `holders` lists what each server shows.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use std::time::Duration;
/// use ferrolock::{Client, Quorum};
///
/// let quorum = Quorum::new([Client::memory(), Client::memory(), Client::memory()]);
/// let lock = quorum.lock("ledger").max_wait(Duration::from_secs(2));
///
/// let guard = lock.lock().await?;
/// let first = guard.fence();
/// guard.unlock().await?;
/// assert!(lock.lock().await?.fence() > first);
/// # Ok(()) }
/// ```
pub type QuorumLock = Lock<Quorum>;

impl Lock<Quorum> {
    pub(super) fn new(nodes: NodeLocks) -> Self {
        Lock::of(Target::Quorum(Arc::new(nodes)))
    }
}

impl Guard<Quorum> {
    /// The number of this grant: larger than that of every grant before it, over whatever majority. A re-entry has that of the
    /// first entry.
    pub fn fence(&self) -> Fence {
        self.granted_fence().unwrap_or(Fence::NONE)
    }
}

/// A name on each node of a quorum.
pub(super) struct NodeLocks {
    pub(super) name: Arc<str>,
    pub(super) nodes: Vec<OneName>,
    /// Where it is, for the order of the members of a multi lock.
    pub(super) addresses: String,
    pub(super) spaces: String,
    limits: NodeLimits,
    check: Result<()>,
}

impl NodeLocks {
    pub(super) fn new(
        clients: &[Client],
        limits: NodeLimits,
        name: &str,
        check: Result<()>,
    ) -> Self {
        let nodes: Vec<OneName> = clients
            .iter()
            .filter_map(|client| node(client, limits, name))
            .collect();
        let full_name = nodes.first().map_or(name, OneName::name).into();
        let (mut addresses, mut spaces) = (String::new(), String::new());
        for (address, space) in nodes.iter().map(OneName::space) {
            addresses = addresses + address + " ";
            spaces = spaces + space + " ";
        }
        Self {
            name: full_name,
            nodes,
            addresses,
            spaces,
            limits,
            check,
        }
    }

    pub(super) fn enough(&self) -> Enough {
        Enough::MajorityOf(self.nodes.len())
    }

    /// The nodes, if they make a quorum.
    pub(super) fn checked(&self) -> Result<&[OneName]> {
        match &self.check {
            Ok(()) => Ok(&self.nodes),
            Err(error) => Err(error.clone()),
        }
    }

    /// Takes a majority, or nothing. `None`: busy, for a call that returns that and no error.
    pub(super) fn acquire(
        self: &Arc<Self>,
        options: &LockOptions,
        patience: Patience,
    ) -> Boxed<Result<Option<Members>>> {
        let (nodes, options) = (self.clone(), options.clone());
        Box::pin(async move {
            let ballot = Ballot::new(&nodes, &options, patience)?;
            ballot.take().await
        })
    }
}

fn node(client: &Client, limits: NodeLimits, name: &str) -> Option<OneName> {
    let alive = client.alive().clone();
    let prefix = client.alive().core.settings.key_prefix.clone();
    let lock = FencedLock::of_scheme(alive, name, |name| {
        Ok(match limits.age {
            Some(age) => Arc::new(FencedScheme::on_node(name, &prefix, age)),
            None => Arc::new(FencedScheme::new(name)),
        })
    });
    lock.into_one_name()
}
