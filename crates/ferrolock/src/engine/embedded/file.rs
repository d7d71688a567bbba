//! `file:PATH`: a server in a directory, shared by all processes of a user on one machine.
//!
//! The keys lie in a table that every process has mapped (`map`, `rows`), in a `directory` with a header and other
//! `parts` (`folder`, `header`); a thread opens it for all clients that wait for it (`openings`), once in a process
//! (`environment`). One process at a time has the `turn` and runs a script as the memory engine does, on the keys that
//! the call names or asks for (`store`). Other processes that listen are woken through sockets (`wakes`). The locks of a
//! process that has ended are freed by the next call for them (`session`, `dead`), and their waiters are woken
//! (`process_end`). A process that notices that a part of the store was removed loses its locks there (`leaving`).

mod address;
mod dead;
mod directory;
mod environment;
mod expiry;
mod folder;
mod header;
mod leaving;
#[cfg(test)]
pub(super) mod lone;
mod map;

mod openings;
mod parts;
mod process_end;
mod rows;
mod session;
mod store;
#[cfg(test)]
mod tests;
mod turn;
mod wakes;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::Mutex;

pub(crate) use self::address::StorePlace;
use self::environment::{Environment, StoreCaller};
use self::leaving::Loser;
use self::openings::opened;
use super::memory::shut_down;
use crate::engine::{
    Boxed, Calling, Clock, Engine, Failure, Lane, Listener, LoseAll, Subscription, unpoisoned,
};
use crate::protocol::call::{Call, Value};
use crate::protocol::scheme::is_acquire;

/// How often a client tries to enter a store that is removed each time before it could.
const ENTRIES_MAX: u32 = 100;

/// One client's access to a store.
///
/// Any thread may use it, with a runtime or without. A call runs as a whole when its future is first polled. If another
/// process has the turn, it runs when that is done, unless the future was dropped before.
#[derive(Debug)]
pub(crate) struct FileEngine {
    user: Arc<User>,
    address: String,
}

/// A client as its store sees it.
#[derive(Debug)]
struct User {
    place: StorePlace,
    /// Where the file `store` is, by the path that was given.
    at: Arc<Path>,
    /// An acquire that gets its turn later than this is not made: its caller failed, or is about to fail, because there was no
    /// answer. Waiters try again.
    patience: Duration,
    id: u64,
    /// The client's own id, once there is one.
    client: OnceLock<Box<str>>,
    /// Loses all that the client holds.
    loser: Arc<Loser>,
    /// Whether the store knows to which process that client belongs.
    is_known: AtomicBool,
    /// The store found last, perhaps not entered yet.
    found: std::sync::Mutex<Option<&'static Environment>>,
    environment: OnceLock<&'static Environment>,
    /// Held by the call that opens the store; other calls wait for it.
    opening: Mutex<()>,
    is_closed: AtomicBool,
}

impl FileEngine {
    /// A client whose commands may take as long as `command_limit`.
    pub(crate) fn new(place: StorePlace, command_limit: Duration) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            address: place.address(),
            user: Arc::new(User {
                at: folder::store_path(&place).into(),
                place,
                patience: command_limit / 2,
                id: NEXT.fetch_add(1, Ordering::Relaxed),
                client: OnceLock::new(),
                loser: Arc::default(),
                is_known: AtomicBool::new(false),
                found: std::sync::Mutex::new(None),
                environment: OnceLock::new(),
                opening: Mutex::new(()),
                is_closed: AtomicBool::new(false),
            }),
        })
    }

    /// Opens the store now, or makes it; waits while another process has the turn.
    pub(crate) async fn open(&self) -> Result<(), Failure> {
        self.user.environment().await.map(drop)
    }
}

impl User {
    async fn environment(&self) -> Result<&'static Environment, Failure> {
        if self.is_closed.load(Ordering::Acquire) {
            return Err(shut_down());
        }
        if let Some(environment) = self.environment.get() {
            return Ok(environment);
        }
        let _alone = self.opening.lock().await;
        if let Some(environment) = self.environment.get() {
            return Ok(environment);
        }
        let mut entries = 1;
        let entered = loop {
            let found = self.find().await?;
            match self.enter(found).await {
                // It was removed since it was found.
                Err(Failure::Refused { code, .. })
                    if entries < ENTRIES_MAX && matches!(&*code, "REMOVED" | "ENOENT") =>
                {
                    entries += 1;
                }
                entered => break entered.map(|()| found)?,
            }
        };
        let environment = self.environment.get_or_init(|| entered);
        if self.is_closed.load(Ordering::Acquire) {
            self.leave(environment);
            return Err(shut_down());
        }
        Ok(environment)
    }

    async fn find(&self) -> Result<&'static Environment, Failure> {
        let found = opened(self.place.clone()).await?;
        let before = unpoisoned(&self.found).replace(found);
        if let Some(before) = before.filter(|before| !std::ptr::eq(*before, found)) {
            self.leave(before);
        }
        Ok(found)
    }

    async fn enter(&self, found: &'static Environment) -> Result<(), Failure> {
        let (id, loser) = (self.id, self.loser.clone());
        found.perform(move |store| store.attach(id, loser)).await
    }

    async fn call(self: Arc<Self>, lane: Lane, call: Call) -> Result<Value, Failure> {
        let late = is_acquire(&call).then(|| Clock::Boot.now().after(self.patience));
        let environment = self.environment().await?;
        let is_known = self.is_known.load(Ordering::Relaxed);
        let caller = StoreCaller {
            at: Some(self.at.clone()),
            client: self.client.get().filter(|_| !is_known).cloned(),
            late,
            is_in_no_hurry: lane != Lane::Commands,
        };
        let (reply, knows_client) = environment.call(caller, call).await;
        if knows_client {
            self.is_known.store(true, Ordering::Relaxed);
        }
        // A call that is answered at once must not keep other tasks from running.
        tokio::task::consume_budget().await;
        reply
    }

    async fn listen(
        self: Arc<Self>,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Result<Subscription, Failure> {
        let environment = self.environment().await?;
        let user = self.clone();
        let begun = environment.perform(move |store| {
            // In a turn, so that `close` leaves no listener behind.
            if user.is_closed.load(Ordering::Acquire) {
                return Err(shut_down());
            }
            let bind = |session: &str| environment.hear(session);
            let listening = store.listen(channel.as_bytes(), user.id, listener, bind)?;
            // Made here, so that the listener is removed also when the future of `listen` was dropped.
            Ok(Subscription::new(move || {
                environment.post(move |store| {
                    if store.listen_no_more(channel.as_bytes(), listening) == 0 {
                        environment.forget(channel.as_bytes());
                    }
                });
            }))
        });
        begun.await
    }

    fn leave(&self, environment: &'static Environment) {
        let (id, client) = (self.id, self.client.get().cloned());
        environment.post(move |store| store.detach(id, client.as_deref()));
    }
}

impl Engine for FileEngine {
    fn call(&self, lane: Lane, call: Call) -> Calling {
        Box::pin(self.user.clone().call(lane, call))
    }

    fn ready(&self, _lane: Lane) -> Boxed<()> {
        Box::pin(std::future::ready(()))
    }

    fn reconnected(&self, _lane: Lane) -> Boxed<()> {
        Box::pin(std::future::pending())
    }

    fn trouble(&self) -> Option<Failure> {
        if let Some(environment) = *unpoisoned(&self.user.found) {
            return environment.trouble();
        }
        let process = folder::in_the_way(&self.user.place)?;
        Some(Failure::NotSent(format!(
            "the store is held by process {process}, which may be stopped"
        )))
    }

    fn listen(
        &self,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Boxed<Result<Subscription, Failure>> {
        Box::pin(self.user.clone().listen(channel, listener))
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn round_trip(&self) -> Duration {
        let environment = self.user.environment.get();
        environment.map_or(Duration::ZERO, |environment| environment.round_trip())
    }

    fn introduce(&self, client: &str) {
        let _ = self.user.client.set(client.into());
    }

    fn is_removed(&self) -> bool {
        let environment = self.user.environment.get();
        environment.is_some_and(|environment| environment.is_over())
    }

    fn when_removed(&self, lose_all: LoseAll) {
        self.user.loser.set(lose_all);
    }

    fn lifeline(&self) -> Option<OwnedFd> {
        self.user.environment.get()?.lifeline()
    }

    fn close(&self) {
        if self.user.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        // Also if no future saw it enter: the one that waited for it may have been dropped.
        let found = *unpoisoned(&self.user.found);
        if let Some(environment) = found {
            self.user.leave(environment);
        }
    }
}

impl Drop for FileEngine {
    fn drop(&mut self) {
        self.close();
    }
}

fn refused(code: &str, message: impl Into<String>) -> Failure {
    Failure::Refused {
        code: code.to_owned(),
        message: message.into(),
    }
}
