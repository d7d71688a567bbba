//! Distributed locks on Redis or Valkey, in a directory, or inside one process; shared with Redisson (Java) on a server.
//!
//! ```
//! use ferrolock::Client;
//!
//! #[tokio::main]
//! async fn main() -> ferrolock::Result<()> {
//!     let client = Client::connect("memory:").await?; // across machines: "redis://localhost"
//!
//!     let guard = client.lock("orders/42").lock().await?;
//!     println!("nobody else is here");
//!     guard.unlock().await?;
//!     Ok(())
//! }
//! ```
//!
//! With no server at hand, the processes of one machine share locks in a directory: `file:PATH`. What a process held
//! there is free as soon as it has ended.
//!
//! A [`Client`] connects and hands out locks. A [`Lock`] is a handle to a name: it takes nothing until asked. A
//! [`Guard`] is one hold: given back when dropped, or by [`unlock`](Guard::unlock) if you want the outcome.
//!
//! # Which call?
//!
//! | you want | write |
//! |---|---|
//! | to wait for it | [`lock`](Lock::lock) |
//! | to wait, up to a limit | [`try_lock_for`](Lock::try_lock_for): `None` if it was busy; or [`max_wait`](Lock::max_wait): an error |
//! | not to wait | [`try_lock`](Lock::try_lock): `None` if it is busy |
//! | to work under it and stop when it is lost | [`run`](Lock::run), or [`while_held`](Guard::while_held) with a guard in hand |
//! | to be notified of a loss | [`lost`](Guard::lost) in a `select!`, [`cancellation_token`](Guard::cancellation_token) for code that knows no locks |
//! | to check between two steps | [`ensure_held`](Guard::ensure_held) (the clock, no I/O), [`check`](Guard::check) (asks the server) |
//! | many readers, or one writer | [`Client::rw_lock`] |
//! | a name that stays taken after the work | [`unlock_after`](Guard::unlock_after) |
//! | to see who holds it | [`holders`](Lock::holders), [`remaining`](Lock::remaining) |
//!
//! # Which lock?
//!
//! | you want | use |
//! |---|---|
//! | one holder of a name | [`Client::lock`] |
//! | that, first come, first served, across processes | [`Client::fair_lock`] |
//! | that, and numbers by which a resource refuses late writes | [`Client::fenced_lock`] |
//! | that, on a server or proxy without pub/sub | [`Client::spin_lock`] |
//! | several names at once, all or none | [`Lock::and`], [`MultiLock`] |
//! | a lock that survives the loss of a server | [`Quorum`] (a majority of three or five; there is no quorum semaphore) |
//! | locks of several kinds in one list | [`Lock::erase`], [`AnyLock`] |
//!
//! # How long
//!
//! A hold is renewed by a thread of its own while its guard lives, also while the holder computes without an `await`.
//! Each renewal asks for the client's [`watchdog_lease`](ClientBuilder::watchdog_lease), 30 s: the name stays taken that
//! long after a crash. [`lease`](Lock::lease) gives a fixed time instead, which is never renewed;
//! [`max_hold`](Lock::max_hold) ends the renewing. A lease is at least 200 ms.
//!
//! # Who holds
//!
//! Every acquisition has a new owner unless you give one, so two tasks never share a lock by accident. To enter again a
//! lock that you hold: [`Owner::scope`] around the work, [`owned_by`](Lock::owned_by) on the handle, or
//! [`relock`](Guard::relock) on a guard. Each guard is one hold; the lock is free when the last one is gone.
//!
//! # What is promised, and what no lock can
//!
//! While the process runs, a loss is visible before the server's lease can end. After a pause of the process the first
//! check already says lost. A pause between a check and the write it was made for cannot be seen by any lock: the
//! resource must refuse late writes itself. The whole list is `docs/guarantees.md` in the repository.
//!
//! # Errors
//!
//! Not getting a lock is `Ok(None)`. An [`Error`] has a [`kind`](Error::kind), named for what the caller can do:
//!
//! | kind | it means | the caller |
//! |---|---|---|
//! | [`TimedOut`](ErrorKind::TimedOut) | busy for the whole `max_wait` | tries later |
//! | [`Cancelled`](ErrorKind::Cancelled) | the token of `cancelled_by` fired | goes on |
//! | [`Lost`](ErrorKind::Lost) | we had it, and no longer have it | stops, and does not write |
//! | [`WouldDeadlock`](ErrorKind::WouldDeadlock) | a non-reentrant lock taken again by its owner; a write by an owner that reads | mends the program |
//! | [`Unreachable`](ErrorKind::Unreachable) | no answer within the limit; a call that was sent is taken care of | tries later |
//! | [`Refused`](ErrorKind::Refused) | the server said no: a right, a type, its memory | calls the operator |
//! | [`NoQuorum`](ErrorKind::NoQuorum) | fewer than a majority of a [`Quorum`] could be had | tries later, by what [`nodes`](Error::nodes) says |
//! | [`Closed`](ErrorKind::Closed) | shut down, or the client's runtime has ended | ends |
//! | [`Invalid`](ErrorKind::Invalid) | a bad name, duration or address | mends the call |
//!
//! # Pitfalls
//!
//! | what one writes | what happens |
//! |---|---|
//! | `let _ = lock.lock().await?;` | released at once, without a warning: write `let _guard` |
//! | `if lock.try_lock().await?.is_some() { … }` | released before the body: write `if let Some(_guard) = …` |
//! | `let _guard = client.lock("x");` | never locked: that is the handle |
//! | the same task locks twice without an owner | waits for itself |
//! | one [`Owner`] in two tasks | both hold the lock at once: an owner is for one piece of work, never for a whole service |
//! | `Client::connect("memory:")` twice | two spaces, whose locks know nothing of each other: one client, or `memory:NAME` |
//! | `lock.lock()` made anew in each turn of a `select!` loop | loses its place each turn: pin one outside of the loop |
//! | one `static` client for many `#[tokio::test]`s | its runtime ends with the first test: [`Closed`](ErrorKind::Closed) |
//! | a client made in a current-thread runtime that is not driven (outside of `block_on`) | all waiting of that client stands still, in other runtimes too: give it one that runs, with [`runtime`](ClientBuilder::runtime) |
//! | `mem::forget(guard)` | renewed until the process ends, or `max_hold` |
//!
//! # Testing your code
//!
//! `Client::memory()` is the test double: the same scripts, no server. Two clients on `memory:NAME` are two
//! processes. In a test with paused time it follows that time, so a lease of an hour costs nothing:
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! use std::time::Duration;
//! use ferrolock::{Client, LostReason};
//!
//! // Inside `#[tokio::test(start_paused = true)]`:
//! let guard = Client::memory().lock("x").lease(Duration::from_secs(3600)).lock().await?;
//! assert_eq!(guard.lost().await, LostReason::Expired);
//! # Ok::<(), ferrolock::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Ending
//!
//! [`Client::shutdown`] fails waiters, notifies holders by their tokens and waits for them. Without it, dropping the
//! last handle of a client waits up to 250 ms for releases that are on their way.
//!
//! # Features
//!
//! | feature | default | brings |
//! |---|---|---|
//! | `redis` | yes | `redis://`, `unix:` |
//! | `embedded` | yes | `memory:`, on Linux `file:`; builds Lua and LMDB, which needs a C compiler |
//! | `tls` | no | `rediss://` |
//! | `metrics` | no | counters and histograms through the `metrics` crate |
//!
//! Needs Rust 1.88. Servers: Redis from 7.0, Valkey from 7.2; tested on Redis 7.0.15 and Valkey 9.1.

#![cfg_attr(
    not(all(feature = "redis", feature = "embedded")),
    allow(
        dead_code,
        reason = "each engine uses its own part of what lies above and below it"
    )
)]

mod back_off;
mod client;
mod coordination;
mod engine;
mod error;
mod fence;
mod figures;
mod guard;
mod inspect;
pub mod kind;
mod name;
mod options;
mod owner;
mod primitives;
mod protocol;
mod sync;
#[cfg(test)]
mod testing;

pub use tokio_util::sync::CancellationToken;

pub use back_off::BackOff;
pub use client::{Client, ClientBuilder};
#[cfg(feature = "tls")]
pub use engine::redis::Tls;
pub use error::{Error, ErrorKind, LostReason, NodeError, Result};
pub use fence::{Fence, FenceGate, StaleFence};
pub use guard::{AnyGuard, Guard, HoldState, Unlocked};
pub use inspect::{Holder, Remaining};
pub use name::LockName;
pub use owner::{Owner, OwnerId};
#[cfg(feature = "redis")]
pub use redis;
pub use sync::any_lock::AnyLock;
pub use sync::fair_lock::FairLock;
pub use sync::fenced_lock::{FencedGuard, FencedLock};
pub use sync::lock::Lock;
pub use sync::multi_lock::MultiLock;
pub use sync::quorum::Quorum;
pub use sync::quorum_lock::QuorumLock;
pub use sync::rw_lock::{ReadGuard, ReadLock, RwLock, WriteGuard, WriteLock};
pub use sync::spin_lock::SpinLock;

/// The README's programs, so that they are run with the other examples.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// A handle is no future: `lock` and `try_lock` say what is meant.
///
/// ```compile_fail
/// # async fn orders(client: ferrolock::Client) {
/// let guard = client.lock("orders").await;
/// # }
/// ```
#[cfg(doctest)]
struct AHandleIsNotAwaited;

/// The grants of a plain lock have no numbers.
///
/// ```compile_fail
/// # async fn orders(client: ferrolock::Client) {
/// let guard = client.lock("orders").lock().await.unwrap();
/// let fence = guard.fence();
/// # }
/// ```
#[cfg(doctest)]
struct APlainGuardHasNoFence;

/// A plain lock has no readers that a holder could become.
///
/// ```compile_fail
/// # async fn orders(client: ferrolock::Client) {
/// let guard = client.lock("orders").lock().await.unwrap();
/// let reading = guard.downgrade().await;
/// # }
/// ```
#[cfg(doctest)]
struct APlainGuardIsNotDowngraded;

/// Several names are forced open one by one.
///
/// ```compile_fail
/// # async fn orders(client: ferrolock::Client) {
/// let both = client.lock("orders").and(client.lock("stock"));
/// let freed = both.force_unlock().await;
/// # }
/// ```
#[cfg(doctest)]
struct AMultiLockIsNotForcedOpen;

/// The waiters of a plain lock are woken, and do not ask again and again.
///
/// ```compile_fail
/// # async fn orders(client: ferrolock::Client) {
/// let lock = client.lock("orders").back_off(ferrolock::BackOff::default());
/// # }
/// ```
#[cfg(doctest)]
struct APlainLockHasNoBackOff;
