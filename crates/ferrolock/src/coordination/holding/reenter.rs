//! An owner that holds the lock enters again: no queue, one more hold of the running tenure.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::holding::entrant::{Entrant, too_late};
use crate::coordination::holding::hold::Hold;
use crate::coordination::holding::release::{Unfinished, settle};
use crate::coordination::holding::stranded::Stranded;
use crate::coordination::keeper::kept::Settled;
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Lane, Tick};

/// The pause after a re-entry that could not be sent, or whose outcome is unknown.
const RETRY_MIN: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(80);

/// Enters, and fails at the caller's limit; a hold that comes later is given back.
pub(crate) fn reenter(
    tenure: Arc<Tenure>,
    entrant: Arc<dyn Entrant>,
) -> impl Future<Output = ()> + Send + 'static {
    enter_again(tenure, Stranded::new(entrant))
}

async fn enter_again(tenure: Arc<Tenure>, stranded: Stranded) {
    let entrant = stranded.entrant.clone();
    let core = &tenure.core;
    let begun = core.now();
    let limit = entrant.reentry_limit(core, begun);
    let served = entrant.served();
    let refused = unpoisoned(&tenure.state)
        .count
        .enter(entrant.clone())
        .is_err();
    if refused {
        // The tenure ended since the caller found it.
        tenure.not_inside(&*entrant);
        return stranded.told();
    }
    let work = async {
        // The runtime may end between two tries.
        let mut unfinished = Unfinished {
            tenure: Some(&tenure),
        };
        settle_until_quiet(&tenure).await;
        unfinished.tenure = None;
        // Another task may be sending for the tenure, and sends this too.
        served.await;
    };
    let mut work = std::pin::pin!(work);
    if core.until(limit, &mut work).await.is_none() {
        entrant.fail(core.no_answer(core.now().since(begun), core.engine.trouble()));
        work.await;
    }
    stranded.told();
}

/// Sends what the tenure has to send. If a command cannot be sent or its outcome is unknown, tries again when there is a
/// connection.
async fn settle_until_quiet(tenure: &Arc<Tenure>) {
    while settle(tenure, Lane::Commands).await == Settled::Again {
        tenure.core.engine.ready(Lane::Commands).await;
        let core = &tenure.core;
        let pause = core.random.between(RETRY_MIN, RETRY_MAX);
        core.sleep_until(core.now().after(pause)).await;
    }
}

impl Tenure {
    /// One more hold of this tenure, for that caller.
    pub(super) fn entered_again(self: &Arc<Self>, entrant: &Arc<dyn Entrant>, sent: Tick) {
        let terms = entrant.terms();
        let cap = terms.max_hold.map(|limit| sent.after(limit));
        let lease = terms.lease_at(sent, cap);
        let hold = Hold::new(self.clone(), terms, cap, sent, lease);
        unpoisoned(&self.state).members.push(hold.clone());
        let now = self.core.now();
        if now >= hold.deadline() {
            hold.retract();
            return entrant.too_late(&self.core, sent, too_late(now.since(sent), lease));
        }
        crate::figures::granted("reentry", || Duration::ZERO);
        hold.offer_to(entrant);
    }
}
