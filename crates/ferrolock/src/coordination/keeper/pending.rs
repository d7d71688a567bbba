//! Work of a client that may go on without a caller: attempts, releases, debts. The connections stay open for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};

use crate::coordination::{Core, unpoisoned};

/// With more releases owed than this, new acquires of the client wait.
const RELEASES_MAX: usize = 4096;
/// The same for acquires whose outcome is unknown: each needed a connection that broke.
const LATE_ACQUIRES_MAX: usize = 65_536;
/// How many releases that no caller awaits are under way at once: a renewal waits for no more than these.
const SENDS_MAX: usize = 128;

/// How much work of a client is pending.
#[derive(Debug)]
pub(crate) struct Pending {
    running: Mutex<PendingCounts>,
    /// So much is owed that new acquires wait; changed with `running`.
    is_full: AtomicBool,
    /// Notified when there is room again.
    room: Notify,
    /// Notified when no release is left that the last handle waits for.
    brief_done: Condvar,
    /// Notified when nothing is owed.
    paid: Notify,
    /// One permit for each release that no caller awaits.
    pub(super) sends: Semaphore,
}

#[derive(Debug, Default)]
struct PendingCounts {
    attempts: usize,
    releases: usize,
    release_debts: usize,
    late_acquires: usize,
    /// The last handle is gone: with the last pending work the connections end.
    abandoned: bool,
    /// The connections have ended, or are about to: nothing more can be owed.
    closed: bool,
    /// A task of the keeper minds the connections for what is owed.
    minded: bool,
    /// Threads that wait until no release is under way. Without one there is nothing to notify: that is a system call.
    waiting: usize,
}

/// A kind of pending work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkKind {
    /// An acquire. When the last handle is dropped, the keeper releases its field: the runtime that the reply comes to may
    /// be blocked by that drop.
    Attempt,
    /// A release, or a grant that is given back unless its caller takes it: the last handle waits a moment for it.
    Release,
    /// A release whose answer stayed out.
    ReleaseDebt,
    /// The field of an acquire whose outcome is unknown.
    LateAcquire,
}

/// One piece of pending work; over when it is dropped.
#[derive(Debug)]
pub(crate) struct PendingWork {
    core: Arc<Core>,
    kind: Mutex<WorkKind>,
}

impl PendingWork {
    pub(crate) fn new(core: &Arc<Core>, kind: WorkKind) -> Self {
        let pending = &core.pending;
        let mut running = unpoisoned(&pending.running);
        *running.of(kind) += 1;
        pending.is_full.store(running.is_full(), Ordering::Relaxed);
        Self {
            core: core.clone(),
            kind: Mutex::new(kind),
        }
    }

    /// From now on it counts as a release: the last handle waits a moment for it.
    pub(crate) fn becomes_release(&self) {
        let mut kind = unpoisoned(&self.kind);
        let pending = &self.core.pending;
        let mut running = unpoisoned(&pending.running);
        let (was_full, was_debt) = (running.is_full(), kind.is_debt());
        *running.of(*kind) -= 1;
        *kind = WorkKind::Release;
        *running.of(*kind) += 1;
        let is_full = running.is_full();
        pending.is_full.store(is_full, Ordering::Relaxed);
        let is_paid = was_debt && running.debts() == 0;
        drop(running);
        if was_full && !is_full {
            pending.room.notify_waiters();
        }
        if is_paid {
            pending.paid.notify_waiters();
        }
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        let pending = &self.core.pending;
        let kind = *unpoisoned(&self.kind);
        let mut running = unpoisoned(&pending.running);
        let was_full = running.is_full();
        *running.of(kind) -= 1;
        let has_room = was_full && !running.is_full();
        if has_room {
            pending.is_full.store(false, Ordering::Relaxed);
        }
        let over = running.abandoned && running.is_idle();
        running.closed |= over;
        let is_debt = kind.is_debt();
        let told = !is_debt && running.releases == 0;
        let awaited = told && running.waiting > 0;
        let paid = is_debt && running.debts() == 0;
        drop(running);
        if has_room {
            pending.room.notify_waiters();
        }
        if paid {
            pending.paid.notify_waiters();
        }
        if awaited {
            pending.brief_done.notify_all();
        }
        if told {
            self.core.tell_who_shuts_down();
        }
        if over {
            self.core.engine.close();
        }
    }
}

impl WorkKind {
    fn is_debt(self) -> bool {
        matches!(self, Self::ReleaseDebt | Self::LateAcquire)
    }
}

impl PendingCounts {
    fn is_idle(&self) -> bool {
        self.attempts == 0 && self.releases == 0 && self.debts() == 0
    }

    fn debts(&self) -> usize {
        self.release_debts + self.late_acquires
    }

    fn is_full(&self) -> bool {
        self.releases + self.release_debts > RELEASES_MAX || self.late_acquires > LATE_ACQUIRES_MAX
    }

    fn of(&mut self, kind: WorkKind) -> &mut usize {
        match kind {
            WorkKind::Attempt => &mut self.attempts,
            WorkKind::Release => &mut self.releases,
            WorkKind::ReleaseDebt => &mut self.release_debts,
            WorkKind::LateAcquire => &mut self.late_acquires,
        }
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            running: Mutex::default(),
            is_full: AtomicBool::new(false),
            room: Notify::new(),
            brief_done: Condvar::new(),
            paid: Notify::new(),
            sends: Semaphore::new(SENDS_MAX),
        }
    }
}

impl Pending {
    /// Whether nothing is under way except debts.
    pub(crate) fn is_quiet(&self) -> bool {
        let running = unpoisoned(&self.running);
        running.attempts == 0 && running.releases == 0
    }

    /// Whether so much is owed that new acquires should wait.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// How many releases are owed.
    pub(crate) fn owed(&self) -> usize {
        let running = unpoisoned(&self.running);
        running.releases + running.debts()
    }

    /// Ready when there is room for new acquires, or was in the meantime; and when `is_closing`.
    pub(crate) async fn room(&self, is_closing: impl Fn() -> bool) {
        let mut room = std::pin::pin!(self.room.notified());
        room.as_mut().enable();
        if self.is_full() && !is_closing() {
            room.await;
        }
    }

    /// Wakes the acquires that wait for room: they look whether the client is closing.
    pub(crate) fn tell_who_waits_for_room(&self) {
        self.room.notify_waiters();
    }

    #[cfg(test)]
    pub(crate) fn releases(&self) -> usize {
        unpoisoned(&self.running).releases
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> usize {
        let running = unpoisoned(&self.running);
        running.attempts + running.releases + running.debts()
    }

    /// Blocks until no release is under way, at most for `limit`.
    pub(crate) fn wait_for_releases(&self, limit: Duration) {
        let mut running = unpoisoned(&self.running);
        running.waiting += 1;
        let waited = self
            .brief_done
            .wait_timeout_while(running, limit, |running| running.releases > 0);
        let (mut running, _) = waited.unwrap_or_else(PoisonError::into_inner);
        running.waiting -= 1;
    }

    /// The last handle is gone: there will be no new calls. True: nothing is under way now.
    pub(crate) fn abandon(&self) -> bool {
        let mut running = unpoisoned(&self.running);
        running.abandoned = true;
        let over = running.is_idle();
        running.closed |= over;
        over
    }

    /// Nothing more is owed from now on.
    pub(super) fn close(&self) {
        unpoisoned(&self.running).closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        unpoisoned(&self.running).closed
    }

    /// True: from now on the caller minds the connections, until [`paid`](Pending::paid).
    pub(super) fn start_minding_connections(&self) -> bool {
        !std::mem::replace(&mut unpoisoned(&self.running).minded, true)
    }

    /// Ready when nothing is owed; the caller has stopped minding the connections then.
    pub(super) async fn paid(&self) {
        loop {
            let mut paid = std::pin::pin!(self.paid.notified());
            paid.as_mut().enable();
            if self.stop_minding_if_paid() {
                return;
            }
            paid.await;
        }
    }

    fn stop_minding_if_paid(&self) -> bool {
        let mut running = unpoisoned(&self.running);
        running.minded &= running.debts() > 0;
        !running.minded
    }
}
