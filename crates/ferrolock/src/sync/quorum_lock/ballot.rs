//! How a majority of nodes is taken.
//!
//! In a round, all nodes are asked at once, each for a limited time. A majority of grants is the lock; grants that come
//! later join it. Without a majority all is given back, and the call waits by an ordinary acquire of the first node that
//! refused, for a second at most: others may have released elsewhere. Callers that share the votes among them pause for
//! random times.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::coordination::holding::bundle::Enough;
use crate::coordination::holding::hold::Status;
use crate::coordination::waiting::Patience;
use crate::coordination::{Core, Tenure};
use crate::engine::{Boxed, Failure, Lane, Tick};
use crate::error::{Error, ErrorCause, ErrorKind, NodeError, Result};
use crate::guard::AnyGuard;
use crate::guard::members::{Members, done_with, fault_of_call, no_majority};
use crate::options::{LockOptions, check_wait};
use crate::protocol::fenced_lock::raise;
use crate::protocol::scheme::read_standing;
use crate::sync::quorum_lock::NodeLocks;
use crate::sync::quorum_lock::mending::{Mender, Tries};
use crate::sync::target::OneName;

/// How long one node is waited for before all are asked again.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// The longest random pause after the first round, and after many.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// One call that wants a majority.
pub(super) struct Ballot {
    name: Arc<str>,
    nodes: Vec<OneName>,
    /// Of each node.
    options: LockOptions,
    enough: Enough,
    patience: Patience,
    /// How long a node may take for its answer.
    limit: Duration,
    lease: Duration,
    /// Whose clock counts: that of the first node.
    core: Arc<Core>,
    begun: Tick,
    deadline: Option<Tick>,
}

/// The answer of a node that is still to come.
pub(super) type Open = Boxed<Result<Option<AnyGuard>>>;

/// What a round brought.
enum Majority {
    Held(Members),
    /// The first node that refused.
    BusyAt(usize),
}

/// What a node has answered.
enum Vote {
    Open(Open),
    Granted(AnyGuard),
    Busy,
    Failed(Error),
}

impl Ballot {
    pub(super) fn new(
        locks: &NodeLocks,
        options: &LockOptions,
        patience: Patience,
    ) -> Result<Self> {
        let nodes = locks.checked()?.to_vec();
        let Some(core) = nodes.first().map(|node| node.alive.core.clone()) else {
            return Err(Error::no_quorum(0, 0));
        };
        let of_each = LockOptions {
            owner: Some(options.whose()),
            drift_per_mille: Some(locks.limits.drift_per_mille),
            ..LockOptions::default()
        };
        let options = options.under(&of_each);
        let of_lock = |error: Error| error.of(&locks.name);
        let terms = core.settings.terms(&options).map_err(of_lock)?;
        if let Some(wait) = patience.wait() {
            check_wait("a wait", wait).map_err(of_lock)?;
        }
        let begun = core.now();
        Ok(Self {
            name: locks.name.clone(),
            nodes,
            options,
            enough: locks.enough(),
            patience,
            limit: locks.limits.answer.min(terms.lease / 10),
            lease: terms.lease,
            core,
            begun,
            deadline: patience.wait().map(|wait| begun.after(wait)),
        })
    }

    pub(super) async fn take(self) -> Result<Option<Members>> {
        let (mut held, mut pause) = (None, PAUSE_FIRST);
        loop {
            let busy = match self.ask_all(held.take()).await? {
                Majority::Held(members) => return Ok(Some(members)),
                Majority::BusyAt(node) => node,
            };
            if self.patience == Patience::None {
                return Ok(None);
            }
            self.core.pause(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
            let left = self.deadline.map(|end| end.since(self.core.now()));
            let (is_last, wait) = match left {
                Some(left) if left <= WAIT_MAX => (true, left),
                _ => (false, WAIT_MAX),
            };
            held = self.wait_for(busy, wait).await?;
            if held.is_none() && is_last {
                return self.timed_out();
            }
        }
    }

    fn timed_out(&self) -> Result<Option<Members>> {
        match self.patience {
            Patience::None | Patience::Asks(_) => Ok(None),
            Patience::Insists(_) => {
                let waited = self.core.now().since(self.begun);
                let remaining = None;
                Err(Error::new(ErrorCause::TimedOut { waited, remaining }).of(&self.name))
            }
        }
    }

    /// One round, in which one node may be held already.
    async fn ask_all(&self, held: Option<(usize, AnyGuard)>) -> Result<Majority> {
        let mut first = held.as_ref().map(|(node, _)| *node);
        let asked = |node| Vote::Open(ask_node(node, &self.options, self.limit));
        let mut votes: Vec<Vote> = self.nodes.iter().map(asked).collect();
        if let Some((node, guard)) = held
            && let Some(vote) = votes.get_mut(node)
        {
            *vote = Vote::Granted(guard);
        }
        poll_fn(|cx| {
            for (node, vote) in votes.iter_mut().enumerate() {
                if let Vote::Open(open) = vote
                    && let Poll::Ready(answer) = open.as_mut().poll(cx)
                {
                    *vote = Vote::of(answer);
                    if matches!(vote, Vote::Granted(_)) {
                        first.get_or_insert(node);
                    }
                }
            }
            match self.is_decided(&votes) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
        let granted = count(&votes, |vote| matches!(vote, Vote::Granted(_)));
        if granted < self.enough.need() {
            return self.lost_round(&votes, granted);
        }
        self.complete(votes, first.unwrap_or_default()).await
    }

    /// Whether a majority has granted, or can no longer be had.
    fn is_decided(&self, votes: &[Vote]) -> bool {
        let granted = count(votes, |vote| matches!(vote, Vote::Granted(_)));
        let open = count(votes, |vote| matches!(vote, Vote::Open(_)));
        granted >= self.enough.need() || granted + open < self.enough.need()
    }

    /// What was granted, or may be granted later, is given back by the drop of the votes.
    fn lost_round(&self, votes: &[Vote], granted: usize) -> Result<Majority> {
        let failed: Vec<NodeError> = self
            .nodes
            .iter()
            .zip(votes)
            .filter_map(|(node, vote)| match vote {
                Vote::Failed(error) => {
                    let address = node.alive.core.engine.address();
                    Some(NodeError::new(address, error.clone()))
                }
                _ => None,
            })
            .collect();
        if let Some(error) = fault_of_call(&failed) {
            return Err(error);
        }
        if failed.len() > self.nodes.len() - self.enough.need() {
            let busy = count(votes, |vote| matches!(vote, Vote::Busy));
            let error = no_majority(granted + busy, self.nodes.len(), failed);
            return Err(error.of(&self.name));
        }
        let first = votes.iter().position(|vote| matches!(vote, Vote::Busy));
        Ok(Majority::BusyAt(first.unwrap_or_default()))
    }

    /// A majority has granted: agrees on a fence with it, and lets those that have not answered join later.
    async fn complete(&self, votes: Vec<Vote>, first: usize) -> Result<Majority> {
        let (mut guards, mut open) = (Vec::new(), Vec::new());
        for (node, vote) in votes.into_iter().enumerate() {
            match vote {
                Vote::Granted(guard) if node == first => guards.insert(0, guard),
                Vote::Granted(guard) => guards.push(guard),
                Vote::Open(asked) => open.push(asked),
                Vote::Busy | Vote::Failed(_) => {}
            }
        }
        let fence = self.agree_on_fence(&guards).await?;
        let mut guards = guards.into_iter();
        let Some(lead) = guards.next() else {
            return Ok(Majority::BusyAt(first));
        };
        let members = Members::new(self.name.clone(), lead, guards.collect(), self.enough);
        let mut members = members.with_fence(fence);
        if matches!(members.bundle().status(), Status::Lost(_)) {
            let late = "a majority answered too late for its lease: give it a longer one";
            return Err(Error::unreachable(late).of(&self.name));
        }
        let tries = Tries {
            nodes: self.nodes.clone(),
            options: self.options.clone(),
            limit: self.limit,
            // Longer than it takes until every node was asked to renew once.
            pause: self.lease / 2,
            core: self.core.clone(),
        };
        Mender::begin(&mut members, tries, fence, open);
        Ok(Majority::Held(members))
    }

    /// The largest fence of the majority, stored on a majority: every later majority meets a node that knows it.
    async fn agree_on_fence(&self, guards: &[AnyGuard]) -> Result<u64> {
        let tenures = || guards.iter().map(AnyGuard::tenure);
        let entered = tenures().filter_map(|tenure| tenure.quorum_fence.get());
        let granted = tenures().filter_map(|tenure| tenure.fence.get());
        // An owner that was inside already goes on with its fence.
        let fence = entered.max().or_else(|| granted.max()).copied();
        let fence = fence.unwrap_or_default();
        let errands = tenures().map(|tenure| {
            let work = store_fence(tenure.clone(), fence, self.limit);
            (tenure.core.clone(), Box::pin(work) as Boxed<Result<()>>)
        });
        let stored = done_with(errands.collect(), self.enough).await;
        stored.map_err(|error| error.of(&self.name))?;
        for tenure in tenures() {
            let _ = tenure.quorum_fence.set(fence);
        }
        Ok(fence)
    }

    /// Waits for one node by an ordinary acquire. `None`: it was not granted in that time.
    async fn wait_for(&self, node: usize, wait: Duration) -> Result<Option<(usize, AnyGuard)>> {
        let Some(lock) = self.nodes.get(node) else {
            return Ok(None);
        };
        let mut waiting = pin!(lock.acquire(&self.options, Patience::Asks(wait)));
        let until = self.core.now().after(wait + self.limit);
        match self.core.until(until, waiting.as_mut()).await {
            Some(Err(error)) if error.kind() == ErrorKind::Cancelled => Err(error.of(&self.name)),
            Some(Ok(Some(guard))) => Ok(Some((node, guard))),
            // The next round shows what is wrong with it.
            Some(Ok(None) | Err(_)) | None => Ok(None),
        }
    }
}

/// Asks one node, for a limited time.
pub(super) fn ask_node(node: &OneName, options: &LockOptions, limit: Duration) -> Open {
    let (node, options) = (node.clone(), options.clone());
    Box::pin(async move {
        let core = node.alive.core.clone();
        let asked = node.acquire(&options, Patience::None);
        match core.until(core.now().after(limit), asked).await {
            Some(answer) => answer,
            None => Err(silent(&core, limit)),
        }
    })
}

impl Vote {
    fn of(answer: Result<Option<AnyGuard>>) -> Vote {
        match answer {
            Ok(Some(guard)) => Vote::Granted(guard),
            Ok(None) => Vote::Busy,
            Err(error) => Vote::Failed(error),
        }
    }
}

fn count(votes: &[Vote], which: impl Fn(&Vote) -> bool) -> usize {
    votes.iter().filter(|vote| which(vote)).count()
}

fn silent(core: &Core, limit: Duration) -> Error {
    let address = core.engine.address();
    Error::unreachable(format!("{address} did not answer for {limit:.1?}"))
}

/// Done when the node of that tenure has that fence, or a larger one.
async fn store_fence(tenure: Arc<Tenure>, fence: u64, limit: Duration) -> Result<()> {
    let has_it = tenure.fence.get().is_some_and(|own| *own >= fence);
    if has_it || tenure.quorum_fence.get().is_some() {
        return Ok(());
    }
    let (core, name) = (&tenure.core, tenure.scheme.name());
    let call = raise(name, &tenure.bearer, fence);
    let asked = core.ask(Lane::Commands, Some(&tenure.scheme), call);
    let reply = core.until(core.now().after(limit), asked).await;
    let reply = reply.unwrap_or_else(|| Err(silent(core, limit)))?;
    let standing = read_standing(reply).map_err(|bad| Error::from(Failure::from(bad)))?;
    match standing.lost() {
        Some(reason) => Err(Error::lost(reason).of(name)),
        None => Ok(()),
    }
}
