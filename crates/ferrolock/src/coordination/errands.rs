//! What is on its way though nobody awaits it: attempts, releases, debts. The connections stay for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::{Core, unpoisoned};

/// How many errands a client runs.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    running: Mutex<Running>,
    /// Told when none is left that the last handle waits for.
    brief_done: Condvar,
    /// Told when nothing is owed any more.
    paid: Notify,
}

#[derive(Debug, Default)]
struct Running {
    attempts: usize,
    brief: usize,
    long: usize,
    /// The last handle is gone: with the last errand the connections end.
    abandoned: bool,
    /// The connections have ended, or are about to: nothing more can be owed.
    closed: bool,
    /// Somebody minds the connections for what is owed.
    minded: bool,
}

/// How long an errand may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// An acquire and what becomes of its grant. When the last handle goes, the keeper releases its field: the runtime
    /// that the reply comes to may be the one that waits.
    Attempt,
    /// A release: the last handle waits a moment for it.
    Brief,
    /// A debt, which may take two leases.
    Long,
}

/// One errand; over when it is dropped.
#[derive(Debug)]
pub(crate) struct Errand {
    core: Arc<Core>,
    length: Length,
}

impl Errand {
    pub(crate) fn new(core: &Arc<Core>, length: Length) -> Self {
        let mut running = unpoisoned(&core.errands.running);
        *running.of(length) += 1;
        Self {
            core: core.clone(),
            length,
        }
    }
}

impl Errand {
    /// An acquire was granted: from now on it is a release to come, unless its caller takes it.
    pub(crate) fn becomes_brief(&mut self) {
        let mut running = unpoisoned(&self.core.errands.running);
        *running.of(self.length) -= 1;
        self.length = Length::Brief;
        *running.of(self.length) += 1;
    }
}

impl Drop for Errand {
    fn drop(&mut self) {
        let errands = &self.core.errands;
        let mut running = unpoisoned(&errands.running);
        *running.of(self.length) -= 1;
        let over = running.abandoned && running.is_idle();
        running.closed |= over;
        let told = self.length != Length::Long && running.brief == 0;
        let paid = self.length == Length::Long && running.long == 0;
        drop(running);
        if paid {
            errands.paid.notify_waiters();
        }
        if told {
            errands.brief_done.notify_all();
            self.core.tell_who_shuts_down();
        }
        if over {
            self.core.engine.close();
        }
    }
}

impl Running {
    fn is_idle(&self) -> bool {
        self.attempts == 0 && self.brief == 0 && self.long == 0
    }

    fn of(&mut self, length: Length) -> &mut usize {
        match length {
            Length::Attempt => &mut self.attempts,
            Length::Brief => &mut self.brief,
            Length::Long => &mut self.long,
        }
    }
}

impl Errands {
    /// Whether nothing is on its way but debts.
    pub(crate) fn is_quiet(&self) -> bool {
        let running = unpoisoned(&self.running);
        running.attempts == 0 && running.brief == 0
    }

    #[cfg(test)]
    pub(crate) fn brief(&self) -> usize {
        unpoisoned(&self.running).brief
    }

    #[cfg(test)]
    pub(crate) fn all(&self) -> usize {
        let running = unpoisoned(&self.running);
        running.attempts + running.brief + running.long
    }

    /// Blocks until no brief errand runs, at most so long.
    pub(crate) fn wait_for_brief(&self, limit: Duration) {
        let running = unpoisoned(&self.running);
        let waited = self
            .brief_done
            .wait_timeout_while(running, limit, |running| running.brief > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Nobody will ask for more. True: nothing is on its way now.
    pub(crate) fn abandon(&self) -> bool {
        let mut running = unpoisoned(&self.running);
        running.abandoned = true;
        let over = running.is_idle();
        running.closed |= over;
        over
    }

    /// Nothing more is owed from now on.
    pub(crate) fn close(&self) {
        unpoisoned(&self.running).closed = true;
    }

    pub(crate) fn is_closed(&self) -> bool {
        unpoisoned(&self.running).closed
    }

    /// True: from now on the caller minds the connections, until [`paid`](Errands::paid).
    pub(crate) fn minds_connections(&self) -> bool {
        !std::mem::replace(&mut unpoisoned(&self.running).minded, true)
    }

    /// Ready when nothing is owed any more, and nobody minds the connections.
    pub(crate) async fn paid(&self) {
        loop {
            let mut paid = std::pin::pin!(self.paid.notified());
            paid.as_mut().enable();
            if self.minds_nothing() {
                return;
            }
            paid.await;
        }
    }

    fn minds_nothing(&self) -> bool {
        let mut running = unpoisoned(&self.running);
        running.minded &= running.long > 0;
        !running.minded
    }
}
