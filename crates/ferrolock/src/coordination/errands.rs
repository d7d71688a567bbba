//! What is on its way though nobody awaits it: attempts, releases, debts. The connections stay for it.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::{Core, unpoisoned};

/// How many errands a client runs.
#[derive(Debug, Default)]
pub(crate) struct Errands {
    running: Mutex<Running>,
    /// Told when none is left that the last handle waits for.
    brief_done: Condvar,
}

#[derive(Debug, Default)]
struct Running {
    brief: usize,
    long: usize,
    /// The last handle is gone: with the last errand the connections end.
    abandoned: bool,
}

/// How long an errand may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// A round trip: the last handle waits a moment for it.
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

impl Drop for Errand {
    fn drop(&mut self) {
        let errands = &self.core.errands;
        let mut running = unpoisoned(&errands.running);
        *running.of(self.length) -= 1;
        let over = running.abandoned && running.brief == 0 && running.long == 0;
        let told = self.length == Length::Brief && running.brief == 0;
        drop(running);
        if told {
            errands.brief_done.notify_all();
            self.core.is_quieter();
        }
        if over {
            self.core.engine.close();
        }
    }
}

impl Running {
    fn of(&mut self, length: Length) -> &mut usize {
        match length {
            Length::Brief => &mut self.brief,
            Length::Long => &mut self.long,
        }
    }
}

impl Errands {
    pub(crate) fn brief(&self) -> usize {
        unpoisoned(&self.running).brief
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
        running.brief == 0 && running.long == 0
    }
}
