//! The client: connects, makes handles to locks, and shuts down.

mod builder;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use self::builder::ClientBuilder;
use crate::coordination::{Alive, Core, unpoisoned};
use crate::engine::Lane;
use crate::error::{Error, Result};
use crate::kind::Plain;
use crate::options::check_wait;
use crate::protocol::key_type;
use crate::sync::fair_lock::FairLock;
use crate::sync::fenced_lock::FencedLock;
use crate::sync::lock::Lock;
use crate::sync::rw_lock::RwLock;
use crate::sync::spin_lock::SpinLock;

/// A connection to where the locks are. Cheap to clone; put it in your application's state.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::Client;
///
/// let client = Client::connect("memory:").await?; // across machines: "redis://localhost"
/// let guard = client.lock("orders/42").lock().await?;
/// guard.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Client {
    alive: Arc<Alive>,
}

impl Client {
    /// Connects now: a bad address, password or database shows here; a right that is missing, at the first call that
    /// needs it.
    ///
    /// | address | who can share a lock |
    /// |---|---|
    /// | `memory:` | tasks and threads that use this client, or a clone of it; another `memory:` is another space |
    /// | `memory:NAME` | all clients of this process with that name |
    /// | `file:PATH` | all processes of this user on this machine (Linux); the path of a directory, made if it is missing |
    /// | `redis://[user:password@]host[:port][/database]` | machines; also Valkey |
    /// | `rediss://…` | the same over TLS (feature `tls`) |
    /// | `unix:PATH` | a server's Unix socket |
    ///
    /// # Errors
    /// `Invalid` for a bad address, `Unreachable`, `Refused` for a wrong password or database, or a server that is too
    /// old.
    pub async fn connect(url: impl AsRef<str>) -> Result<Client> {
        let builder = Client::builder().url(url);
        builder.connect().await
    }

    /// A private space inside this process; cannot fail. For tests, with the same scripts as on a server.
    ///
    /// In a `tokio` test with paused time it follows that time, decided at the first call; pausing later is not
    /// followed.
    #[cfg(feature = "embedded")]
    pub fn memory() -> Client {
        let engine = crate::engine::embedded::MemoryEngine::open(None);
        Client::of(Core::new(engine, crate::options::Settings::default(), None))
    }

    /// Settings before connecting.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    pub(crate) fn of(core: Arc<Core>) -> Client {
        Client {
            alive: Alive::new(core),
        }
    }

    pub(crate) fn alive(&self) -> &Arc<Alive> {
        &self.alive
    }

    /// Without credentials.
    pub(crate) fn address(&self) -> &str {
        self.alive.core.engine.address()
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.alive.core
    }

    /// The uuid in front of its owners' numbers, as the server shows them.
    pub fn id(&self) -> &str {
        &self.alive.core.id
    }

    /// A handle to the reentrant lock of that name.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        Lock::<Plain>::new(self.alive.clone(), name.as_ref())
    }

    /// A handle to the fair lock of that name: first come, first served, also across processes and with Redisson.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> FairLock {
        FairLock::new(self.alive.clone(), name.as_ref())
    }

    /// A handle to the fenced lock of that name: its guards have [fences](crate::Fence).
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        FencedLock::new(self.alive.clone(), name.as_ref())
    }

    /// A handle to the read-write lock of that name.
    pub fn rw_lock(&self, name: impl AsRef<str>) -> RwLock {
        RwLock::new(self.alive.clone(), name.as_ref())
    }

    /// A handle to the spin lock of that name, for servers and proxies without pub/sub.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> SpinLock {
        SpinLock::new(self.alive.clone(), name.as_ref())
    }

    /// Asks the server for a sign of life and returns the time it took; for health checks.
    ///
    /// # Errors
    /// `Unreachable`, `Refused`, `Closed`.
    pub fn ping(&self) -> impl Future<Output = Result<Duration>> + Send + use<> {
        let alive = self.alive.clone();
        async move {
            let core = &alive.core;
            core.check_open()?;
            let name = format!("{}ferrolock_ping", core.settings.key_prefix);
            let begun = core.now();
            core.ask(Lane::Commands, None, key_type::ask(&name.into()))
                .await?;
            Ok(core.now().since(begun))
        }
    }

    /// The file that shows other processes that this one lives, to be shared with a child process. Only for `file:`.
    ///
    /// There, the locks of a process are free as soon as the process has ended, however it ended. A child that was given
    /// this handle (as one of its standard streams, say) and keeps it open puts that off until it has ended too. The child
    /// does not renew: leases end as they always do. `None` before the first call of a client that connects lazily; and
    /// after the last client of a process is gone, its handle no longer has an effect.
    #[cfg(unix)]
    pub fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        self.alive.core.engine.lifeline()
    }

    /// Ends the client: fails waiters, notifies holders, and waits for holders at most `limit`.
    ///
    /// New calls and waiters get [`ErrorKind::Closed`](crate::ErrorKind::Closed) at once, and every guard's token
    /// fires. Holds stay good and are renewed while their holders finish; what is still held at the limit becomes
    /// [`LostReason::ShutDown`](crate::LostReason::ShutDown) and is left to its lease, not released under running work:
    /// from then on nothing is sent for it, also when its guard is unlocked or dropped later.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the client stays closed to new calls and holds go on.
    ///
    /// # Errors
    /// `Closed`, naming the locks that were left to their leases; `Invalid` for an absurd limit.
    pub fn shutdown(&self, limit: Duration) -> impl Future<Output = Result<()>> + Send + use<> {
        let alive = self.alive.clone();
        async move {
            check_wait("a limit", limit)?;
            let core = &alive.core;
            core.begin_closing();
            core.shutdown(limit).await
        }
    }
}

impl Core {
    async fn shutdown(self: &Arc<Self>, limit: Duration) -> Result<()> {
        let tenures = unpoisoned(&self.names).tenures();
        tenures.iter().for_each(|tenure| tenure.warn());
        let core = self.clone();
        let until = self.now().after(limit);
        let waited = self.runtime()?.spawn(async move {
            core.until(until, core.quiet()).await;
        });
        // If the runtime has ended, there is no wait.
        let _ = waited.await;
        let mut left = self.keeper().lose_all(self);
        self.close_when_quiet();
        if left.is_empty() {
            return Ok(());
        }
        left.sort_unstable();
        left.dedup();
        Err(Error::closed(format!(
            "the client was shut down; left to their leases: {}",
            left.join(", ")
        )))
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.alive.core;
        f.debug_struct("Client")
            .field("address", &core.engine.address())
            .field("id", &core.id)
            .finish_non_exhaustive()
    }
}
