//! The stores that this process has open, each once.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::lua::Interpreter;
use super::address::Place;
use super::folder::{Entry, Folder};
use super::map::Map;
use super::mourning::Mourning;
use super::refused;
use super::rows::Inode;
use super::store::{Aftermath, Store};
use super::turn::Turn;
use super::wakes::{Post, Socket};
use crate::engine::{Clock, Failure, Signal, Tick, unpoisoned};
use crate::protocol::script::{Call, Value};

/// How much a store can hold; its file grows as it is used.
const SIZE: usize = 1 << 30;

/// How often a store of another boot that somebody still uses is tried.
const TRIES: u32 = 500;
const TRY_EVERY: Duration = Duration::from_millis(2);

/// What came of a try to open a store.
#[derive(Debug)]
pub(super) enum Opened {
    Now(&'static Environment),
    Later,
    InUse,
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
    turn: Turn<Store>,
    post: Post,
    mourning: Mourning,
    /// How long a call takes, in nanoseconds, smoothed.
    call_nanos: AtomicU64,
    process: u32,
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
                Opened::InUse if in_use == TRIES => return Err(still_used(place)),
                Opened::InUse => in_use += 1,
                Opened::Later => {}
            }
            nap();
        }
        Err(Failure::NotSent("nobody waits for the store".to_owned()))
    }

    /// Never waits: whoever opens another store must not have to.
    pub(super) fn open_sized(place: &Place, size: usize) -> Result<Opened, Failure> {
        /// By the inode of the file `store`, which stays taken while it is here: a second way to a directory, by a
        /// link or a mount, leads to the same entry.
        static OPEN: Mutex<Vec<(Inode, &Environment)>> = Mutex::new(Vec::new());
        let mut open = unpoisoned(&OPEN);
        let (path, inode, store) = Folder::find(place)?;
        if let Some((_, environment)) = open.iter().find(|(of, _)| *of == inode) {
            environment.check_process()?;
            return Ok(Opened::Now(environment));
        }
        let (folder, opening) = match Folder::open(path, store, size)? {
            Entry::Open(folder, opening) => (*folder, opening),
            Entry::Later => return Ok(Opened::Later),
            Entry::InUse => return Ok(Opened::InUse),
        };
        let (post, interpreter) = (Post::open(folder.sessions())?, Interpreter::new()?);
        let (ours, waits) = (folder.turn()?, folder.turn()?);
        // From here on nothing can fail: a map that is open, and in no table, could not be opened again.
        let store = Store::new(folder, Map::of(opening), interpreter);
        let environment: &'static Self = Box::leak(Box::new(Self {
            post,
            turn: Turn::new(ours, waits, store),
            mourning: Mourning::default(),
            call_nanos: AtomicU64::new(0),
            process: std::process::id(),
        }));
        open.push((inode, environment));
        Ok(Opened::Now(environment))
    }

    /// A map and a thread do not survive a fork.
    fn check_process(&self) -> Result<(), Failure> {
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
                return (Err(too_late()), Aftermath::default());
            }
            store.call(asking.at.as_deref(), asking.client.as_deref(), &call)
        };
        let begun = Clock::Boot.now();
        let tried = match is_for_later {
            true => Err(work),
            false => self.turn.now(work),
        };
        let work = match tried {
            Ok((reply, after)) => {
                self.measured(Clock::Boot.now().since(begun));
                return (reply, self.finish(after));
            }
            Err(work) => work,
        };
        let (tell, told) = oneshot::channel();
        let _place = self.turn.later(Box::new(move |store| {
            let (reply, after) = work(store);
            Box::new(move || {
                let knows_client = self.finish(after);
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
            Ok(done) => return done,
            Err(work) => work,
        };
        let (tell, told) = oneshot::channel();
        let _place = self.turn.later(Box::new(move |store| {
            let done = work(store);
            Box::new(move || {
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
        if let Err(work) = self.turn.now(work) {
            let place = self.turn.later(Box::new(move |store| {
                work(store);
                Box::new(|| {})
            }));
            place.stays();
        }
    }

    /// Says what a call has to say, now that its turn is over; whether its client is known.
    fn finish(&'static self, after: Aftermath) -> bool {
        if let Some((lock, owner)) = &after.freed {
            tracing::info!(%lock, %owner, "the process that held the lock has ended: the lock is free");
        }
        let deaf = self.post.deliver(after.mail);
        if !deaf.is_empty() {
            self.post(move |store| {
                // At worst they are counted as listeners a little longer.
                let _ = store.are_deaf(&deaf);
            });
        }
        if let Some((channel, session)) = after.in_the_way {
            self.mourn(channel, &session);
        }
        after.knows_client
    }

    /// Wakes whoever listens to the channel here when that session has ended.
    fn mourn(&'static self, channel: Vec<u8>, session: &str) {
        if !self.mourning.is_new(session, channel) {
            return;
        }
        let file = self.turn.look(|store| store.to_wait_for(session));
        self.mourning.begin(session, file, move |channels| {
            for channel in channels {
                self.wake(&channel, b"0");
            }
        });
    }

    /// Nobody listens to that channel here any more.
    pub(super) fn forget(&self, channel: &[u8]) {
        self.mourning.forget(channel);
    }

    /// Hears what other processes send to that session, for the ears here.
    pub(super) fn hear(&'static self, session: &str) -> std::io::Result<Socket> {
        let hears = |channel: &[u8], payload: &[u8]| self.wake(channel, payload);
        self.post.listen(session, hears)
    }

    fn wake(&self, channel: &[u8], payload: &[u8]) {
        let ears: Vec<_> = self.turn.look(|store| store.ears(channel).collect());
        for ear in ears {
            ear.hear(Signal::Message(payload.to_vec()));
        }
    }

    pub(super) fn lifeline(&self) -> Option<std::os::fd::OwnedFd> {
        self.turn.look(Store::lifeline)
    }

    /// Why calls do not get their turn.
    pub(super) fn trouble(&self) -> Option<Failure> {
        if !self.turn.is_waited_for() {
            return None;
        }
        let who = match self.turn.holder() {
            Some(process) if process != self.process => format!("process {process}"),
            _ => "another process".to_owned(),
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

#[expect(
    clippy::disallowed_methods,
    reason = "on the thread that opens a store and does nothing else; another process is about to be done"
)]
fn nap() {
    std::thread::sleep(TRY_EVERY);
}

fn still_used(place: &Place) -> Failure {
    refused(
        "INUSE",
        format!(
            "{} was begun before this machine was started, and somebody still uses it (another machine or kernel?): end that, or use another directory",
            place.path.display()
        ),
    )
}

fn too_late() -> Failure {
    Failure::NotSent("the store was held by another process for too long".to_owned())
}

fn no_thread() -> Failure {
    Failure::Unknown("the thread that waits for the store gave no answer".to_owned())
}
