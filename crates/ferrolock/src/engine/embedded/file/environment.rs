//! The stores that this process has open, each once.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::emulator::lua::Interpreter;
use super::address::Place;
use super::directory::inode_of;
use super::folder::{self, Entry, Folder, Found, Rest};
use super::leaving::Leaving;
use super::map::{Map, Opening};
use super::process_end::ProcessEnds;
use super::refused;
use super::rows::Inode;
use super::store::{Effects, Store};
use super::turn::Turn;
use super::wakes::{Sender, Socket};
use crate::engine::{Clock, Failure, KEEPER_THREAD, Signal, Tick, unpoisoned};
use crate::protocol::script::{Call, Value};

/// How much a store can hold; its file grows as it is used.
const SIZE: usize = 1 << 30;

/// How often a store is tried that could be begun anew if nobody used it.
const TRIES: u32 = 500;
const TRY_EVERY: Duration = Duration::from_millis(2);

/// What came of a try to open a store.
#[derive(Debug)]
pub(super) enum Opened {
    Now(&'static Environment),
    Later,
    InUse(Rest),
}

/// The stores that this process has open, and the directories in which it is about to open one.
#[derive(Debug)]
struct Table {
    /// By the inode of the file `store`, which stays taken while it is here: a second way to a directory, by a link or a
    /// mount, leads to the same entry.
    open: Vec<(Inode, &'static Environment)>,
    opening: Vec<Inode>,
}

/// Held for a look or an entry only: a disk that stands still must not keep this process from other stores.
static TABLE: Mutex<Table> = Mutex::new(Table {
    open: Vec::new(),
    opening: Vec::new(),
});

/// Keeps other threads of this process from opening what is in a directory: LMDB must open a map only once.
struct Alone(Inode);

impl Alone {
    fn in_directory(inode: Inode) -> Option<Self> {
        let opening = &mut unpoisoned(&TABLE).opening;
        if opening.contains(&inode) {
            return None;
        }
        opening.push(inode);
        Some(Self(inode))
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        unpoisoned(&TABLE).opening.retain(|inode| *inode != self.0);
    }
}

/// Who asks, and how.
#[derive(Debug, Default)]
pub(super) struct Asking {
    /// Where the store's file is by the path that was asked for; `None`: where it was found.
    pub(super) at: Option<Arc<Path>>,
    /// The client whose process is to be written down.
    pub(super) client: Option<Box<str>>,
    /// When the call is not to be made any more.
    pub(super) late: Option<Tick>,
    /// It goes to the thread that waits: whoever asks must not stand still for a disk that does.
    pub(super) is_in_no_hurry: bool,
}

/// A store that is open; for as long as the process lives.
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
    pub(super) leaving: Leaving,
    directory: Inode,
}

impl Environment {
    /// The store of that place. Takes as long as another process needs that is just about to begin it, unless nobody wants
    /// it any more.
    pub(super) fn open(
        place: &Place,
        is_wanted: impl Fn() -> bool,
    ) -> Result<&'static Self, Failure> {
        let mut in_use = 0;
        while is_wanted() {
            match Self::open_sized(place, SIZE)? {
                Opened::Now(environment) => return Ok(environment),
                Opened::InUse(rest) if in_use == TRIES => {
                    return Err(folder::still_used(place, rest));
                }
                Opened::InUse(_) => in_use += 1,
                Opened::Later => {}
            }
            nap();
        }
        Err(Failure::NotSent("nobody waits for the store".to_owned()))
    }

    /// Never waits for another process.
    pub(super) fn open_sized(place: &Place, size: usize) -> Result<Opened, Failure> {
        let Some(found) = Folder::find(place)? else {
            return Ok(Opened::Later);
        };
        if let Some(known) = Self::known(&found)? {
            return Ok(Opened::Now(known));
        }
        let Some(_alone) = Alone::in_directory(found.directory.inode()) else {
            return Ok(Opened::Later);
        };
        // Another thread may have opened it between the two looks.
        if let Some(known) = Self::known(&found)? {
            return Ok(Opened::Now(known));
        }
        let directory = found.directory.inode();
        match Folder::open(found, size)? {
            Entry::Open(folder, opening) => Self::of(*folder, opening),
            Entry::Later => Ok(Opened::Later),
            Entry::InUse(_) if Self::is_left_in(directory) => Ok(Opened::Later),
            Entry::InUse(rest) => Ok(Opened::InUse(rest)),
        }
    }

    /// Whether this process itself is about to leave what was a store in that directory: whoever connects again must not have to
    /// wait until another client of this process makes a call and notices.
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
    fn known(found: &Found) -> Result<Option<&'static Self>, Failure> {
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

    fn of(folder: Folder, opening: Opening) -> Result<Opened, Failure> {
        let parts = || {
            let (sender, interpreter) = (Sender::open(folder.sessions())?, Interpreter::new()?);
            Ok((sender, interpreter, folder.turn()?, folder.turn()?))
        };
        let (sender, interpreter, ours, waits) = match parts() {
            // Somebody removes it just now.
            Err(Failure::Refused { code, .. }) if code == "ENOENT" => return Ok(Opened::Later),
            parts => parts?,
        };
        // From here on nothing can fail: a map that is open, and in no table, could not be opened again.
        let (inode, is_over) = (folder.store_inode(), folder.over());
        let directory = folder.directory_inode();
        let store = Store::new(folder, Map::of(opening), interpreter);
        let environment: &'static Self = Box::leak(Box::new(Self {
            sender,
            turn: Turn::new(ours, waits, store),
            process_ends: ProcessEnds::default(),
            call_nanos: AtomicU64::new(0),
            process: std::process::id(),
            is_over,
            leaving: Leaving::default(),
            directory,
        }));
        let mut table = unpoisoned(&TABLE);
        // One that was given up may have had the same file.
        table.open.retain(|(of, _)| *of != inode);
        table.open.push((inode, environment));
        Ok(Opened::Now(environment))
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

    /// Runs a call; and whether it is written down now to which process its client belongs.
    pub(super) async fn call(
        &'static self,
        asking: Asking,
        call: Call,
    ) -> (Result<Value, Failure>, bool) {
        let is_for_later = asking.is_in_no_hurry;
        let work = move |store: &mut Store| {
            if asking.late.is_some_and(|late| Clock::Boot.now() >= late) {
                return (Err(too_late()), Effects::default());
            }
            store.call(asking.at.as_deref(), asking.client.as_deref(), &call)
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
                // Whoever asked may be gone.
                let _ = tell.send((reply, knows_client));
            })
        }));
        told.await.unwrap_or_else(|_| (Err(no_thread()), false))
    }

    /// Does it in a turn of its own, here and now if nobody else is inside.
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

    /// The same when nobody waits for it.
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

    /// Says what a call has to say, now that its turn is over; whether its client is known.
    fn finish(&'static self, effects: Effects) -> bool {
        self.leave_if_over();
        for (lock, owner) in &effects.freed {
            tracing::info!(%lock, %owner, "the process that held the lock has ended: the lock is free");
        }
        let deaf = self.sender.deliver(effects.mail);
        if !deaf.is_empty() {
            self.post(move |store| {
                // At worst they are counted as listeners a little longer.
                let _ = store.are_deaf(&deaf);
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

    /// Nobody listens to that channel here any more.
    pub(super) fn forget(&self, channel: &[u8]) {
        self.process_ends.forget(channel);
    }

    /// Hears what other processes send to that session, for the listeners here.
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

    /// Why a call did not get its turn: asked when it was given up, and may have left the line.
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

    /// A call that ran here and now took so long.
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

/// It ends clients too, whose last release it has sent.
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
