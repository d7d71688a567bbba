//! A guard of several locks: a bundle of guards.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::coordination::holding::bundle::{Bundle, Enough};
use crate::coordination::holding::hold::{Follower, Status};
use crate::coordination::holding::joint::{self, Seat};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::Boxed;
use crate::error::{Error, ErrorKind, LostReason, NodeError, Result};
use crate::guard::gather::gather;
use crate::guard::{AnyGuard, Holding, Unlocked};

/// Guards that are held as one, each given back when this is dropped.
pub(crate) struct Members {
    /// The members' names, or the one name of all nodes.
    pub(super) name: Arc<str>,
    /// In the order in which they were taken; at least one.
    guards: Vec<AnyGuard>,
    later: Arc<Later>,
    pub(super) bundle: Arc<Bundle>,
    /// Of the first of them.
    pub(super) lead: Arc<Tenure>,
    /// What the nodes of a quorum agreed on.
    pub(super) fence: Option<u64>,
    /// Looks for members in the place of those that are lost, while this lives.
    mender: Option<Arc<dyn Follower>>,
}

/// Members that came after their guard was made.
pub(crate) struct Later {
    bundle: Arc<Bundle>,
    /// `None`: their guard has ended, and they are not wanted.
    guards: Mutex<Option<Vec<AnyGuard>>>,
}

impl Later {
    pub(crate) fn bundle(&self) -> &Bundle {
        &self.bundle
    }

    /// The guard is a member from now on; if the guard of all has ended, it is given back.
    pub(crate) fn join(&self, guard: AnyGuard) {
        let part = guard.held.part();
        let mut guards = unpoisoned(&self.guards);
        let unwanted = match &mut *guards {
            Some(guards) => {
                guards.push(guard);
                None
            }
            None => Some(guard),
        };
        // Not dropped, and no other called, under the lock.
        drop(guards);
        if unwanted.is_none() {
            part.into_iter().for_each(|part| self.bundle.join(part));
        }
    }
}

impl Members {
    pub(crate) fn new(
        name: Arc<str>,
        first: AnyGuard,
        others: Vec<AnyGuard>,
        enough: Enough,
    ) -> Self {
        let lead = first.tenure().clone();
        let guards: Vec<AnyGuard> = std::iter::once(first).chain(others).collect();
        let parts = guards.iter().filter_map(|guard| guard.held.part());
        let bundle = Bundle::new(parts.collect(), enough);
        let later = Later {
            bundle: bundle.clone(),
            guards: Mutex::new(Some(Vec::new())),
        };
        Self {
            name,
            lead,
            bundle,
            guards,
            later: Arc::new(later),
            fence: None,
            mender: None,
        }
    }

    pub(crate) fn with_fence(mut self, fence: u64) -> Self {
        self.fence = Some(fence);
        self
    }

    pub(crate) fn mended_by(&mut self, mender: Arc<dyn Follower>) {
        self.bundle.mended_by(Arc::downgrade(&mender));
        self.mender = Some(mender);
    }

    pub(crate) fn guards(&self) -> &[AnyGuard] {
        &self.guards
    }

    pub(crate) fn bundle(&self) -> &Arc<Bundle> {
        &self.bundle
    }

    /// Where members that come later join.
    pub(crate) fn later(&self) -> &Arc<Later> {
        &self.later
    }

    /// All are given back, also if that fails for one of them; those of one client in one call.
    pub(super) fn unlock(mut self) -> Boxed<Result<Unlocked>> {
        Box::pin(async move {
            let was = self.bundle.release();
            let mut seats = seats_of(&self.guards).into_iter();
            let work = self.take_guards(|guard| guard.unlock_with(seats.next().flatten()));
            let left = done_with(work, self.bundle.enough()).await;
            match was {
                Status::Lost(reason) => Err(Error::lost(reason).of(&self.name)),
                _ => left
                    .map(|left| most_held(&left))
                    .map_err(|error| error.of_whole(&self.name)),
            }
        })
    }

    pub(super) fn unlock_after(mut self, delay: Duration) -> Boxed<Result<()>> {
        Box::pin(async move {
            self.bundle.release();
            let work = self.take_guards(|guard| Box::pin(guard.unlock_after(delay)));
            done_with(work, self.bundle.enough()).await.map(drop)
        })
    }

    /// One more hold of each.
    pub(super) fn relock(&self) -> Boxed<Result<Holding>> {
        let (name, fence, enough) = (self.name.clone(), self.fence, self.bundle.enough());
        let work = self.look_at_guards(|guard| Box::pin(guard.relock()));
        Box::pin(async move {
            let mut guards = done_with(work, enough).await?.into_iter();
            match guards.next() {
                Some(first) => {
                    let mut members = Members::new(name, first, guards.collect(), enough);
                    members.fence = fence;
                    Ok(Holding::Several(members))
                }
                None => Err(Error::lost(LostReason::Removed).of(&name)),
            }
        })
    }

    /// Asks the servers about all of them, and for a lease if one is given.
    pub(super) fn ask(&self, lease: Option<Duration>) -> Boxed<Result<()>> {
        let enough = self.bundle.enough();
        let work = self.look_at_guards(|guard| match lease {
            Some(lease) => Box::pin(guard.renew(lease)) as Boxed<Result<()>>,
            None => Box::pin(guard.check()),
        });
        let (bundle, name) = (self.bundle.clone(), self.name.clone());
        Box::pin(async move {
            let asked = done_with(work, enough).await.map(drop);
            match (asked, bundle.status()) {
                (Err(error), Status::Lost(reason)) => {
                    let nodes = error.nodes().to_vec();
                    Err(Error::lost(reason).of(&name).with_nodes(nodes))
                }
                (asked, _) => asked.map_err(|error| error.of_whole(&name)),
            }
        })
    }

    fn look_at_guards<T>(&self, work: impl Fn(&AnyGuard) -> Boxed<Result<T>>) -> Vec<Errand<T>> {
        let errand = |guard: &AnyGuard| (guard.tenure().core.clone(), work(guard));
        let later = unpoisoned(&self.later.guards);
        self.guards
            .iter()
            .chain(later.iter().flatten())
            .map(errand)
            .collect()
    }

    fn take_guards<T>(
        &mut self,
        mut work: impl FnMut(AnyGuard) -> Boxed<Result<T>>,
    ) -> Vec<Errand<T>> {
        let errand = |guard: AnyGuard| (guard.tenure().core.clone(), work(guard));
        let later = unpoisoned(&self.later.guards).take();
        std::mem::take(&mut self.guards)
            .into_iter()
            .chain(later.into_iter().flatten())
            .map(errand)
            .collect()
    }
}

/// A seat for each guard that can be released in one call with others of its client.
fn seats_of(guards: &[AnyGuard]) -> Vec<Option<Seat>> {
    let cores: Vec<_> = guards.iter().map(AnyGuard::releases_with).collect();
    let mut seats: Vec<Option<Seat>> = guards.iter().map(|_| None).collect();
    for core in cores.iter().flatten() {
        let is_same =
            |other: &Option<&Arc<Core>>| other.is_some_and(|other| Arc::ptr_eq(other, core));
        let together = cores.iter().zip(&mut seats);
        let mut places: Vec<_> = together
            .filter(|(other, seat)| seat.is_none() && is_same(other))
            .collect();
        if places.len() > 1 {
            let new = joint::seats(places.len());
            places
                .iter_mut()
                .zip(new)
                .for_each(|((_, place), seat)| **place = Some(seat));
        }
    }
    seats
}

/// Work with one member, and the client that it is of.
pub(crate) type Errand<T> = (Arc<Core>, Boxed<Result<T>>);

/// Does the work with all members at once. Ready when it is done with enough of them, or has ended with all; if it was done
/// with too few, the error is that of the first member, with the list of all that
/// failed; for a majority that there is none.
pub(crate) async fn done_with<T>(work: Vec<Errand<T>>, enough: Enough) -> Result<Vec<T>> {
    let (cores, work): (Vec<_>, Vec<_>) = work.into_iter().unzip();
    let results = gather(work, enough.need()).await;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (core, result) in cores.iter().zip(results) {
        match result {
            Some(Ok(value)) => done.push(value),
            Some(Err(error)) => failed.push(NodeError::new(core.engine.address(), error)),
            None => {}
        }
    }
    let count = done.len();
    match (failed.first(), enough) {
        _ if count >= enough.need() => Ok(done),
        (Some(first), Enough::All(_)) => Err(first.error().clone().with_nodes(failed)),
        (None, Enough::All(_)) => Ok(done),
        (_, Enough::MajorityOf(nodes)) => Err(no_majority(count, nodes, failed)),
    }
}

/// Why a majority of that many nodes was not had.
///
/// `NoQuorum` is an error that may pass. It is not the reason if the call is at fault, or if so many nodes have lost the hold
/// or are closed that there can be no majority: a caller that tries again while an error may pass would never end.
pub(crate) fn no_majority(had: usize, nodes: usize, failed: Vec<NodeError>) -> Error {
    if let Some(error) = fault_of_call(&failed) {
        return error;
    }
    let is_over = |node: &&NodeError| {
        let kind = node.error().kind();
        matches!(kind, ErrorKind::Lost | ErrorKind::Closed)
    };
    let over: Vec<_> = failed.iter().filter(is_over).collect();
    let spare = nodes.saturating_sub(Enough::MajorityOf(nodes).need());
    let error = match over.as_slice() {
        [first, ..] if over.len() > spare => first.error().clone(),
        _ => Error::no_quorum(had, nodes),
    };
    error.with_nodes(failed)
}

/// An error that no node is to blame for.
pub(crate) fn fault_of_call(failed: &[NodeError]) -> Option<Error> {
    let is_its = |node: &&NodeError| {
        matches!(
            node.error().kind(),
            ErrorKind::Cancelled | ErrorKind::Invalid | ErrorKind::WouldDeadlock
        )
    };
    failed.iter().find(is_its).map(|node| node.error().clone())
}

/// An owner that still holds some of them still holds that much.
fn most_held(left: &[Unlocked]) -> Unlocked {
    let counts = left.iter().map(|left| match left {
        Unlocked::Released => 0,
        Unlocked::StillHeld(count) => *count,
    });
    match counts.max() {
        None | Some(0) => Unlocked::Released,
        Some(count) => Unlocked::StillHeld(count),
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        // First the bundle, so that it is released and not lost.
        self.bundle.release();
        // Not dropped under the lock: that would run the release there.
        let _later = unpoisoned(&self.later.guards).take();
    }
}
