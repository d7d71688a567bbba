//! One attempt at a first hold, and what becomes of a reply that nobody waits for any more.

use std::sync::Arc;

use super::Request;
use crate::coordination::errands::{Errand, Length};
use crate::coordination::hold::Hold;
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Failure, Lane};
use crate::protocol::lock::{self, Attempt, LockKeys, Rest};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(Arc<Hold>),
    Busy(Rest),
    Failed(Failure),
}

/// Sends one acquire under a field never used before, and follows it to its end.
///
/// An outcome that stays unknown, also because this future is dropped, leaves a debt: the field is released again and
/// again until it cannot come late any more. The next attempt uses another field.
pub(crate) async fn attempt(core: &Arc<Core>, request: &Request) -> Attempted {
    let _errand = Errand::new(core, Length::Brief);
    let tenure = core.new_tenure(request);
    let _attempting = Attempting::new(&tenure);
    let sent = core.now();
    let cap = request.terms.max_hold.map(|limit| sent.after(limit));
    let lease = request.terms.lease_at(sent, cap);
    let call = lock::acquire(&tenure.keys, &tenure.bearer, lease);
    let mut owed = Owed {
        tenure: Some(&tenure),
        lease,
    };
    let reply = core.engine.call(Lane::Commands, call).await;
    if !matches!(reply, Err(Failure::Unknown(_))) {
        owed.tenure = None;
    }
    match reply.map(lock::read_acquire) {
        Ok(Ok(Attempt::Granted)) => {
            let hold = Hold::new(tenure.clone(), request.terms, cap, sent, lease);
            tenure.moved_in(&hold);
            Attempted::Granted(hold)
        }
        Ok(Ok(Attempt::Busy(rest))) => Attempted::Busy(rest),
        Ok(Err(bad)) => Attempted::Failed(bad.into()),
        Err(failure) => Attempted::Failed(explain(core, &tenure.keys, failure).await),
    }
}

/// A refusal for the type of the key names the type found.
pub(crate) async fn explain(core: &Core, keys: &LockKeys, failure: Failure) -> Failure {
    let Failure::Refused { code, message } = failure else {
        return failure;
    };
    if code != "WRONGTYPE" {
        return Failure::Refused { code, message };
    }
    let kind = core.engine.call(Lane::Commands, lock::kind_of(keys)).await;
    Failure::Refused {
        code,
        message: lock::wrong_type(keys, kind.ok()),
    }
}

/// Whether somebody who waits for a lock also waits until the server no longer answers so.
pub(crate) fn waits_out(code: &str) -> bool {
    const PASSING: [&str; 8] = [
        "LOADING",
        "BUSY",
        "READONLY",
        "TRYAGAIN",
        "CLUSTERDOWN",
        "MASTERDOWN",
        "MOVED",
        "ASK",
    ];
    PASSING.contains(&code)
}

/// Shows an attempt to other calls of its owner, who are not to find the name busy with themselves.
struct Attempting<'a> {
    tenure: &'a Tenure,
}

impl<'a> Attempting<'a> {
    fn new(tenure: &'a Tenure) -> Self {
        unpoisoned(&tenure.core.desk).attempt_begins(&tenure.keys.lock, &tenure.owner);
        Self { tenure }
    }
}

impl Drop for Attempting<'_> {
    fn drop(&mut self) {
        let tenure = self.tenure;
        unpoisoned(&tenure.core.desk).attempt_ended(&tenure.keys.lock, &tenure.owner);
    }
}

/// A field whose acquire may have run, or may still run.
struct Owed<'a> {
    tenure: Option<&'a Arc<Tenure>>,
    lease: std::time::Duration,
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        if let Some(tenure) = self.tenure {
            tenure.core.keeper().owe_field(tenure, self.lease);
        }
    }
}

impl Tenure {
    /// The first acquire was granted.
    fn moved_in(self: &Arc<Self>, hold: &Arc<Hold>) {
        let mut desk = unpoisoned(&self.core.desk);
        desk.moved_in(self);
        let mut state = unpoisoned(&self.state);
        state.count.entered();
        state.members.push(hold.clone());
    }
}
