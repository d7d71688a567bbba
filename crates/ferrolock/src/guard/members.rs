//! A guard of several locks: a bundle of guards.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::Tenure;
use crate::coordination::holding::bundle::{Bundle, Enough};
use crate::coordination::holding::hold::Status;
use crate::engine::Boxed;
use crate::error::{Error, LostReason, NodeError, Result};
use crate::guard::gather::gather;
use crate::guard::{AnyGuard, Holding, Unlocked};

/// Guards that are held as one, each given back when this is dropped.
pub(crate) struct Members {
    /// The members' names.
    pub(super) name: Arc<str>,
    /// In the order in which they were taken; at least one.
    guards: Vec<AnyGuard>,
    pub(super) bundle: Arc<Bundle>,
    /// Of the first of them.
    pub(super) lead: Arc<Tenure>,
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
        Self {
            name,
            lead,
            bundle: Bundle::new(parts.collect(), enough),
            guards,
        }
    }

    pub(crate) fn guards(&self) -> &[AnyGuard] {
        &self.guards
    }

    /// All are given back, also if that fails for one of them.
    pub(super) fn unlock(mut self) -> Boxed<Result<Unlocked>> {
        Box::pin(async move {
            let was = self.bundle.release();
            let work = self.take_guards(|guard| Box::pin(guard.unlock()));
            let left = done_with(work, self.bundle.enough()).await;
            match was {
                Status::Lost(reason) => Err(Error::lost(reason).of(&self.name)),
                _ => Ok(most_held(&left?)),
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
        let (name, enough) = (self.name.clone(), self.bundle.enough());
        let work = self.look_at_guards(|guard| Box::pin(guard.relock()));
        Box::pin(async move {
            let mut guards = done_with(work, enough).await?.into_iter();
            match guards.next() {
                Some(first) => Ok(Holding::Several(Members::new(
                    name,
                    first,
                    guards.collect(),
                    enough,
                ))),
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
        Box::pin(async move { done_with(work, enough).await.map(drop) })
    }

    fn look_at_guards<T>(&self, work: impl Fn(&AnyGuard) -> Boxed<Result<T>>) -> Vec<Errand<T>> {
        let errand = |guard: &AnyGuard| (guard.tenure().clone(), work(guard));
        self.guards.iter().map(errand).collect()
    }

    fn take_guards<T>(&mut self, work: impl Fn(AnyGuard) -> Boxed<Result<T>>) -> Vec<Errand<T>> {
        let errand = |guard: AnyGuard| (guard.tenure().clone(), work(guard));
        std::mem::take(&mut self.guards)
            .into_iter()
            .map(errand)
            .collect()
    }
}

/// Work with one member, which that tenure is of.
type Errand<T> = (Arc<Tenure>, Boxed<Result<T>>);

/// Does the work with all members at once. Ready when it is done with enough of them, or has ended with all; if it was done
/// with too few, the error is that of the first member, with the list of all that failed.
async fn done_with<T>(work: Vec<Errand<T>>, enough: Enough) -> Result<Vec<T>> {
    let (tenures, work): (Vec<_>, Vec<_>) = work.into_iter().unzip();
    let results = gather(work, enough.need()).await;
    let (mut done, mut failed) = (Vec::new(), Vec::new());
    for (tenure, result) in tenures.iter().zip(results) {
        match result {
            Some(Ok(value)) => done.push(value),
            Some(Err(error)) => failed.push(NodeError::new(tenure.core.engine.address(), error)),
            None => {}
        }
    }
    match failed.first() {
        Some(first) if done.len() < enough.need() => {
            let error = first.error().clone();
            Err(error.with_nodes(failed))
        }
        _ => Ok(done),
    }
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
    }
}
