//! An owner who is inside enters again: no queue, one more hold of the running tenure.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::holding::hold::Hold;
use crate::coordination::holding::release::{Settled, Unfinished, settle};
use crate::coordination::holding::stranded::Stranded;
use crate::coordination::waiting::attempt::too_late;
use crate::coordination::waiting::driver::LAST_ANSWER;
use crate::coordination::waiting::{Patience, Request};
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::Lane;

/// The pause after a re-entry that could not be sent, or whose outcome is unknown.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(80);

/// Enters, and gives up at the request's limit; what comes later is given back.
pub(crate) fn reenter(
    tenure: Arc<Tenure>,
    request: Arc<Request>,
) -> impl Future<Output = ()> + Send + 'static {
    enter_again(tenure, Stranded::new(request))
}

async fn enter_again(tenure: Arc<Tenure>, stranded: Stranded) {
    let request = stranded.request.clone();
    let core = &tenure.core;
    let begun = core.now();
    let limit = match (request.deadline, request.patience) {
        (_, Patience::None) => request.command_limit(core),
        (Some(deadline), _) => deadline.max(begun).after(LAST_ANSWER),
        (None, _) => begun.after(core.settings.unreachable_after),
    };
    let served = request.slot.served();
    let refused = unpoisoned(&tenure.state)
        .count
        .enter(request.clone())
        .is_err();
    if refused {
        // It ended between the look and the step.
        tenure.not_inside(&request);
        return stranded.told();
    }
    let work = async {
        // The runtime may end between two tries.
        let mut unfinished = Unfinished {
            tenure: Some(&tenure),
        };
        settle_until_quiet(&tenure).await;
        unfinished.tenure = None;
        // Somebody else may be sending for the tenure, and sends this too.
        served.await;
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        () = &mut work => {}
        () = core.sleep_until(limit) => {
            request.fail(core.no_answer(core.now().since(begun), core.engine.trouble()));
            work.await;
        }
    }
    stranded.told();
}

/// Runs what the tenure has to send; when a command cannot be sent or its outcome is unknown, again with a connection.
async fn settle_until_quiet(tenure: &Arc<Tenure>) {
    while settle(tenure, Lane::Commands).await == Settled::Again {
        tenure.core.engine.ready(Lane::Commands).await;
        let core = &tenure.core;
        let pause = core.random.between(RETRY_MIN, RETRY_MAX);
        core.sleep_until(core.now().after(pause)).await;
    }
}

impl Tenure {
    /// One more hold of this tenure, for that request.
    pub(crate) fn entered_again(
        self: &Arc<Self>,
        request: &Arc<Request>,
        sent: crate::engine::Tick,
    ) {
        let cap = request.terms.max_hold.map(|limit| sent.after(limit));
        let lease = request.terms.lease_at(sent, cap);
        let hold = Hold::new(self.clone(), request.terms, cap, sent, lease);
        unpoisoned(&self.state).members.push(hold.clone());
        let now = self.core.now();
        if now >= hold.deadline() {
            hold.retract();
            return request.too_late(&self.core, sent, too_late(now.since(sent), lease));
        }
        crate::figures::granted("reentry", || Duration::ZERO);
        self.core.keeper().offer(hold, request);
    }
}
