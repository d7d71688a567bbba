//! The first attempt at a name that nobody here holds or waits for: made by the caller's own future.
//!
//! Most locks are free, and this way needs no task, no timer and no line. The attempt is handed over to those who go on
//! with it when it was not granted, when somebody else here comes for the name, and when the caller has not
//! polled for a while: what is granted to a future that sleeps must not stay taken.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::{AlarmKey, offer_time};
use crate::coordination::waiting::attempt::{Attempt, Attempted, Grant, explained};
use crate::coordination::waiting::driver::Place;
use crate::coordination::waiting::{Patience, Request, enter_with, queue};
use crate::coordination::{Core, unpoisoned};
use crate::engine::{Boxed, Tick};
use crate::figures;

/// A caller's first attempt, and the keeper's alarm for a caller who does not come to look.
pub(crate) struct First {
    attempt: Attempt,
    alarm: AlarmKey,
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("First")
    }
}

/// An attempt that somebody else goes on with, and when it was sent.
pub(crate) struct Begun {
    pub(crate) sent: Tick,
    pub(crate) attempt: Boxed<Attempted>,
}

impl fmt::Debug for Begun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Begun")
    }
}

/// How long a caller may leave its attempt alone.
fn patience(core: &Core, request: &Request, now: Tick) -> Duration {
    let limit = match (request.patience, request.deadline) {
        (Patience::None, _) => request.command_limit(core).since(now),
        (_, Some(deadline)) => deadline.since(now),
        (_, None) => core.settings.unreachable_after,
    };
    offer_time(&request.terms).min(limit / 2)
}

/// Makes the request's first attempt, unless somebody here holds the name or waits for it.
pub(super) fn begin(core: &Arc<Core>, request: &Arc<Request>) -> bool {
    // Not when the call began: it may have waited for room before.
    let now = core.now();
    let patience = patience(core, request, now);
    if patience.is_zero() || unpoisoned(&core.names).is_known(request.scheme.subject()) {
        return false;
    }
    let mut attempt = Attempt::new(core, request, now);
    let mut names = unpoisoned(&core.names);
    if core.check_open().is_err() || !names.claim_first(request, attempt.tenure()) {
        return false;
    }
    attempt.shown();
    // Taken first: the alarm may ring at once.
    let mut place = unpoisoned(&request.first);
    let alarm = core
        .keeper()
        .alarm_first(core, request, now.after(patience));
    *place = Some(First { attempt, alarm });
    true
}

/// Ready when the first attempt was granted, with the alarm that is not needed any more; whatever else it brings, others
/// go on with it.
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
            let hold = grant.hold.clone();
            let waited = || core.now().since(request.begun);
            figures::granted("arrival", waited);
            tracing::debug!(lock = %request.scheme.name(), owner = %hold.tenure.id, cause = "arrival", waited = ?waited(), "granted");
            if attempt.is_awaited {
                enter_with(&hold.tenure);
            }
            Poll::Ready((hold, alarm))
        }
        attempted => {
            core.keeper().cancel(alarm);
            let sent = attempt.sent;
            drop(attempt);
            hand_over(core, request, sent, std::future::ready(attempted));
            Poll::Pending
        }
    }
}

/// The caller has not come to look for a while.
pub(crate) fn overdue(core: &Arc<Core>, request: &Arc<Request>) {
    let taken = unpoisoned(&request.first).take();
    let Some(First { mut attempt, .. }) = taken else {
        return;
    };
    let Poll::Ready(reply) = attempt.poll_reply(&mut Context::from_waker(Waker::noop())) else {
        return hand_over(core, request, attempt.sent, attempt);
    };
    match attempt.read(reply) {
        Attempted::Granted(grant)
            if core.now() < attempt.sent.after(offer_time(&request.terms)) =>
        {
            core.keeper().offer(grant.hold.clone(), request);
            enter_with(&grant.hold.tenure);
        }
        // It was woken, and did not come: as with an offer that nobody takes.
        Attempted::Granted(grant) => {
            withdraw(grant, request);
            unpoisoned(&core.names).clear_first(request);
        }
        attempted => {
            let sent = attempt.sent;
            drop(attempt);
            hand_over(core, request, sent, std::future::ready(attempted));
        }
    }
}

fn withdraw(grant: Grant, request: &Request) {
    grant.release_in_background();
    request.slot.start_over();
    figures::offer_withdrawn();
    tracing::debug!(lock = %request.scheme.name(), "grant given back: its future was not polled");
}

/// Takes the attempt out of the caller's hands, for whoever comes for the same name.
pub(super) fn adopt(core: &Arc<Core>, request: &Arc<Request>) -> Option<Begun> {
    let First { attempt, alarm } = unpoisoned(&request.first).take()?;
    core.keeper().cancel(alarm);
    Some(begun(core, request, attempt.sent, attempt))
}

/// The caller has gone: what it is granted goes back.
pub(super) fn abandon(core: &Arc<Core>, request: &Arc<Request>) {
    let Some(First { attempt, alarm }) = unpoisoned(&request.first).take() else {
        return;
    };
    core.keeper().cancel(alarm);
    unpoisoned(&core.names).clear_first(request);
    if attempt.was_sent()
        && let Ok(runtime) = core.runtime()
    {
        runtime.spawn(release_in_background(Box::pin(attempt)));
    }
}

/// Gives back what comes.
pub(super) async fn release_in_background(attempt: Boxed<Attempted>) {
    if let Attempted::Granted(grant) = attempt.await {
        grant.release_in_background();
    }
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
