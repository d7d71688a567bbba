//! The first attempt at a name that no call of this client holds or waits for: made by the caller's own future.
//!
//! Most locks are free, and this way needs no task and no line, and of timers only an alarm of the keeper. The attempt is handed over to the driver of the
//! name when it was not granted, when another call of this client comes for the name, and when the caller has not polled
//! for a while: a lock that is granted to a future that is not polled must not stay taken.
//!
//! Every way out of here drops the attempt or hands it on. Nothing here releases the field of an attempt without an answer:
//! its drop makes that a debt of the keeper (`Drop for Attempt`).

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::{AlarmKey, Alarmed, offer_time};
use crate::coordination::waiting::attempt::{Attempt, Attempted, Grant, explained};
use crate::coordination::waiting::driver::Place;
use crate::coordination::waiting::{Patience, Request, enter_with, queue};
use crate::coordination::{Core, safely, unpoisoned};
use crate::engine::{Boxed, Tick};
use crate::figures;

/// A caller's first attempt, and the keeper's alarm in case that the caller does not poll.
pub(super) struct First {
    attempt: Attempt,
    alarm: AlarmKey,
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("First")
    }
}

/// An attempt that was taken over from its caller, and when it was sent.
pub(crate) struct Begun {
    pub(super) sent: Tick,
    pub(super) attempt: Boxed<Attempted>,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begun")
    }
}

/// How long a caller may leave its attempt without a poll.
fn patience(core: &Core, request: &Request, now: Tick) -> Duration {
    let limit = match (request.patience, request.deadline) {
        (Patience::None, _) => request.command_limit(core).since(now),
        (_, Some(deadline)) => deadline.since(now),
        (_, None) => core.settings.unreachable_after,
    };
    offer_time(&request.terms).min(limit / 2)
}

/// Makes the request's first attempt. False: a call of this client holds the name or waits for it, or there is no time.
pub(crate) fn begin(core: &Arc<Core>, request: &Arc<Request>) -> bool {
    // Not the time when the call began: it may have waited for releases before.
    let now = core.now();
    let patience = patience(core, request, now);
    if patience.is_zero() || !unpoisoned(&core.names).is_open_to(request) {
        return false;
    }
    let mut attempt = Attempt::new(core, request, now);
    // Before the lock: the first use of the keeper starts its thread, and writes to the log if that fails.
    let keeper = core.keeper();
    let mut names = unpoisoned(&core.names);
    if core.check_open().is_err() || !names.claim_first(request, attempt.tenure()) {
        // The attempt is dropped without a debt: it is sent by its first poll.
        return false;
    }
    attempt.shown();
    // Locked first: the alarm may ring at once, and must find the attempt in its place.
    let mut place = unpoisoned(&request.first);
    let alarm = keeper.alarm_for(core, now.after(patience), request.clone(), 0);
    *place = Some(First { attempt, alarm });
    true
}

/// Ready when the first attempt was granted, with the alarm, which is no longer needed. Any other outcome goes to the driver
/// of the name, which answers the caller or tries again.
pub(super) fn poll(
    core: &Arc<Core>,
    request: &Arc<Request>,
    cx: &mut Context<'_>,
) -> Poll<(Arc<Hold>, AlarmKey)> {
    let mut place = unpoisoned(&request.first);
    let Some(first) = &mut *place else {
        return Poll::Pending;
    };
    let reply = ready!(first.attempt.poll_reply(cx));
    let taken = place.take();
    drop(place);
    let Some(First { mut attempt, alarm }) = taken else {
        return Poll::Pending;
    };
    match attempt.read(reply) {
        Attempted::Granted(grant) => {
            let waited = || core.now().since(request.begun);
            safely(|| {
                figures::granted("arrival", waited);
                tracing::debug!(lock = %request.scheme.name(), owner = %grant.tenure.id, cause = "arrival", waited = ?waited(), "granted");
            });
            if attempt.is_awaited {
                enter_with(&grant.tenure);
            }
            match grant.give() {
                Some(hold) => Poll::Ready((hold, alarm)),
                None => Poll::Pending,
            }
        }
        attempted => {
            core.keeper().cancel(alarm);
            let sent = attempt.sent;
            // If the outcome is unknown, this drop makes the debt for the field.
            drop(attempt);
            hand_over(core, request, sent, std::future::ready(attempted));
            Poll::Pending
        }
    }
}

impl Alarmed for Request {
    fn ring(self: Arc<Self>, _: u32) {
        overdue(&self);
    }
}

/// The alarm has rung: the caller has not polled for a while.
fn overdue(request: &Arc<Request>) {
    let taken = unpoisoned(&request.first).take();
    let Some(First { mut attempt, .. }) = taken else {
        return;
    };
    let core = &attempt.tenure().core.clone();
    let Poll::Ready(reply) = attempt.poll_reply(&mut Context::from_waker(Waker::noop())) else {
        return hand_over(core, request, attempt.sent, attempt);
    };
    match attempt.read(reply) {
        Attempted::Granted(grant)
            if core.now() < attempt.sent.after(offer_time(&request.terms)) =>
        {
            let tenure = grant.tenure.clone();
            let hold = grant.give();
            hold.into_iter()
                .for_each(|hold| hold.offer_to(&request.as_entrant()));
            enter_with(&tenure);
        }
        // The caller was woken and has not polled: the grant goes back, as with an offer that is not taken.
        Attempted::Granted(grant) => {
            withdraw(grant, request);
            unpoisoned(&core.names).clear_first(request);
        }
        attempted => {
            let sent = attempt.sent;
            // As in `poll`: this drop makes the debt.
            drop(attempt);
            hand_over(core, request, sent, std::future::ready(attempted));
        }
    }
}

fn withdraw(grant: Grant, request: &Request) {
    drop(grant);
    request.slot.start_over();
    figures::offer_withdrawn();
    tracing::debug!(lock = %request.scheme.name(), "grant given back: its future was not polled");
}

/// Takes the attempt over from the caller, for another request that comes for the same name. `None`: the caller, or its
/// alarm, has taken it out and reads its answer at this moment.
pub(crate) fn adopt(core: &Arc<Core>, request: &Arc<Request>) -> Option<Begun> {
    let First { attempt, alarm } = unpoisoned(&request.first).take()?;
    core.keeper().cancel(alarm);
    Some(begun(core, request, attempt.sent, attempt))
}

/// The caller has gone: a grant to its attempt is given back.
pub(crate) fn abandon(core: &Arc<Core>, request: &Arc<Request>) {
    let Some(First { attempt, alarm }) = unpoisoned(&request.first).take() else {
        return;
    };
    core.keeper().cancel(alarm);
    unpoisoned(&core.names).clear_first(request);
    // With an answer, a grant is released. If the answer stays out, or the runtime has ended or ends before, the attempt is
    // dropped, which makes the debt. One that was not sent is dropped without a debt.
    if attempt.was_sent()
        && let Ok(runtime) = core.runtime()
    {
        runtime.spawn(release_in_background(Box::pin(attempt)));
    }
}

/// Waits for the answer, and drops it: a grant is given back. Without an answer the drop of the attempt makes the debt.
pub(super) async fn release_in_background(attempt: Boxed<Attempted>) {
    drop(attempt.await);
}

fn hand_over(
    core: &Arc<Core>,
    request: &Arc<Request>,
    sent: Tick,
    attempt: impl Future<Output = Attempted> + Send + 'static,
) {
    let begun = begun(core, request, sent, attempt);
    if let Err(error) = queue(core, request, Place::Front, Some(begun)) {
        unpoisoned(&core.names).clear_first(request);
        request.fail(error);
    }
}

fn begun(
    core: &Arc<Core>,
    request: &Arc<Request>,
    sent: Tick,
    attempt: impl Future<Output = Attempted> + Send + 'static,
) -> Begun {
    let (core, scheme) = (core.clone(), request.scheme.clone());
    let attempt = Box::pin(async move { explained(&core, &*scheme, attempt).await });
    Begun { sent, attempt }
}
