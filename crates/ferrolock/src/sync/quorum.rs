//! A majority of independent servers, in the place of one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::client::Client;
use crate::coordination::holding::bundle::Enough;
use crate::engine::{Boxed, Lane};
use crate::error::{Error, NodeError, Result};
use crate::guard::gather::gather;
use crate::guard::members::done_with;
use crate::options::check_time;
use crate::protocol::fenced_lock::initialise;
use crate::sync::quorum_lock::{NodeLocks, QuorumLock};

/// How long a node may take for its answer.
const NODE_LIMIT: Duration = Duration::from_millis(150);
/// How much the speeds of two clocks may differ.
const DRIFT_PER_MILLE: u32 = 10;
const DRIFT_PER_MILLE_MAX: u32 = 200;
/// Of two nodes one is no majority: such a quorum would be worse than one server.
const NODES_MIN: usize = 3;

/// Several independent servers: a lock is held by whoever has a majority of them, so it survives the loss of a minority.
///
/// Stands where a [`Client`] stands. The servers must not copy each other's data: each is a server of its own. Three or five
/// are usual; fewer than three are [`Invalid`](crate::ErrorKind::Invalid) at first use.
///
/// # Not promised
/// A node that loses its data (restarted without them, flushed) forgets its holds: if as many nodes do that within one lease as
/// make the difference, two holders are possible. [`rejoin_after`](Quorum::rejoin_after) keeps such a node out until all
/// holds that it may have forgotten have ended.
///
/// There is no quorum semaphore: permits that each server counts by itself cannot be told apart across servers, so more of them
/// could be taken than there are.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::Quorum;
///
/// // In earnest: "redis://a", "redis://b", "redis://c"
/// let quorum = Quorum::connect(["memory:", "memory:", "memory:"]).await?;
/// let guard = quorum.lock("ledger").lock().await?;
/// println!("fence {}", guard.fence());
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
#[must_use = "a quorum does nothing by itself: call `lock`"]
pub struct Quorum {
    clients: Arc<[Client]>,
    limits: NodeLimits,
}

/// What is asked of each node.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLimits {
    pub(super) answer: Duration,
    pub(super) drift_per_mille: u32,
    /// How old the data of a node must be.
    pub(super) age: Option<Duration>,
}

impl Quorum {
    /// A quorum of these clients, each of a server of its own.
    pub fn new(clients: impl IntoIterator<Item = Client>) -> Quorum {
        Quorum {
            clients: clients.into_iter().collect(),
            limits: NodeLimits {
                answer: NODE_LIMIT,
                drift_per_mille: DRIFT_PER_MILLE,
                age: None,
            },
        }
    }

    /// Connects to these servers; content with a majority: the others are connected to when they can be.
    ///
    /// # Errors
    /// `Invalid` for a bad address, or fewer than three; `NoQuorum` with the answer of each server that cannot be had.
    pub async fn connect<U: AsRef<str>>(urls: impl IntoIterator<Item = U>) -> Result<Quorum> {
        let urls: Vec<String> = urls
            .into_iter()
            .map(|url| url.as_ref().to_owned())
            .collect();
        check_count(urls.len())?;
        let lazily: Result<Vec<Client>> = urls
            .iter()
            .map(|url| Client::builder().url(url).connect_lazy())
            .collect();
        let mut clients = lazily?;
        let work = urls.into_iter().map(|url| {
            let connecting = async move { Client::builder().url(url).connect().await };
            Box::pin(connecting) as Boxed<Result<Client>>
        });
        let enough = Enough::MajorityOf(clients.len());
        let mut failed = Vec::new();
        let mut done = 0;
        for (client, result) in clients.iter_mut().zip(gather(work, enough.need()).await) {
            match result {
                Some(Ok(connected)) => {
                    *client = connected;
                    done += 1;
                }
                Some(Err(error)) => failed.push(NodeError::new(client.address(), error)),
                None => {}
            }
        }
        if done < enough.need() {
            return Err(Error::no_quorum(done, clients.len()).with_nodes(failed));
        }
        Ok(Quorum::new(clients))
    }

    /// How long a node may take for its answer before it counts as silent: 150 ms, and never more than a tenth of the lease.
    pub fn node_limit(mut self, limit: Duration) -> Quorum {
        self.limits.answer = limit;
        self
    }

    /// How much the clocks of two machines may differ in their speed, in thousandths: 10. That part of the lease, and 2 ms, is
    /// not relied on.
    pub fn clock_drift(mut self, per_mille: u32) -> Quorum {
        self.limits.drift_per_mille = per_mille;
        self
    }

    /// Keeps a node that lost its data out for that long: give the longest lease that any holder asks for.
    ///
    /// Each node has a key, `ferrolock_node`, that tells since when it has its data. A node without it grants nothing until that
    /// time has passed. New servers are made nodes at once by [`initialise`](Quorum::initialise).
    ///
    /// Every process that uses the quorum has to set it, to the same time: one that does not never looks at that key, and gets the
    /// lock from a node that the others keep out.
    pub fn rejoin_after(mut self, lease_max: Duration) -> Quorum {
        self.limits.age = Some(lease_max);
        self
    }

    /// Makes all of them nodes at once, also those that are new and empty. Once, for a new set of servers, and never for a
    /// node that came back: its holds may still count.
    ///
    /// # Errors
    /// That of the first server that could not be had, with the list of all.
    pub fn initialise(&self) -> impl Future<Output = Result<()>> + Send + use<> {
        let quorum = self.clone();
        async move {
            quorum.check()?;
            let errands = quorum.clients.iter().map(|client| {
                let core = client.alive().core.clone();
                let call = initialise(&core.settings.key_prefix);
                let asking = core.clone();
                let work = async move { asking.ask(Lane::Commands, None, call).await };
                (core, Box::pin(work) as Boxed<_>)
            });
            let enough = Enough::All(quorum.clients.len());
            done_with(errands.collect(), enough).await.map(drop)
        }
    }

    /// A handle to the lock of that name on a majority of the servers.
    pub fn lock(&self, name: impl AsRef<str>) -> QuorumLock {
        let check = self.check();
        QuorumLock::new(NodeLocks::new(
            &self.clients,
            self.limits,
            name.as_ref(),
            check,
        ))
    }

    /// The clients of its servers.
    pub fn clients(&self) -> &[Client] {
        &self.clients
    }

    fn check(&self) -> Result<()> {
        check_count(self.clients.len())?;
        let usual = || format!("give it some time, {NODE_LIMIT:?} is usual");
        check_time("a node_limit", self.limits.answer, usual)?;
        if let Some(age) = self.limits.age {
            check_time("a rejoin_after", age, || "leave it out".to_owned())?;
        }
        if self.limits.drift_per_mille > DRIFT_PER_MILLE_MAX {
            return Err(Error::invalid(format!(
                "a clock_drift of {} thousandths: the most is {DRIFT_PER_MILLE_MAX}",
                self.limits.drift_per_mille
            )));
        }
        Ok(())
    }
}

fn check_count(nodes: usize) -> Result<()> {
    match nodes {
        NODES_MIN.. => Ok(()),
        few => Err(Error::invalid(format!(
            "a quorum of {few} nodes: the least is {NODES_MIN}"
        ))),
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quorum")
            .field("clients", &self.clients)
            .field("limits", &self.limits)
            .finish()
    }
}
