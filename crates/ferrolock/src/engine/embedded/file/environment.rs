//! The stores that this process has open, each once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::emulator::lua::Interpreter;
use super::address::StorePlace;
use super::directory::inode_of;
use super::folder::{self, Folder, FolderTry, FoundDirectory, StoreRest};
use super::leaving::LeavingProgress;
use super::map::{Map, OpenedMap};
use super::process_end::ProcessEnds;
use super::refused;
use super::rows::Inode;
use super::store::{Effects, Store};
use super::turn::Turn;
use super::wakes::{Sender, Socket};
use crate::engine::{Clock, Failure, KEEPER_THREAD, Signal, Tick, unpoisoned};
use crate::protocol::call::{Call, Value};

/// How much a store can hold; its file grows as it is used.
const SIZE: usize = 1 << 30;

/// How often opening is tried while other processes use what is left of a store that has to be begun anew.
const TRIES: u32 = 500;
const TRY_EVERY: Duration = Duration::from_millis(2);

/// What came of a try to open a store.
#[derive(Debug)]
pub(super) enum StoreTry {
    Now(&'static Environment),
    Later,
    InUse(StoreRest),
}

/// The stores that this process has open, and the directories in which it is about to open one.
#[derive(Debug)]
struct OpenStores {
    /// By the inode of the file `store`, which no other file gets while it is open: a second path to a directory, by a link or
    /// a mount, leads to the same entry.
    open: Vec<(Inode, &'static Environment)>,
    opening: Vec<Inode>,
}

/// Locked for a look or an entry only: a disk that hangs must not keep this process from other stores.
static TABLE: Mutex<OpenStores> = Mutex::new(OpenStores {
    open: Vec::new(),
    opening: Vec::new(),
});

/// Keeps other threads of this process from opening what is in a directory: LMDB must open a map only once.
struct OnlyThread(Inode);

impl OnlyThread {
    fn in_directory(inode: Inode) -> Option<Self> {
        let opening = &mut unpoisoned(&TABLE).opening;
        if opening.contains(&inode) {
            return None;
        }
        opening.push(inode);
        Some(Self(inode))
    }
}

impl Drop for OnlyThread {
    fn drop(&mut self) {
        unpoisoned(&TABLE).opening.retain(|inode| *inode != self.0);
    }
}

/// Who makes a call, and how.
#[derive(Debug, Default)]
pub(super) struct StoreCaller {
    /// Where the file `store` is by the path that the client gave; `None`: where it was found.
    pub(super) at: Option<Arc<Path>>,
    /// The client for which the store has to record that it belongs to this process.
    pub(super) client: Option<Box<str>>,
    /// From this time on the call is not made.
    pub(super) late: Option<Tick>,
    /// The waiting thread makes the call: the calling thread must not hang with a disk that hangs.
    pub(super) is_in_no_hurry: bool,
}

/// A store that is open, for as long as the process lives.
#[derive(Debug)]
pub(super) struct Environment {
    pub(super) turn: Turn<Store>,
    sender: Sender,
    process_ends: ProcessEnds,
    /// How long a call takes, in nanoseconds, smoothed.
    call_nanos: AtomicU64,
    process: u32,
    /// Whether this process has given it up, because a part of it was removed.
    is_over: Arc<AtomicBool>,
    pub(super) leaving: LeavingProgress,
    directory: Inode,
}

impl Environment {
    /// The store of that place. Waits for another process that is about to begin it, for as long as `is_wanted`.
    pub(super) fn open(
        place: &StorePlace,
        is_wanted: impl Fn() -> bool,
    ) -> Result<&'static Self, Failure> {
        let mut in_use = 0;
        while is_wanted() {
            match Self::open_sized(place, SIZE)? {
                StoreTry::Now(environment) => return Ok(environment),
                StoreTry::InUse(rest) if in_use == TRIES => {
                    return Err(folder::still_used(place, rest));
                }
                StoreTry::InUse(_) => in_use += 1,
                StoreTry::Later => {}
            }
            nap();
        }
        Err(Failure::NotSent("nobody waits for the store".to_owned()))
    }

    /// Never waits for another process.
    pub(super) fn open_sized(place: &StorePlace, size: usize) -> Result<StoreTry, Failure> {
        let Some(found) = Folder::find(place)? else {
            return Ok(StoreTry::Later);
        };
        if let Some(known) = Self::known(&found)? {
            return Ok(StoreTry::Now(known));
        }
        let Some(_alone) = OnlyThread::in_directory(found.directory.inode()) else {
            return Ok(StoreTry::Later);
        };
        // Another thread may have opened it between the two looks.
        if let Some(known) = Self::known(&found)? {
            return Ok(StoreTry::Now(known));
        }
        let directory = found.directory.inode();
        match Folder::open(found, size)? {
            FolderTry::Open(folder, opened) => Self::of(*folder, opened),
            FolderTry::Later => Ok(StoreTry::Later),
            FolderTry::InUse(_) if Self::is_left_in(directory) => Ok(StoreTry::Later),
            FolderTry::InUse(rest) => Ok(StoreTry::InUse(rest)),
        }
    }

    /// Whether this process itself is about to leave a store in that directory that was removed: a client that connects again
    /// must not have to wait until another client of this process makes a call and notices the removal.
    fn is_left_in(directory: Inode) -> bool {
        let table = unpoisoned(&TABLE);
        let known: Vec<_> = table.open.iter().map(|(_, known)| *known).collect();
        drop(table);
        let mut there = known
            .into_iter()
            .filter(|known| known.directory == directory);
        there.any(Self::notices)
    }

    /// That store, if this process has it open.
    fn known(found: &FoundDirectory) -> Result<Option<&'static Self>, Failure> {
        let Some(store) = &found.store else {
            return Ok(None);
        };
        let inode = inode_of(store)?;
        let table = unpoisoned(&TABLE);
        let known = table.open.iter().find(|(of, _)| *of == inode);
        match known.filter(|(_, environment)| !environment.is_over()) {
            Some((_, environment)) => environment.check_process().map(|()| Some(*environment)),
            None => Ok(None),
        }
    }

    fn of(folder: Folder, opened: OpenedMap) -> Result<StoreTry, Failure> {
        let parts = || {
            let (sender, interpreter) = (Sender::open(folder.sessions())?, Interpreter::new()?);
            Ok((sender, interpreter, folder.turn()?, folder.turn()?))
        };
        let (sender, interpreter, ours, waits) = match parts() {
            // It is being removed just now.
            Err(Failure::Refused { code, .. }) if code == "ENOENT" => return Ok(StoreTry::Later),
            parts => parts?,
        };
        // From here on nothing can fail: a map that is open, and in no table, could not be opened again.
        let (inode, is_over) = (folder.store_inode(), folder.over());
        let directory = folder.directory_inode();
        let store = Store::new(folder, Map::of(opened), interpreter);
        let environment: &'static Self = Box::leak(Box::new(Self {
            sender,
            turn: Turn::new(ours, waits, store),
            process_ends: ProcessEnds::default(),
            call_nanos: AtomicU64::new(0),
            process: std::process::id(),
            is_over,
            leaving: LeavingProgress::default(),
            directory,
        }));
        let mut table = unpoisoned(&TABLE);
        // One that was given up may have had the same file.
        table.open.retain(|(of, _)| *of != inode);
        table.open.push((inode, environment));
        Ok(StoreTry::Now(environment))
    }

    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// A map and a thread do not survive a fork.
    pub(super) fn check_process(&self) -> Result<(), Failure> {
        if self.process == std::process::id() {
            return Ok(());
        }
        Err(refused(
            "FORKED",
            "this process was forked from one that has the store open: start a program (exec) before using it",
        ))
    }

    /// Runs a call; also returns whether the store now has the client's process.
    pub(super) async fn call(
        &'static self,
        caller: StoreCaller,
        call: Call,
    ) -> (Result<Value, Failure>, bool) {
        let is_for_later = caller.is_in_no_hurry;
        let work = move |store: &mut Store| {
            if caller.late.is_some_and(|late| Clock::Boot.now() >= late) {
                return (Err(too_late()), Effects::default());
            }
            store.call(caller.at.as_deref(), caller.client.as_deref(), &call)
        };
        let begun = Clock::Boot.now();
        let tried = match is_for_later {
            true => Err(work),
            false => self.turn.now(work),
        };
        let work = match tried {
            Ok((reply, effects)) => {
                self.measured(Clock::Boot.now().since(begun));
                return (reply, self.finish(effects));
            }
            Err(work) => work,
        };
        let (tell, told) = oneshot::channel();
        let _place = self.turn.later(Box::new(move |store| {
            let (reply, effects) = work(store);
            Box::new(move || {
                let knows_client = self.finish(effects);
                // The caller may have given up.
                let _ = tell.send((reply, knows_client));
            })
        }));
        told.await.unwrap_or_else(|_| (Err(no_thread()), false))
    }

    /// Runs the work in a turn of its own: here and now, or if the turn is taken, on the waiting thread.
    pub(super) async fn perform<R: Send + 'static>(
        &'static self,
        work: impl FnOnce(&mut Store) -> Result<R, Failure> + Send + 'static,
    ) -> Result<R, Failure> {
        let work = match self.turn.now(work) {
            Ok(done) => {
                self.leave_if_over();
                return done;
            }
            Err(work) => work,
        };
        let (tell, told) = oneshot::channel();
        let _place = self.turn.later(Box::new(move |store| {
            let done = work(store);
            Box::new(move || {
                self.leave_if_over();
                let _ = tell.send(done);
            })
        }));
        told.await.unwrap_or_else(|_| Err(no_thread()))
    }

    /// The same, without waiting for the result.
    pub(super) fn post(&'static self, work: impl FnOnce(&mut Store) + Send + 'static) {
        if self.check_process().is_err() {
            return;
        }
        let tried = match is_keeper() {
            true => Err(work),
            false => self.turn.now(work),
        };
        if let Err(work) = tried {
            let place = self.turn.later(Box::new(move |store| {
                work(store);
                Box::new(|| {})
            }));
            place.stays();
        }
    }

    /// Logs and sends what a call left to be done after its turn; returns whether the store has the client's process.
    fn finish(&'static self, effects: Effects) -> bool {
        self.leave_if_over();
        for (lock, owner) in &effects.freed {
            tracing::info!(%lock, %owner, "the process that held the lock has ended: the lock is free");
        }
        let deaf = self.sender.deliver(effects.mail);
        if !deaf.is_empty() {
            self.post(move |store| {
                // At worst they are counted as listeners a little longer.
                let _ = store.remove_deaf(&deaf);
            });
        }
        for (channel, session) in effects.in_the_way {
            self.wake_at_end_of(channel.as_bytes().to_vec(), &session);
        }
        effects.knows_client
    }

    /// Wakes the listeners of the channel here when that session has ended.
    fn wake_at_end_of(&'static self, channel: Vec<u8>, session: &str) {
        if !self.process_ends.add(session, channel) {
            return;
        }
        let file = self.turn.look(|store| store.to_wait_for(session));
        self.process_ends
            .start_waiting(session, file, move |channels| {
                for channel in channels {
                    self.wake(&channel, b"0");
                }
            });
    }

    /// The last listener of that channel in this process has left.
    pub(super) fn forget(&self, channel: &[u8]) {
        self.process_ends.forget(channel);
    }

    /// Receives what other processes send to that session, for the listeners here.
    pub(super) fn hear(&'static self, session: &str) -> std::io::Result<Socket> {
        let hears = |channel: &[u8], payload: &[u8]| self.wake(channel, payload);
        self.sender.listen(session, hears)
    }

    fn wake(&self, channel: &[u8], payload: &[u8]) {
        let listeners: Vec<_> = self.turn.look(|store| store.listeners(channel).collect());
        for listener in listeners {
            listener.hear(Signal::Message(payload.to_vec()));
        }
    }

    pub(super) fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        self.turn.look(Store::lifeline)
    }

    /// Why a call did not get its turn: called after its caller gave up, when the call may have left the line.
    pub(super) fn trouble(&self) -> Option<Failure> {
        let who = match self.turn.holder() {
            Some(process) if process != self.process => format!("process {process}"),
            _ if self.turn.is_waited_for() => "another process".to_owned(),
            _ => return None,
        };
        Some(Failure::NotSent(format!(
            "the store is held by {who}, which may be stopped"
        )))
    }

    /// Notes how long a call took that ran on its caller's thread.
    fn measured(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.call_nanos.load(Ordering::Relaxed);
        let smoothed = before - before / 8 + nanos / 8;
        self.call_nanos.store(smoothed, Ordering::Relaxed);
    }

    pub(super) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.call_nanos.load(Ordering::Relaxed))
    }
}

/// Whether this is the keeper's thread: it also ends clients, after it has sent their last release.
fn is_keeper() -> bool {
    std::thread::current().name() == Some(KEEPER_THREAD)
}

#[expect(
    clippy::disallowed_methods,
    reason = "on the thread that opens a store and does nothing else; another process is about to be done"
)]
fn nap() {
    std::thread::sleep(TRY_EVERY);
}

fn too_late() -> Failure {
    Failure::NotSent("the store was held by another process for too long".to_owned())
}

fn no_thread() -> Failure {
    Failure::Unknown("the thread that waits for the store gave no answer".to_owned())
}
