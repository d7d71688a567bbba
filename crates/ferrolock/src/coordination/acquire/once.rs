//! One attempt, for a caller that does not wait.

use std::sync::Arc;

use super::attempt::{Attempted, attempt};
use super::first::Begun;
use super::reenter::reenter;
use super::{Request, Stranded, enter_with};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Failure, Lane};
use crate::error::{Cause, Error};
use crate::figures;
use crate::options::Reentry;

/// Makes it, within the time that a command may take.
///
/// `first` is an attempt that is under way already.
pub(super) async fn attempt_once(core: Arc<Core>, stranded: Stranded, first: Option<Begun>) {
    let request = stranded.request.clone();
    let begun = request.begun;
    let limit = request.command_limit(&core);
    let mut work = std::pin::pin!(attempt_until_sent(&core, &request, first));
    let attempted = tokio::select! {
        biased;
        attempted = &mut work => attempted,
        () = core.sleep_until(limit) => {
            request.fail(core.no_answer(core.settings.command_limit, core.engine.trouble()));
            // A grant may still come, and is given back then.
            work.await
        }
    };
    match attempted {
        Attempted::Granted(grant) => {
            figures::granted("arrival", || core.now().since(begun));
            core.keeper().offer(grant.hold.clone(), &request);
            enter_with(&grant.hold.tenure);
        }
        Attempted::Busy(busy) => match (came_in(&core, &request).await, request.reentry) {
            (Some(_), Reentry::IsAnError) => request.fail(Error::new(Cause::WouldDeadlock)),
            (Some(tenure), Reentry::Enters) => reenter(tenure, request.clone()).await,
            (None, _) => request.busy(core.now().since(begun), Some(busy.rest)),
        },
        Attempted::TooLate(failure) | Attempted::Failed(failure) => request.fail(failure.into()),
        Attempted::Withdrawn => {}
    }
    stranded.told();
}

/// The tenure by which the owner came in on another way meanwhile; known when its other attempts are answered.
async fn came_in(core: &Arc<Core>, request: &Request) -> Option<Arc<Tenure>> {
    let limit = request.command_limit(core);
    loop {
        let told = {
            let mut desk = unpoisoned(&core.desk);
            let seat = desk.seat_if_any(request.scheme.subject())?;
            let inside = seat.live_tenure(&request.owner);
            if inside.is_some() || !seat.is_attempted_by(&request.owner) {
                return inside;
            }
            seat.next_answer()
        };
        tokio::select! {
            biased;
            () = told => {}
            () = core.sleep_until(limit) => return None,
        }
    }
}

/// Waits for our own releases of the name, then for a connection, then attempts.
async fn attempt_until_sent(
    core: &Arc<Core>,
    request: &Arc<Request>,
    mut first: Option<Begun>,
) -> Attempted {
    loop {
        if first.is_none() && !request.slot.is_waiting() {
            // Given up meanwhile.
            return Attempted::Withdrawn;
        }
        let released = unpoisoned(&core.desk)
            .seat_if_any(request.scheme.subject())
            .filter(|seat| seat.releases() > 0 && first.is_none())
            .map(|seat| seat.next_answer());
        if let Some(released) = released {
            released.await;
            continue;
        }
        let attempted = match first.take() {
            Some(begun) => begun.attempt.await,
            None => attempt(core, request).await,
        };
        match attempted {
            Attempted::Failed(failure @ Failure::NotSent(_)) => {
                tokio::select! {
                    biased;
                    () = core.engine.ready(Lane::Commands) => {}
                    // Given up meanwhile: not sent when the server is back.
                    () = request.slot.served() => return Attempted::Failed(failure),
                }
            }
            other => return other,
        }
    }
}
