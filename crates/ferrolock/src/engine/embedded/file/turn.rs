//! The turn: the right of one process at a time to change the map.
//!
//! Changes are made one at a time, by the process that has the lock of the file `turn`. Mostly it is free, and a call runs on
//! its caller's thread: handing it to another thread and back would cost ten times as much as the call. When another process
//! has the turn, which may be for long if it was stopped then, the call is handed to a thread that waits, and the caller
//! waits for that thread as long as it wants to. A call that its caller gave up meanwhile is not made.

use std::collections::VecDeque;
use std::fmt;
use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::engine::{Clock, unpoisoned};

/// How long a caller tries to get the turn before it hands its call to the waiting thread: other processes mostly need some
/// 10 µs. (Giving up the processor between two tries halved the rate of eight processes on two processors.)
const PATIENCE: Duration = Duration::from_micros(40);
/// How often a caller spins between two tries.
const SPINS: usize = 40;
/// At most this many calls are made in one turn of the waiting thread: other processes want theirs.
const SERVED_MAX: usize = 64;
/// How often the list of the system's file locks is read to find who has one.
const LOOKS: usize = 10;

/// What is done in a turn, and what follows when the turn is over.
pub(super) type Work<S> = Box<dyn FnOnce(&mut S) -> Then + Send>;
pub(super) type Then = Box<dyn FnOnce() + Send>;

/// The state that only the thread that has the turn may use.
pub(super) struct Turn<S: 'static> {
    /// Locked for as long as a change takes, never while a thread waits for another process.
    state: Mutex<S>,
    /// The file over which callers take the lock.
    ours: File,
    /// The file over which the waiting thread takes the lock: opened separately, so that it keeps our own callers out too.
    waits: File,
    line: Mutex<VecDeque<WaitingWork<S>>>,
    in_line: AtomicUsize,
    comes: Condvar,
    /// Whether the waiting thread was started.
    is_served: Mutex<bool>,
}

struct WaitingWork<S> {
    work: Work<S>,
    ticket: Arc<Ticket>,
}

/// Decides which was first: the caller to give up, or the waiting thread to begin.
#[derive(Debug, Default)]
pub(super) struct Ticket(AtomicU8);

const BEGUN: u8 = 1;
const GIVEN_UP: u8 = 2;

impl Ticket {
    fn decide(&self, how: u8) -> bool {
        let decided = self
            .0
            .compare_exchange(0, how, Ordering::AcqRel, Ordering::Acquire);
        decided.is_ok()
    }
}

/// A place in the line: dropped, it gives up work that has not begun.
pub(super) struct LinePlace<S: Send + 'static> {
    turn: &'static Turn<S>,
    ticket: Option<Arc<Ticket>>,
}

impl<S: Send> LinePlace<S> {
    /// Keeps the work in the line: dropping the place no longer gives it up.
    pub(super) fn stays(mut self) {
        self.ticket = None;
    }
}

impl<S: Send> Drop for LinePlace<S> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take().filter(|ticket| ticket.decide(GIVEN_UP)) {
            // Dropping the work may call this module again: not while the line is locked.
            drop(self.turn.leave(&ticket));
        }
    }
}

/// The lock of the turn, given back also when something panics.
struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // The lock is ours, so this does not fail; and if it did, our next turn would still have it.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}

impl<S: Send> Turn<S> {
    pub(super) fn new(ours: File, waits: File, state: S) -> Self {
        Self {
            state: Mutex::new(state),
            ours,
            waits,
            line: Mutex::default(),
            in_line: AtomicUsize::new(0),
            comes: Condvar::new(),
            is_served: Mutex::new(false),
        }
    }

    /// Does the work now, or returns it: the turn is taken, or others wait for it already.
    pub(super) fn now<R, W: FnOnce(&mut S) -> R>(&self, work: W) -> Result<R, W> {
        if self.in_line.load(Ordering::Acquire) > 0 {
            return Err(work);
        }
        let mut state = unpoisoned(&self.state);
        // Our waiting thread may have the turn by now, and need the state.
        if self.is_waited_for() || !self.try_take() {
            return Err(work);
        }
        let _held = Held(&self.ours);
        Ok(work(&mut state))
    }

    fn try_take(&self) -> bool {
        let mut begun = None;
        loop {
            if flock(&self.ours, FlockOperation::NonBlockingLockExclusive).is_ok() {
                return true;
            }
            let now = Clock::Boot.now();
            if now.since(*begun.get_or_insert(now)) >= PATIENCE {
                return false;
            }
            (0..SPINS).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Has the waiting thread do the work in a turn, unless the place is dropped before.
    pub(super) fn later(&'static self, work: Work<S>) -> LinePlace<S> {
        let ticket = Arc::<Ticket>::default();
        self.in_line.fetch_add(1, Ordering::AcqRel);
        unpoisoned(&self.line).push_back(WaitingWork {
            work,
            ticket: ticket.clone(),
        });
        self.comes.notify_one();
        let mut place = LinePlace {
            turn: self,
            ticket: Some(ticket),
        };
        if !self.start_serving() {
            // The work is dropped, so that a caller that waits for its answer fails.
            let ticket = place.ticket.take();
            drop(ticket.and_then(|ticket| self.leave(&ticket)));
        }
        place
    }

    /// Takes the work with that ticket out of the line.
    fn leave(&self, ticket: &Arc<Ticket>) -> Option<WaitingWork<S>> {
        let mut line = unpoisoned(&self.line);
        let at = line
            .iter()
            .position(|waiting| Arc::ptr_eq(&waiting.ticket, ticket))?;
        self.in_line.fetch_sub(1, Ordering::AcqRel);
        line.remove(at)
    }

    /// Starts the waiting thread, if there is none; returns whether there is one now.
    fn start_serving(&'static self) -> bool {
        let mut is_served = unpoisoned(&self.is_served);
        if !*is_served {
            let thread = std::thread::Builder::new().name("ferrolock-store".to_owned());
            *is_served = thread.spawn(|| self.serve()).is_ok();
        }
        *is_served
    }

    fn serve(&'static self) {
        loop {
            let mut line = unpoisoned(&self.line);
            while line.is_empty() {
                line = self
                    .comes
                    .wait(line)
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            drop(line);
            self.wait_for_turn();
            let held = Held(&self.waits);
            let then = self.serve_line();
            drop(held);
            for then in then {
                safely(then);
            }
        }
    }

    fn wait_for_turn(&self) {
        while let Err(error) = flock(&self.waits, FlockOperation::LockExclusive) {
            if error != rustix::io::Errno::INTR {
                // The file system had no lock to give: it may have one later.
                nap();
            }
        }
    }

    fn serve_line(&self) -> Vec<Then> {
        let (mut state, mut then) = (unpoisoned(&self.state), Vec::new());
        for _ in 0..SERVED_MAX {
            let Some(waiting) = ({ unpoisoned(&self.line).pop_front() }) else {
                break;
            };
            if waiting.ticket.decide(BEGUN) {
                then.extend(safely(|| (waiting.work)(&mut state)));
            }
            self.in_line.fetch_sub(1, Ordering::AcqRel);
        }
        then
    }

    /// Reads state that only this process changes; needs no turn.
    pub(super) fn look<R>(&self, look: impl FnOnce(&S) -> R) -> R {
        look(&unpoisoned(&self.state))
    }

    /// Changes state that only this process has; needs no turn.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        change(&mut unpoisoned(&self.state))
    }

    /// The process that has the turn, by `/proc/locks`.
    pub(super) fn holder(&self) -> Option<u32> {
        holder_of(&self.ours.metadata().ok()?)
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.in_line.load(Ordering::Acquire) > 0
    }
}

/// Catches a panic: wakers run code from outside this crate, which must not end the thread that serves all.
pub(super) fn safely<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

#[expect(
    clippy::disallowed_methods,
    reason = "on the thread that waits for the turn and does nothing else"
)]
fn nap() {
    std::thread::sleep(Duration::from_millis(10));
}

impl<S> fmt::Debug for Turn<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Turn")
    }
}

/// The process that alone has the lock of that file.
pub(super) fn holder_of(file: &Metadata) -> Option<u32> {
    process_in_locks(file, &["WRITE"])
}

/// A process that has the lock of that file, alone or with others.
pub(super) fn user_of(file: &Metadata) -> Option<u32> {
    process_in_locks(file, &["READ", "WRITE"])
}

fn process_in_locks(file: &Metadata, kinds: &[&str]) -> Option<u32> {
    // The system gives the list in pieces, and lines are missing when other processes change it meanwhile.
    (0..LOOKS).find_map(|_| {
        let locks = std::fs::read_to_string("/proc/locks").ok()?;
        process_in(&locks, kinds, file.dev(), file.ino())
    })
}

/// `1: FLOCK  ADVISORY  WRITE 42 fe:00:1234 0 EOF`: process 42 has the lock of inode 1234 on device fe:00. Some file systems
/// report another device to programs than in this list.
fn process_in(locks: &str, kinds: &[&str], device: u64, inode: u64) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let (on_device, anywhere) = (
        format!("{major:02x}:{minor:02x}:{inode}"),
        format!(":{inode}"),
    );
    let holder = |is_it: &dyn Fn(&str) -> bool| {
        locks.lines().find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                [_, "FLOCK", _, kind, process, file, ..] if kinds.contains(kind) && is_it(file) => {
                    process.parse().ok().filter(|process| *process > 0)
                }
                _ => None,
            }
        })
    };
    holder(&|file| file == on_device).or_else(|| holder(&|file| file.ends_with(&anywhere)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_that_has_a_lock_is_found_in_proc_locks() {
        let locks = "1: POSIX  ADVISORY  READ  7 fe:00:99 0 EOF\n\
                     2: FLOCK  ADVISORY  WRITE 41 fe:00:12 0 EOF\n\
                     2: -> FLOCK  ADVISORY  WRITE 43 fe:00:12 0 EOF\n\
                     3: FLOCK  ADVISORY  READ  44 fe:00:13 0 EOF\n\
                     4: FLOCK  ADVISORY  WRITE 0 fe:00:14 0 EOF\n\
                     5: FLOCK  ADVISORY  WRITE 45 00:1b:15 0 EOF\n\
                     6: FLOCK  ADVISORY  WRITE 46 fe:00:15 0 EOF\n\
                     7: FLOCK  ADVISORY  WRITE 47 00:1b:16 0 EOF\n";

        let device = rustix::fs::makedev(0xfe, 0);
        let holder = |inode| process_in(locks, &["WRITE"], device, inode);
        assert_eq!(holder(12), Some(41));
        assert_eq!(holder(13), None);
        assert_eq!(holder(14), None);
        assert_eq!(holder(15), Some(46));
        assert_eq!(holder(16), Some(47));
        assert_eq!(holder(2), None);
        let user = |inode| process_in(locks, &["READ", "WRITE"], device, inode);
        assert_eq!(user(12), Some(41));
        assert_eq!(user(13), Some(44));
        assert_eq!(user(99), None);
    }
}
