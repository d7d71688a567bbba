//! One attempt at a first hold, and what becomes of a reply that nobody waits for any more.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use super::Request;
use crate::coordination::errands::{Errand, Length};
use crate::coordination::hold::Hold;
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Calling, Failure, Lane, Tick};
use crate::error::refusal_passes;
use crate::options::Terms;
use crate::protocol::lock::{self, LockKeys, Rest};
use crate::protocol::script::Value;

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(Arc<Hold>),
    Busy(Rest),
    Failed(Failure),
}

/// One acquire under a field never used before: sent when it is first polled, ready when it is answered.
///
/// An outcome that stays unknown, also because this is dropped, leaves a debt: the field is released again and again
/// until it cannot come late any more. The next attempt uses another field.
pub(crate) struct Attempt {
    tenure: Arc<Tenure>,
    terms: Terms,
    /// When it was made: not later than it was sent.
    pub(crate) sent: Tick,
    cap: Option<Tick>,
    lease: Duration,
    reply: Calling,
    stage: Stage,
    /// It was granted, and others here wait for the name.
    pub(crate) is_awaited: bool,
    _errand: Errand,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Made,
    /// It lies on the desk: other calls of its owner are not to find the name busy with themselves.
    Shown,
    /// It may have run, or may still run.
    Sent,
    Answered,
}

impl Attempt {
    pub(crate) fn new(core: &Arc<Core>, request: &Request, now: Tick) -> Self {
        let tenure = core.new_tenure(request);
        let cap = request.terms.max_hold.map(|limit| now.after(limit));
        let lease = request.terms.lease_at(now, cap);
        let call = lock::acquire(&tenure.keys, &tenure.bearer, lease);
        Self {
            reply: core.engine.call(Lane::Commands, call),
            tenure,
            terms: request.terms,
            sent: now,
            cap,
            lease,
            stage: Stage::Made,
            is_awaited: false,
            _errand: Errand::new(core, Length::Brief),
        }
    }

    /// Its owner was noted on the desk.
    pub(crate) fn shown(&mut self) {
        self.stage = Stage::Shown;
    }

    pub(crate) fn was_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Answered)
    }

    /// What came back. Takes no lock of ours but to show the attempt, once.
    pub(crate) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Failure>> {
        if self.stage == Stage::Made {
            let tenure = &self.tenure;
            unpoisoned(&tenure.core.desk).attempt_begins(&tenure.keys.lock, &tenure.owner);
        }
        self.stage = Stage::Sent;
        Pin::new(&mut self.reply).poll(cx)
    }

    /// What it means.
    pub(crate) fn read(&mut self, reply: Result<Value, Failure>) -> Attempted {
        let reply = reply.and_then(|reply| Ok(lock::read_acquire(reply)?));
        match reply {
            Ok(lock::Attempt::Granted) => {
                self.stage = Stage::Answered;
                let tenure = self.tenure.clone();
                tenure.asks_for(self.sent, self.lease);
                let hold = Hold::new(tenure, self.terms, self.cap, self.sent, self.lease);
                self.is_awaited = self.tenure.moved_in(&hold);
                Attempted::Granted(hold)
            }
            Ok(lock::Attempt::Busy(rest)) => {
                self.stage = Stage::Shown;
                Attempted::Busy(rest)
            }
            Err(failure @ Failure::Unknown(_)) => Attempted::Failed(failure),
            Err(failure) => {
                self.stage = Stage::Shown;
                Attempted::Failed(failure)
            }
        }
    }
}

impl Future for Attempt {
    type Output = Attempted;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Attempted> {
        let reply = ready!(self.poll_reply(cx));
        Poll::Ready(self.read(reply))
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let tenure = &self.tenure;
        if matches!(self.stage, Stage::Shown | Stage::Sent) {
            unpoisoned(&tenure.core.desk).attempt_ended(&tenure.keys.lock, &tenure.owner);
        }
        if self.stage == Stage::Sent {
            tenure.core.keeper().owe_field(tenure, self.lease);
        }
    }
}

/// Makes an attempt and follows it to its end; a refusal for the type of the key names the type found.
pub(crate) async fn attempt(core: &Arc<Core>, request: &Request) -> Attempted {
    explained(core, &request.keys, Attempt::new(core, request, core.now())).await
}

/// Follows an attempt to its end; a refusal for the type of the key names the type found.
pub(crate) async fn explained(
    core: &Core,
    keys: &LockKeys,
    attempt: impl Future<Output = Attempted>,
) -> Attempted {
    match attempt.await {
        Attempted::Failed(failure) => Attempted::Failed(explain(core, keys, failure).await),
        attempted => attempted,
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

/// Whether somebody who waits for a lock also waits until the server no longer answers so. Not for what somebody must
/// mend first.
pub(crate) fn waits_out(code: &str) -> bool {
    refusal_passes(code) && !matches!(code, "NOREPLICAS" | "MISCONF" | "OOM")
}

impl Tenure {
    /// The first acquire was granted. True: others here wait for the name.
    fn moved_in(self: &Arc<Self>, hold: &Arc<Hold>) -> bool {
        let mut desk = unpoisoned(&self.core.desk);
        let is_awaited = desk.moved_in(self);
        let mut state = unpoisoned(&self.state);
        state.count.entered();
        state.members.push(hold.clone());
        is_awaited
    }
}
