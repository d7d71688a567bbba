//! The lock that many readers share, or one writer has.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::coordination::Alive;
use crate::coordination::waiting::exchange::exchange;
use crate::coordination::waiting::{Patience, Request};
use crate::error::{Error, LostReason, Result};
use crate::guard::Guard;
use crate::kind::{Read, Write};
use crate::options::Reentry;
use crate::owner::Owner;
use crate::protocol::rw_lock::{ReadScheme, WriteScheme};
use crate::sync::lock::Lock;

/// The read side of a [`RwLock`], as a lock.
pub type ReadLock = Lock<Read>;

/// The write side of a [`RwLock`], as a lock.
pub type WriteLock = Lock<Write>;

/// A hold of the read side of a [`RwLock`]: others may read too.
pub type ReadGuard = Guard<Read>;

/// A hold of the write side of a [`RwLock`]: nobody else reads or writes.
pub type WriteGuard = Guard<Write>;

/// A handle to a lock that many readers share, or one writer has: cheap, cloneable, configured by methods that return it.
///
/// An owner that writes may read too, and may go on reading after it has written ([`downgrade`](Guard::downgrade)). The
/// other way round it would wait for itself: a write by an owner that reads is
/// [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock).
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use ferrolock::Client;
///
/// let client = Client::memory();
/// let catalog = client.rw_lock("catalog");
///
/// let first = catalog.read().await?;
/// let second = catalog.read().await?; // readers share it
/// assert!(catalog.try_write().await?.is_none());
/// first.unlock().await?;
/// second.unlock().await?;
///
/// let writing = catalog.write().await?;
/// assert!(catalog.try_read().await?.is_none());
///
/// let reading = writing.downgrade().await?; // nobody wrote in between
/// assert!(catalog.try_read().await?.is_some());
/// reading.unlock().await?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock does nothing until `read` or `write` is called"]
pub struct RwLock {
    /// Has the options of both sides.
    read: ReadLock,
    prefers_writers: bool,
}

/// The options that a [`Lock`] has.
macro_rules! options {
    ($($(#[$doc:meta])* $option:ident($value:ident: $type:ty);)+) => {
        $($(#[$doc])*
        pub fn $option(mut self, $value: $type) -> Self {
            self.read = self.read.$option($value);
            self
        })+
    };
}

impl RwLock {
    pub(crate) fn new(alive: Arc<Alive>, name: &str) -> Self {
        let prefers_writers = false;
        let read = Lock::of_scheme(alive, name, |name| {
            Ok(Arc::new(ReadScheme::new(name, prefers_writers)))
        });
        Self {
            read,
            prefers_writers,
        }
    }

    /// The name, with the client's key prefix; empty if it is no name.
    pub fn name(&self) -> &str {
        self.read.name()
    }

    /// A writer that waits keeps new readers out, so that readers who overlap for ever do not keep it waiting.
    ///
    /// Give it to all handles of the name: a writer without it tells nobody that it waits, and a reader without it does not
    /// look. Clients in Java never look.
    ///
    /// An owner that reads and comes again as *another* owner waits behind the writer, which waits for it: nested reads
    /// need one owner ([`relock`](Guard::relock), [`Owner::scope`]).
    pub fn prefer_writers(mut self) -> Self {
        self.prefers_writers = true;
        self.read = self
            .read
            .with_scheme(|name| Ok(Arc::new(ReadScheme::new(name, true))));
        self
    }

    options! {
        /// As [`Lock::lease`].
        lease(lease: Duration);
        /// As [`Lock::watchdog_lease`].
        watchdog_lease(lease: Duration);
        /// As [`Lock::max_hold`].
        max_hold(limit: Duration);
        /// As [`Lock::max_wait`], for `read` and `write`.
        max_wait(limit: Duration);
        /// As [`Lock::cancelled_by`].
        cancelled_by(token: &CancellationToken);
        /// As [`Lock::owned_by`].
        owned_by(owner: &Owner);
        /// As [`Lock::label`].
        label(label: impl Into<String>);
    }

    /// Waits until nobody else writes, and reads.
    ///
    /// # Cancel safety
    /// # Errors
    /// Both as for [`Lock::lock`].
    pub fn read(&self) -> impl Future<Output = Result<ReadGuard>> + Send + use<> {
        self.read.lock()
    }

    /// Reads if nobody else writes now. `None`: busy.
    ///
    /// # Cancel safety
    /// # Errors
    /// Both as for [`Lock::try_lock`].
    pub fn try_read(&self) -> impl Future<Output = Result<Option<ReadGuard>>> + Send + use<> {
        self.read.try_lock()
    }

    /// Waits at most this long to read. `None`: busy all the while.
    ///
    /// # Cancel safety
    /// # Errors
    /// Both as for [`Lock::try_lock_for`].
    pub fn try_read_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<ReadGuard>>> + Send + use<> {
        self.read.try_lock_for(wait)
    }

    /// Waits until nobody else reads or writes, and writes.
    ///
    /// # Cancel safety
    /// As for [`Lock::lock`]; with [`prefer_writers`](RwLock::prefer_writers) readers are let in again.
    ///
    /// # Errors
    /// As for [`Lock::lock`]; [`ErrorKind::WouldDeadlock`](crate::ErrorKind::WouldDeadlock) when the owner reads, or begins
    /// to read while it waits here.
    pub fn write(&self) -> impl Future<Output = Result<WriteGuard>> + Send + use<> {
        self.write_lock().lock()
    }

    /// Writes if nobody else reads or writes now. `None`: busy.
    ///
    /// # Cancel safety
    /// # Errors
    /// Both as for [`write`](RwLock::write), except `TimedOut`.
    pub fn try_write(&self) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        self.write_lock().try_lock()
    }

    /// Waits at most this long to write. `None`: busy all the while.
    ///
    /// # Cancel safety
    /// # Errors
    /// Both as for [`write`](RwLock::write), except `TimedOut`.
    pub fn try_write_for(
        &self,
        wait: Duration,
    ) -> impl Future<Output = Result<Option<WriteGuard>>> + Send + use<> {
        self.write_lock().try_lock_for(wait)
    }

    /// The read side as a lock, with the same options: for [`run`](Lock::run), questions, and code for any kind of lock.
    pub fn read_lock(&self) -> ReadLock {
        self.read.clone()
    }

    /// The write side as a lock, with the same options: for [`run`](Lock::run), questions, and code for any kind of lock.
    pub fn write_lock(&self) -> WriteLock {
        let is_preferred = self.prefers_writers;
        self.read
            .with_kind(|name| Ok(Arc::new(WriteScheme::new(name, is_preferred))))
    }
}

impl Guard<Write> {
    /// Goes on reading: nobody can write in between, and readers that wait get in.
    ///
    /// The read hold has the terms of this one, and begins now.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, or without an answer, nothing stays held: the read hold is given back if it was made,
    /// and the write hold if it was not.
    ///
    /// # Errors
    /// As for [`unlock`](Guard::unlock); [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) when the owner has entered the
    /// write side more than once: the other holds would go on writing. The guard is gone then too: its hold is given
    /// back, as by a drop.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
    /// # let client = ferrolock::Client::memory();
    /// let writing = client.rw_lock("catalog").write().await?;
    /// let reading = writing.downgrade().await?;
    ///
    /// assert!(client.rw_lock("catalog").try_read().await?.is_some());
    /// assert!(client.rw_lock("catalog").try_write().await?.is_none());
    /// # reading.unlock().await?; Ok(()) }
    /// ```
    #[expect(clippy::manual_async_fn, reason = "the signature promises `Send`")]
    pub fn downgrade(self) -> impl Future<Output = Result<ReadGuard>> + Send + use<> {
        async move {
            self.ensure_held()?;
            if let Some(hold) = self.hold()
                && !hold.tenure.begin_delay(hold).await?
            {
                let why = "the owner has entered the write side more than once: give the other holds back before";
                return Err(Error::invalid(why).of(hold.tenure.scheme.name()));
            }
            let Some((hold, alive)) = self.give_up_hold() else {
                return Err(Error::lost(LostReason::Removed));
            };
            let (core, tenure) = (&alive.core, &hold.tenure);
            let name = tenure.scheme.name().clone();
            let request = Request::new(
                Arc::new(ReadScheme::instead_of(name, tenure.bearer.clone())),
                tenure.owner.clone(),
                hold.terms,
                tenure.bearer.who.clone(),
                Reentry::Enters,
                Patience::None,
                core.now(),
            );
            let read = exchange(core, &hold, request).await?;
            Ok(Guard::new(read, alive))
        }
    }
}
