//! How the members of a multi lock are taken: all or none.
//!
//! Members of one client are first asked for in one call. If that does not take them, rounds follow.
//!
//! In a round, it waits for the member that was busy by an ordinary acquire, then tries the others without waiting, and gives
//! back what it has if one of them is busy. So nothing is held while it waits. A large set could be starved that way by
//! small ones: after some rounds it takes one after the other in the fixed order, and keeps what it has. Not for ever: a
//! client that takes the same locks in another order may wait for what is kept. So it gives back in the end, plays rounds
//! again, and keeps longer the next time.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::coordination::Core;
use crate::coordination::holding::bundle::Enough;
use crate::coordination::waiting::Patience;
use crate::coordination::waiting::group::{Together, acquire_together};
use crate::engine::{Boxed, Tick};
use crate::error::{Error, ErrorCause, ErrorKind, LostReason, NodeError, Result};
use crate::guard::gather::gather;
use crate::guard::members::Members;
use crate::guard::{AnyGuard, Guard};
use crate::kind::Any;
use crate::options::{Lease, LockOptions, check_wait};
use crate::sync::any_lock::AnyLock;
use crate::sync::multi_lock::SeveralLocks;
use crate::sync::target::{OneName, Target};

/// So many rounds are played, and no longer than this, before members are taken in order.
const ROUNDS: u32 = 8;
const ROUNDS_TIME: Duration = Duration::from_secs(1);
/// In order, members are kept that long at first while others are waited for, then twice as long, and so on.
const KEPT_FIRST: Duration = Duration::from_secs(4);
const KEPT_MOST: Duration = Duration::from_secs(64);

/// One call that wants all members.
pub(super) struct Taking {
    name: Arc<str>,
    /// With the options of the whole.
    locks: Vec<AnyLock>,
    patience: Patience,
    /// Whose clock counts: that of the first member.
    core: Arc<Core>,
    begun: Tick,
    deadline: Option<Tick>,
}

/// What a round brought.
enum Round {
    /// The guards, in the order of the members.
    Taken(Vec<AnyGuard>),
    /// The member that was busy.
    Busy(usize),
}

impl Taking {
    pub(super) fn new(
        several: &SeveralLocks,
        options: &LockOptions,
        patience: Patience,
    ) -> Result<Self> {
        let owner = options.whose();
        if let Some(wait) = patience.wait() {
            check_wait("a wait", wait).map_err(|error| error.of(&several.name))?;
        }
        let locks: Vec<AnyLock> = several
            .locks
            .iter()
            .map(|lock| {
                let mut lock = lock.clone();
                lock.options = lock.options.under(options);
                lock.options.owner.get_or_insert_with(|| owner.clone());
                lock
            })
            .collect();
        let Some(core) = locks.first().and_then(|lock| lock.target.core()).cloned() else {
            return Err(Error::invalid(
                "a multi lock without members: give it at least one",
            ));
        };
        let begun = core.now();
        Ok(Self {
            name: several.name.clone(),
            deadline: patience.wait().map(|wait| begun.after(wait)),
            locks,
            patience,
            core,
            begun,
        })
    }

    pub(super) async fn take(self) -> Result<Option<Members>> {
        let everyone: Vec<usize> = (0..self.locks.len()).collect();
        let busy = match self.take_together(&everyone).await? {
            Some(Round::Taken(guards)) => return self.complete(guards).map(Some),
            // Its own acquire shows whether it is: in a store it may be that of a dead process.
            Some(Round::Busy(member)) => member,
            None => 0,
        };
        let Some(guards) = self.take_one_by_one(busy).await? else {
            return Ok(None);
        };
        if guards.len() > 1 {
            self.start_leases_anew(&guards).await?;
        }
        self.complete(guards).map(Some)
    }

    /// Begins with the member that was busy.
    async fn take_one_by_one(&self, mut busy: usize) -> Result<Option<Vec<AnyGuard>>> {
        let mut kept = KEPT_FIRST;
        let mut rounds_end = self.begun.after(ROUNDS_TIME);
        loop {
            for round in 0..ROUNDS {
                if round > 0 && self.core.now() >= rounds_end {
                    break;
                }
                let Some(guard) = self.wait_for(busy, &[]).await? else {
                    return Ok(None);
                };
                match self.try_others(busy, guard).await? {
                    Round::Taken(guards) => return Ok(Some(guards)),
                    Round::Busy(_) if self.patience == Patience::None => return Ok(None),
                    Round::Busy(member) => busy = member,
                }
            }
            match self.take_in_order(kept).await? {
                None => return Ok(None),
                Some(Round::Taken(guards)) => return Ok(Some(guards)),
                Some(Round::Busy(member)) => busy = member,
            }
            kept = (kept * 2).min(KEPT_MOST);
            rounds_end = self.core.now().after(ROUNDS_TIME);
        }
    }

    /// Tries all members but one, which is held already.
    async fn try_others(&self, held: usize, guard: AnyGuard) -> Result<Round> {
        let others: Vec<usize> = (0..self.locks.len()).filter(|at| *at != held).collect();
        match self.take_together(&others).await? {
            Some(Round::Taken(mut guards)) => {
                guards.insert(held, guard);
                return Ok(Round::Taken(guards));
            }
            Some(Round::Busy(member)) => return Ok(Round::Busy(member)),
            None => {}
        }
        let mut held_guard = Some(guard);
        let mut guards = Vec::with_capacity(self.locks.len());
        for (member, lock) in self.locks.iter().enumerate() {
            let guard = match held_guard.take_if(|_| member == held) {
                Some(guard) => Some(guard),
                None => self.try_one(lock).await?,
            };
            match guard {
                Some(guard) => guards.push(guard),
                None => return Ok(Round::Busy(member)),
            }
        }
        Ok(Round::Taken(guards))
    }

    /// Takes these members in one call, if they are of one client and of kinds that can. `None`: they cannot.
    async fn take_together(&self, members: &[usize]) -> Result<Option<Round>> {
        let names: Option<Vec<(&OneName, &LockOptions)>> = members
            .iter()
            .filter_map(|member| self.locks.get(*member))
            .map(|lock| match &lock.target {
                Target::One(one) if Arc::ptr_eq(&one.alive.core, &self.core) => {
                    Some((one, &lock.options))
                }
                _ => None,
            })
            .collect();
        let names = names.unwrap_or_default();
        let Some((_, first)) = names.get(1) else {
            return Ok(None);
        };
        let request =
            |(one, options): &(&OneName, &LockOptions)| one.request(options, Patience::None);
        let requests: Result<Vec<_>> = names.iter().map(request).collect();
        let token = first.cancelled_by.as_ref();
        if token.is_some_and(CancellationToken::is_cancelled) {
            // The ordinary acquire says so.
            return Ok(None);
        }
        let taken = acquire_together(&self.core, &requests?, token).await;
        Ok(match taken {
            // One try would find them busy with what that call may have taken.
            Together::Unknown if !self.waits() => {
                let address = self.core.engine.address();
                let why = format!("{address} did not answer in time");
                let error = Error::unreachable(why).of(&self.name);
                let node = NodeError::new(address, error.clone());
                return Err(error.with_nodes(vec![node]));
            }
            Together::OneByOne | Together::Unknown => None,
            Together::Busy(row) => members.get(row).map(|member| Round::Busy(*member)),
            Together::Granted(holds) => {
                let guards = holds.into_iter().zip(&names);
                let guards = guards.map(|(hold, (one, _))| Guard::new(hold, one.alive.clone()));
                Some(Round::Taken(guards.collect()))
            }
        })
    }

    /// `None`: busy, or its server did not answer, and there is time to wait for that.
    async fn try_one(&self, lock: &AnyLock) -> Result<Option<AnyGuard>> {
        let tried = acquired(lock, Patience::None);
        let tried = match self.deadline {
            Some(deadline) => self.core.until(deadline, tried).await,
            None => Some(tried.await),
        };
        match tried {
            None => Ok(None),
            Some(Err(error)) if self.waits() && error.kind() == ErrorKind::Unreachable => Ok(None),
            Some(tried) => tried.map_err(|error| of_member(lock, error)),
        }
    }

    fn waits(&self) -> bool {
        self.patience != Patience::None
    }

    /// One member after the other, each with all the time that is left; those that are held are given back if the rest do not
    /// follow within `kept`. `None`: busy until the end of the time.
    async fn take_in_order(&self, kept: Duration) -> Result<Option<Round>> {
        let mut guards = Vec::with_capacity(self.locks.len());
        let mut end = None;
        for member in 0..self.locks.len() {
            let wait = self.wait_for(member, &guards);
            let taken = match end {
                None => Some(wait.await),
                Some(end) => self.core.until(end, wait).await,
            };
            end.get_or_insert_with(|| self.core.now().after(kept));
            match taken {
                Some(Ok(Some(guard))) => guards.push(guard),
                Some(Ok(None)) => return Ok(None),
                Some(Err(error)) => return Err(error),
                None => return Ok(Some(Round::Busy(member))),
            }
        }
        Ok(Some(Round::Taken(guards)))
    }

    /// Waits for one member, and meanwhile keeps those that are held. `None`: busy until the end of the time.
    async fn wait_for(&self, member: usize, held: &[AnyGuard]) -> Result<Option<AnyGuard>> {
        let Some(lock) = self.locks.get(member) else {
            return Ok(None);
        };
        let mut waiting = pin!(acquired(lock, self.patience_left()));
        let taken = loop {
            let Some(pause) = self.pause_of_renewals(held) else {
                break waiting.await;
            };
            let next = self.core.now().after(pause);
            match self.core.until(next, waiting.as_mut()).await {
                Some(taken) => break taken,
                None => self.start_leases_anew(held).await?,
            }
        };
        taken.map_err(|error| of_member(lock, self.timed_out(error)))
    }

    fn patience_left(&self) -> Patience {
        let left = self.deadline.map(|end| end.since(self.core.now()));
        match (self.patience, left) {
            (Patience::None, _) => Patience::None,
            (Patience::Asks(_), Some(left)) => Patience::Asks(left),
            (_, left) => Patience::Insists(left),
        }
    }

    /// The time that the whole call has waited, and not for the last member only.
    fn timed_out(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::TimedOut {
            return error;
        }
        let cause = ErrorCause::TimedOut {
            waited: self.core.now().since(self.begun),
            remaining: error.holder_remaining(),
        };
        match error.lock_name() {
            Some(name) => Error::new(cause).of(&name.into()),
            None => Error::new(cause),
        }
    }

    /// Fixed leases, which the keeper does not renew, with the members that have them.
    fn fixed_leases<'a>(
        &'a self,
        guards: &'a [AnyGuard],
    ) -> impl Iterator<Item = (Duration, &'a AnyLock, &'a AnyGuard)> {
        let of = |(lock, guard): (&'a AnyLock, &'a AnyGuard)| match lock.options.lease {
            Lease::Fixed(lease) => Some((lease, lock, guard)),
            Lease::Client | Lease::Watchdog(_) => None,
        };
        self.locks.iter().zip(guards).filter_map(of)
    }

    fn pause_of_renewals(&self, held: &[AnyGuard]) -> Option<Duration> {
        self.fixed_leases(held).map(|(lease, ..)| lease / 3).min()
    }

    /// A fixed lease counts from when the last member was taken.
    async fn start_leases_anew(&self, guards: &[AnyGuard]) -> Result<()> {
        let fixed: Vec<_> = self.fixed_leases(guards).collect();
        let work = fixed
            .iter()
            .map(|(lease, _, guard)| Box::pin(guard.renew(*lease)) as Boxed<Result<()>>);
        let results = gather(work, fixed.len()).await;
        for ((_, lock, _), result) in fixed.iter().zip(results) {
            if let Some(Err(error)) = result {
                return Err(of_member(lock, error));
            }
        }
        Ok(())
    }

    fn complete(self, guards: Vec<AnyGuard>) -> Result<Members> {
        let enough = Enough::All(guards.len());
        for guard in &guards {
            guard.ensure_held()?;
        }
        let mut guards = guards.into_iter();
        match guards.next() {
            Some(first) => Ok(Members::new(self.name, first, guards.collect(), enough)),
            None => Err(Error::lost(LostReason::Removed)),
        }
    }
}

/// Boxed, because a member may be a lock of several itself.
fn acquired(lock: &AnyLock, patience: Patience) -> Boxed<Result<Option<Guard<Any>>>> {
    Box::pin(lock.clone().acquire(patience))
}

fn of_member(lock: &AnyLock, error: Error) -> Error {
    match &lock.target {
        Target::One(one) => {
            let node = NodeError::new(one.alive.core.engine.address(), error.clone());
            error.with_nodes(vec![node])
        }
        Target::Multi(_) | Target::Quorum(_) => error,
    }
}
