//! How a lock is acquired, whatever its kind.
//!
//! A name that no caller here holds or waits for is asked for by the caller's own future ([`first`]). Otherwise the caller
//! waits in a [`slot`], and its attempts are made in a task of the client's runtime: the [`driver`] of the name decides and
//! [`mod@drive`] acts, for `lock` and `try_lock` alike. An owner that holds the lock already enters again without queueing.
//! A grant is offered, and becomes the caller's when its future is polled.

pub(crate) mod attempt;
mod backlog;
mod drive;
pub(super) mod driver;
pub(crate) mod exchange;
pub(crate) mod first;
#[cfg(all(test, feature = "embedded"))]
mod first_tests;
pub(crate) mod group;
mod late;
pub(super) mod listen;
mod own_channel;
mod request;
mod server_place;
#[cfg(all(test, feature = "embedded"))]
mod silence_tests;
pub(super) mod slot;
mod strays;
#[cfg(all(test, feature = "embedded"))]
mod waiting_tests;

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio_util::sync::CancellationToken;

use crate::coordination::holding::count::Few;
use crate::coordination::holding::entrant::too_late;
use crate::coordination::holding::hold::Hold;
use crate::coordination::holding::reenter::reenter;
use crate::coordination::keeper::AlarmKey;
use crate::coordination::names::NameEntry;
use crate::coordination::waiting::backlog::wait_for_releases;
use crate::coordination::waiting::drive::drive;
use crate::coordination::waiting::driver::{Driver, Place};
use crate::coordination::waiting::first::Begun;
pub(crate) use crate::coordination::waiting::request::{Patience, Request};
use crate::coordination::waiting::slot::{Answer, Found};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Failure, Tick};
use crate::error::{Error, ErrorCause, Result};
use crate::options::Reentry;
use crate::protocol::scheme::OwnHold;

/// Waits for a hold. `None`: busy, for a call that returns that and no error.
///
/// Dropped before it is ready, it leaves nothing behind: a grant that comes later is given back.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    request: Arc<Request>,
    cancelled_by: Option<CancellationToken>,
) -> Result<Option<Arc<Hold>>> {
    if cancelled_by
        .as_ref()
        .is_some_and(CancellationToken::is_cancelled)
    {
        return Err(Error::new(ErrorCause::Cancelled).of(request.scheme.name()));
    }
    let mut caller = Caller {
        core,
        request: &request,
        served: false,
        alarm: None,
    };
    let cancelled = async {
        match &cancelled_by {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let mut cancelled = std::pin::pin!(cancelled);
    if core.pending.is_full() {
        let mut waits = std::pin::pin!(wait_for_releases(core, &request));
        let waited = poll_fn(|cx| match cancelled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(
                Error::new(ErrorCause::Cancelled).of(request.scheme.name())
            )),
            Poll::Pending => waits.as_mut().poll(cx),
        });
        waited.await?;
    }
    enter(core, &request, Place::Back)?;
    loop {
        let found = poll_fn(|cx| {
            // The slot first, so that it has the waker: another task may take the attempt over at any time.
            if let Poll::Ready(found) = request.slot.poll(cx) {
                return Poll::Ready(Some(found));
            }
            if let Poll::Ready((hold, alarm)) = first::poll(core, &request, cx) {
                caller.alarm = Some(alarm);
                return Poll::Ready(Some(Found::Granted(hold)));
            }
            cancelled.as_mut().poll(cx).map(|()| None)
        });
        let found = found.await;
        caller.served = matches!(found, Some(Found::Granted(_) | Found::Answered(_)));
        match found {
            Some(Found::Granted(hold)) => match caller.accept(hold) {
                Ok(hold) => return Ok(Some(hold)),
                Err((sent, failure)) => {
                    request.check_time_left(core, sent, failure)?;
                    request.slot.wait_again();
                    caller.served = false;
                    enter(core, &request, Place::Front)?;
                }
            },
            Some(Found::Answered(Answer::Busy)) => return Ok(None),
            Some(Found::Answered(Answer::Failed(error))) => return Err(error),
            Some(Found::Withdrawn) => enter(core, &request, Place::Front)?,
            None => return Err(Error::new(ErrorCause::Cancelled).of(request.scheme.name())),
        }
    }
}

/// Cleans up behind a caller's future that is dropped.
struct Caller<'a> {
    core: &'a Arc<Core>,
    request: &'a Arc<Request>,
    /// It has its hold or its answer, and is no longer in a line.
    served: bool,
    /// Of a first attempt that was granted.
    alarm: Option<AlarmKey>,
}

impl Caller<'_> {
    /// Takes the hold, unless its time is over: a caller may come late for its offer, and a machine may sleep.
    fn accept(&mut self, hold: Arc<Hold>) -> std::result::Result<Arc<Hold>, (Tick, Failure)> {
        let keeper = self.core.keeper();
        let alarm = self.alarm.take();
        let now = self.core.now();
        if now >= hold.deadline() {
            alarm.into_iter().for_each(|alarm| keeper.cancel(alarm));
            let sent = hold.since;
            let failure = too_late(now.since(sent), hold.terms.lease);
            hold.retract();
            return Err((sent, failure));
        }
        keeper.accept(hold.clone(), alarm);
        if let Some(task) = tokio::task::try_id() {
            let _ = hold.task.set(task);
        }
        Ok(hold)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        // The slot first: a task that has taken the attempt over looks there whether the caller still waits.
        let offered = match self.served {
            true => None,
            false => self.request.slot.abandon(),
        };
        first::abandon(self.core, self.request);
        if self.served {
            return;
        }
        if let Some(hold) = offered {
            self.core.keeper().forget(&*hold);
            hold.release_in_background();
        }
        let mut names = unpoisoned(&self.core.names);
        if let Some(entry) = names.entry_if_any(self.request.scheme.subject())
            && let Some(driver) = &mut entry.driver
            && !driver
                .take(|other| Arc::ptr_eq(other, self.request))
                .is_empty()
        {
            entry.tell_driver();
        }
    }
}

/// Starts what the request needs: a re-entry, its first attempt, or a place in the line.
fn enter(core: &Arc<Core>, request: &Arc<Request>, place: Place) -> Result<()> {
    let runtime = core.runtime()?;
    if let Some(tenure) = &request.into {
        core.check_open()
            .map_err(|error| error.of(request.scheme.name()))?;
        runtime.spawn(reenter(tenure.clone(), request.clone()));
        return Ok(());
    }
    if request.scheme.sibling().is_some() {
        unpoisoned(&core.names).check_own_hold(request)?;
    }
    if place == Place::Front {
        request.begins_at(core.now());
    }
    let may_begin = place == Place::Back || request.scheme.waiting().is_shared;
    if may_begin && first::begin(core, request) {
        return Ok(());
    }
    queue(core, request, place, None)
}

/// Starts a re-entry if the owner holds the lock, else puts the request in the line of its name.
///
/// `begun` is the first attempt of this very request. Only [`first`] brings one: when the attempt was not granted, or when
/// it is under way and the caller has not polled for a while.
fn queue(
    core: &Arc<Core>,
    request: &Arc<Request>,
    place: Place,
    begun: Option<Begun>,
) -> Result<()> {
    let runtime = core.runtime()?;
    let mut names = unpoisoned(&core.names);
    // A shutdown turns away the requests that are in the table by then; those that come later fail here.
    core.check_open()
        .map_err(|error| error.of(request.scheme.name()))?;
    if begun.is_some() {
        names.clear_first(request);
    }
    if begun.is_some() && !request.slot.is_waiting() {
        // The caller has gone while the attempt was handed over, and may have looked for itself in the line already:
        // it would stay there. A caller that goes later finds itself in the line, under the lock of the table.
        drop(names);
        if let Some(begun) = begun {
            runtime.spawn(first::release_in_background(begun.attempt));
        }
        return Ok(());
    }
    if let Some(tenure) = names.live_tenure(request.scheme.subject(), &request.owner) {
        drop(names);
        if let Some(begun) = begun {
            runtime.spawn(first::release_in_background(begun.attempt));
        }
        if request.reentry == Reentry::IsAnError {
            return Err(Error::new(ErrorCause::WouldDeadlock).of(request.scheme.name()));
        }
        runtime.spawn(reenter(tenure, request.clone()));
        return Ok(());
    }
    if let Err(error) = names.check_own_hold(request) {
        drop(names);
        begun.into_iter().for_each(|begun| {
            runtime.spawn(first::release_in_background(begun.attempt));
        });
        return Err(error);
    }
    let line = join_line(
        core,
        names.entry(request.scheme.subject()),
        request,
        place,
        begun,
    );
    drop(names);
    if line.waits_for_itself && !core.told.waits_for_itself.swap(true, Ordering::Relaxed) {
        tracing::warn!(
            lock = %request.scheme.name(),
            "a task waits for a lock that it holds itself: give both calls one owner (Owner::scope, owned_by, relock)"
        );
    }
    for begun in line.given_up {
        runtime.spawn(first::release_in_background(begun.attempt));
    }
    if !line.driven {
        runtime.spawn(drive(core.clone(), request.scheme.clone()));
    }
    Ok(())
}

/// What is to be done when a request has joined a line, and the table of names is free again.
struct Joined {
    /// The caller's task holds the name, by another owner.
    waits_for_itself: bool,
    /// The driver's task runs already.
    driven: bool,
    /// Attempts that are not needed, because the driver goes on with another one: a grant of theirs is given back.
    given_up: Few<Begun>,
}

/// Puts the request in the line, and before it the caller that makes its first attempt by itself at this moment, if any.
///
/// Each of the two may bring an attempt, always its own: `begun`, and the one that is taken over from `entry.first`. A grant
/// goes to the request that its attempt was sent for. The driver goes on with one attempt at most.
fn join_line(
    core: &Arc<Core>,
    entry: &mut NameEntry,
    request: &Arc<Request>,
    place: Place,
    begun: Option<Begun>,
) -> Joined {
    let (now, round_trip) = (core.now(), core.engine.round_trip());
    let waits_for_itself = tokio::task::try_id().is_some_and(|task| entry.is_held_in(task));
    let releases = entry.releases();
    let driver = entry.driver.get_or_insert_with(|| {
        let mut driver = Driver::new(
            request.scheme.waiting(),
            core.settings.unreachable_after,
            core.random.seed(),
        );
        (0..releases).for_each(|_| driver.release_begins(now));
        Box::new(driver)
    });
    let driven = std::mem::replace(&mut entry.driven, true);
    let mut given_up = Few::new();
    let goes_on = &mut entry.goes_on;
    let mut join = |request: &Arc<Request>, place, since, begun: Option<Begun>| {
        let times = (since, request.deadline, request.stay(core));
        let id = driver.join(now, request.clone(), times, place, round_trip);
        if request.has_place() {
            driver.keep_place(now, id, request.scheme.waiting());
        }
        match begun {
            Some(begun) if driver.is_attempting() => given_up.push(begun),
            Some(begun) => {
                driver.goes_on(id, begun.sent);
                *goes_on = Some((id, begun));
            }
            None => {}
        }
    };
    // The caller that came first goes first, with its attempt. The answer does not count for requests that came after the
    // attempt was sent. If the caller is about to read the answer, `adopt` gets nothing: the attempt stays with the caller.
    if let Some(other) = &entry.first
        && let Some(begun) = first::adopt(core, other)
    {
        join(other, Place::Back, other.begun, Some(begun));
        entry.first = None;
    }
    let since = match (place, &begun) {
        (Place::Front, None) => now,
        _ => request.begun,
    };
    join(request, place, since, begun);
    if request.scheme.waiting().is_shared {
        driver.let_others_by(|request| request.scheme.yields());
    }
    if driven {
        entry.tell_driver();
    }
    Joined {
        waits_for_itself,
        driven,
        given_up,
    }
}

/// Other requests of that owner that wait for the name enter with this tenure.
pub(crate) fn enter_with(tenure: &Arc<Tenure>) {
    let core = &tenure.core;
    tell_sibling(tenure);
    let mut names = unpoisoned(&core.names);
    let Some(entry) = names.entry_if_any(tenure.scheme.subject()) else {
        return;
    };
    // Only now may the driver send attempts for the remaining waiters.
    entry.first_ended(|first| first.owner == tenure.owner);
    let Some(driver) = &mut entry.driver else {
        return;
    };
    let same = driver.take(|request| request.owner == tenure.owner);
    // With one holder of a shared kind inside, the others need not wait for each other's answers. Of one that did not yield
    // those that do learn nothing.
    let others = match tenure.scheme.waiting().is_shared {
        true => driver.take(|request| tenure.scheme.yields() || !request.scheme.yields()),
        false => Vec::new(),
    };
    drop(names);
    others.iter().for_each(|request| request.slot.start_over());
    for request in same {
        request.abandon_place();
        match (request.reentry, core.runtime()) {
            (Reentry::IsAnError, _) => request.fail(Error::new(ErrorCause::WouldDeadlock)),
            (Reentry::Enters, Ok(runtime)) => drop(runtime.spawn(reenter(tenure.clone(), request))),
            (Reentry::Enters, Err(error)) => request.fail(error),
        }
    }
}

/// Requests of that owner in the sibling line get in beside this tenure, or would wait for it.
fn tell_sibling(tenure: &Arc<Tenure>) {
    let Some(sibling) = tenure.scheme.sibling() else {
        return;
    };
    let mut names = unpoisoned(&tenure.core.names);
    let entry = names.entry_if_any(&sibling.subject);
    let Some(driver) = entry.and_then(|entry| entry.driver.as_mut()) else {
        return;
    };
    let beside = driver.take(|request| request.owner == tenure.owner);
    drop(names);
    for request in beside {
        match request.scheme.sibling().map(|sibling| sibling.own_hold) {
            Some(OwnHold::Blocks) => request.fail(Error::new(ErrorCause::WouldDeadlock)),
            Some(OwnHold::LetsIn) | None => request.slot.start_over(),
        }
    }
}
