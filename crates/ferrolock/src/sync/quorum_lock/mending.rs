//! Nodes that a held quorum lock does not have: they are tried again while it is held.
//!
//! A node that was down or busy at first, or that has lost its hold, joins when it grants. It counts with the deadline of that
//! grant: a guard that is lost stays lost.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::coordination::Core;
use crate::coordination::holding::hold::{Follower, Status};
use crate::guard::AnyGuard;
use crate::guard::gather::gather;
use crate::guard::members::{Later, Members};
use crate::options::LockOptions;
use crate::sync::quorum_lock::ballot::{Open, ask_node};
use crate::sync::target::OneName;

/// Tries the missing nodes of one guard again.
#[derive(Debug)]
pub(super) struct Mender {
    this: Weak<Mender>,
    nodes: Vec<OneName>,
    options: LockOptions,
    limit: Duration,
    /// Between two tries.
    pause: Duration,
    fence: u64,
    core: Arc<Core>,
    later: Weak<Later>,
    /// The task that tries is at work.
    is_at_work: AtomicBool,
}

/// What is the same for every try of a node.
pub(super) struct Tries {
    pub(super) nodes: Vec<OneName>,
    pub(super) options: LockOptions,
    pub(super) limit: Duration,
    pub(super) pause: Duration,
    pub(super) core: Arc<Core>,
}

impl Mender {
    /// Mends those members from now on. Answers that are still open count as the first tries.
    pub(super) fn begin(members: &mut Members, tries: Tries, fence: u64, open: Vec<Open>) {
        let later = Arc::downgrade(members.later());
        let is_complete = members.guards().len() == tries.nodes.len();
        let mender = Arc::new_cyclic(|this| Mender {
            this: this.clone(),
            nodes: tries.nodes,
            options: tries.options,
            limit: tries.limit,
            pause: tries.pause,
            fence,
            core: tries.core,
            later,
            is_at_work: AtomicBool::new(false),
        });
        if !is_complete {
            mender.work(open);
        }
        members.mended_by(mender);
    }

    fn work(&self, open: Vec<Open>) {
        if self.is_at_work.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Ok(runtime) = self.core.runtime() {
            runtime.spawn(mend(self.this.clone(), open));
        }
    }

    /// The guard's members, while they are a majority. A guard that is lost takes no more nodes: it could not use them, and
    /// other callers would find them busy.
    fn mended(&self) -> Option<Arc<Later>> {
        let later = self.later.upgrade()?;
        let is_held = matches!(later.bundle().status(), Status::Held | Status::Uncertain);
        is_held.then_some(later)
    }

    /// Asks all nodes that are missing.
    fn tries(&self) -> Vec<Open> {
        let Some(later) = self.mended() else {
            return Vec::new();
        };
        let missing = |node: &&OneName| !later.bundle().has_part_of(&node.alive.core);
        let missing = self.nodes.iter().filter(missing);
        missing
            .map(|node| ask_node(node, &self.options, self.limit))
            .collect()
    }
}

impl Mender {
    /// These guards join. True: the work is done, for now or for good.
    fn finish_with(&self, guards: Vec<AnyGuard>) -> bool {
        // Without it the guards are dropped here, and so given back.
        let Some(later) = self.mended() else {
            return true;
        };
        for guard in guards {
            let _ = guard.tenure().quorum_fence.set(self.fence);
            later.join(guard);
        }
        let has_node = |node: &OneName| later.bundle().has_part_of(&node.alive.core);
        if !self.nodes.iter().all(has_node) {
            return false;
        }
        self.is_at_work.store(false, Ordering::Release);
        // A part that ended in between was told while this was at work: one more look.
        self.nodes.iter().all(has_node) || self.is_at_work.swap(true, Ordering::AcqRel)
    }
}

impl Follower for Mender {
    fn part_changed(&self) {
        self.work(Vec::new());
    }
}

/// Lives no longer than the guard: between two steps it has no hold of anything.
async fn mend(mender: Weak<Mender>, open: Vec<Open>) {
    let mut tries = open;
    loop {
        let enough = tries.len();
        let answers = gather(tries, enough).await.into_iter().flatten();
        let guards: Vec<AnyGuard> = answers.flatten().flatten().collect();
        let Some(at_work) = mender.upgrade() else {
            return;
        };
        if at_work.finish_with(guards) {
            return;
        }
        let (core, pause) = (at_work.core.clone(), at_work.pause);
        drop(at_work);
        // Also before the first try: if the lock was removed from all nodes, that shows on all of them before one is taken
        // again.
        core.until(core.now().after(pause), pending::<()>()).await;
        let Some(at_work) = mender.upgrade() else {
            return;
        };
        tries = at_work.tries();
    }
}
