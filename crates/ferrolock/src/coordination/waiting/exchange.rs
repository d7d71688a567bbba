//! A hold that becomes the first hold of another tenure, by one command.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::coordination::Core;
use crate::coordination::holding::hold::Hold;
use crate::coordination::waiting::attempt::{Attempted, Manner, attempt};
use crate::coordination::waiting::slot::{Answer, Found};
use crate::coordination::waiting::{Caller, Request, enter_with};
use crate::engine::RUNTIME_ENDED;
use crate::error::{Error, LostReason, Result};

/// Makes one attempt, whose scheme gives up `hold` for what it takes. `hold` is the last one of its tenure, as
/// [`begin_delay`](crate::coordination::Tenure::begin_delay) said.
///
/// Dropped before it is ready, or without an answer, it leaves nothing: what was taken is given back, and so is `hold`.
pub(crate) async fn exchange(
    core: &Arc<Core>,
    hold: &Arc<Hold>,
    request: Arc<Request>,
) -> Result<Arc<Hold>> {
    let taking = take(core, &request);
    hold.tenure.end_by(hold, taking).await
}

async fn take(core: &Arc<Core>, request: &Arc<Request>) -> Result<Arc<Hold>> {
    let mut caller = Caller {
        core,
        request,
        served: false,
        alarm: None,
    };
    let mut task = core
        .runtime()?
        .spawn(attempt_once(core.clone(), request.clone()));
    let found = poll_fn(|cx| {
        // The task first: it answers before it ends.
        let ended = Pin::new(&mut task).poll(cx);
        match (request.slot.poll(cx), ended) {
            (Poll::Ready(found), _) => Poll::Ready(Some(found)),
            (Poll::Pending, Poll::Ready(_)) => Poll::Ready(None),
            (Poll::Pending, Poll::Pending) => Poll::Pending,
        }
    });
    let found = found.await;
    caller.served = matches!(found, Some(Found::Granted(_) | Found::Answered(_)));
    let named = |error: Error| error.of(request.scheme.name());
    match found {
        Some(Found::Granted(hold)) => caller
            .accept(hold)
            .map_err(|(_, failure)| named(failure.into())),
        Some(Found::Answered(Answer::Failed(error))) => Err(error),
        Some(Found::Answered(Answer::Busy)) => Err(named(Error::lost(LostReason::Removed))),
        Some(Found::Withdrawn) => Err(named(Error::lost(LostReason::Expired))),
        None => Err(named(Error::closed(RUNTIME_ENDED))),
    }
}

/// In the client's runtime: the caller may be in another, or poll late.
async fn attempt_once(core: Arc<Core>, request: Arc<Request>) {
    let limit = core.settings.command_limit;
    let attempted = core
        .until(
            core.now().after(limit),
            attempt(&core, &request, Manner::FIRST),
        )
        .await;
    match attempted {
        Some(Attempted::Granted(grant)) => {
            let tenure = grant.tenure.clone();
            let hold = grant.give();
            hold.into_iter()
                .for_each(|hold| hold.offer_to(&request.as_entrant()));
            enter_with(&tenure);
        }
        Some(Attempted::Busy(_) | Attempted::Withdrawn) => {
            request.fail(Error::lost(LostReason::Removed));
        }
        Some(Attempted::TooLate(failure) | Attempted::Failed(failure)) => {
            request.fail(failure.into());
        }
        None => request.fail(core.no_answer(limit, core.engine.trouble())),
    }
}
