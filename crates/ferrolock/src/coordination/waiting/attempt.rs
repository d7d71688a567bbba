//! One attempt at a first hold, and what becomes of a reply that nobody waits for any more.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::pending::{Kind, PendingWork};
use crate::coordination::waiting::{Patience, Request};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Calling, Failure, Lane, Tick};
use crate::error::refusal_passes;
use crate::options::Terms;
use crate::protocol::key_type;
use crate::protocol::scheme::{self, Ask, Busy, Granted, Scheme};
use crate::protocol::script::{Call, Form, NO_SCRIPT, Value};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(Grant),
    Busy(Busy),
    /// It was granted, but was worth nothing any more when the reply came: it is given back.
    TooLate(Failure),
    /// It was not made: its caller had gone.
    Withdrawn,
    Failed(Failure),
}

/// A hold that no caller has yet. The last handle of its client waits until it was given back, or somebody took it.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) hold: Arc<Hold>,
    /// The next in line may get in too.
    pub(crate) more: bool,
    asking: Asking,
}

impl Grant {
    pub(crate) fn release_in_background(self) {
        self.hold.clone().retract();
        // Only now: its release is pending by itself by then.
        drop(self.asking);
    }
}

/// One acquire under a field never used before: sent when it is first polled, ready when it is answered.
///
/// An outcome that stays unknown, also because this is dropped, leaves a debt: the field is released again and again
/// until it cannot come late any more. The next attempt uses another field.
pub(crate) struct Attempt {
    request: Arc<Request>,
    terms: Terms,
    /// When it was made: not later than it was sent.
    pub(crate) sent: Tick,
    cap: Option<Tick>,
    lease: Duration,
    reply: Calling,
    stage: Stage,
    /// It was granted, and others here wait for the name.
    pub(crate) is_awaited: bool,
    tenure: Arc<Tenure>,
    /// Taken out with the grant.
    asking: Option<Asking>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Made,
    /// It is in the table of names: other calls of its owner are not to find the name busy with themselves.
    Shown,
    /// It may have run, or may still run.
    Sent,
    Answered,
}

/// An acquire is under way, until this is dropped.
#[derive(Debug)]
struct Asking {
    tenure: Arc<Tenure>,
    pending: PendingWork,
    is_answered: bool,
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.is_answered && self.tenure.first.answered() {
            self.tenure.core.keeper().field_is_known(&self.tenure);
        }
    }
}

/// What became of a tenure's first acquire when the last handle of its client went before the answer came.
///
/// Two threads meet here: one that hands the acquire over to the keeper, and one that has its answer. Each leaves its
/// mark first and looks for the other's then, so at least one of them sees that the keeper has nothing to do.
#[derive(Debug, Default)]
pub(crate) struct FirstAcquire {
    marks: AtomicU8,
    /// In nanoseconds: what was asked for.
    lease: AtomicU64,
}

impl FirstAcquire {
    const HANDED_OVER: u8 = 1;
    const ANSWERED: u8 = 2;

    /// An attempt is made, also one more under the same field.
    fn asks_for(&self, lease: Duration) {
        self.marks.fetch_and(!Self::ANSWERED, Ordering::AcqRel);
        let nanos = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        self.lease.store(nanos, Ordering::Release);
    }

    /// The lease that it asked for.
    pub(crate) fn lease(&self) -> Duration {
        Duration::from_nanos(self.lease.load(Ordering::Acquire))
    }

    pub(crate) fn hand_over(&self) {
        self.marks.fetch_or(Self::HANDED_OVER, Ordering::AcqRel);
    }

    /// The answer is known. True: the keeper was to find it out.
    fn answered(&self) -> bool {
        self.marks.fetch_or(Self::ANSWERED, Ordering::AcqRel) & Self::HANDED_OVER != 0
    }

    pub(crate) fn is_answered(&self) -> bool {
        self.marks.load(Ordering::Acquire) & Self::ANSWERED != 0
    }
}

impl Attempt {
    pub(crate) fn new(core: &Arc<Core>, request: &Arc<Request>, now: Tick) -> Self {
        let tenure = request.placed().unwrap_or_else(|| core.new_tenure(request));
        let cap = request.terms.max_hold.map(|limit| now.after(limit));
        let lease = request.terms.lease_at(now, cap);
        let call = call(request, &tenure, lease);
        tenure.asks_for(now, lease);
        tenure.first.asks_for(lease);
        request.take_place(&tenure, lease);
        let asking = Asking {
            tenure: tenure.clone(),
            pending: PendingWork::new(core, Kind::Attempt),
            is_answered: false,
        };
        Self {
            reply: core.engine.call(Lane::Commands, call),
            tenure,
            request: request.clone(),
            terms: request.terms,
            sent: now,
            cap,
            lease,
            stage: Stage::Made,
            is_awaited: false,
            asking: Some(asking),
        }
    }

    /// What it is an acquire of.
    pub(crate) fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// It was noted in the table of names.
    pub(crate) fn shown(&mut self) {
        self.stage = Stage::Shown;
    }

    pub(crate) fn was_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Answered)
    }

    /// What came back. Takes no lock of ours but to show the attempt, once, and to ask whether its caller still waits,
    /// when the server does not know the script.
    pub(crate) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Failure>> {
        if self.stage == Stage::Made {
            unpoisoned(&self.tenure.core.names).attempt_begins(&self.tenure);
        }
        self.stage = Stage::Sent;
        let reply = ready!(Pin::new(&mut self.reply).poll(cx));
        if !is_no_script(&reply) {
            return Poll::Ready(reply);
        }
        if !self.request.slot.is_waiting() {
            return Poll::Ready(Err(Failure::NotSent(NOBODY_WAITS.to_owned())));
        }
        let call = call(&self.request, &self.tenure, self.lease);
        let form = Form::Text;
        let engine = &self.tenure.core.engine;
        self.reply = engine.call(Lane::Commands, Call { form, ..call });
        Pin::new(&mut self.reply).poll(cx)
    }

    /// What it means.
    pub(crate) fn read(&mut self, reply: Result<Value, Failure>) -> Attempted {
        let reply = reply.and_then(|reply| Ok(self.tenure.scheme.read_acquire(reply)?));
        if !matches!(reply, Err(Failure::Unknown(_))) {
            self.asking
                .iter_mut()
                .for_each(|asking| asking.is_answered = true);
        }
        match (reply, self.asking.take()) {
            (Ok(scheme::Attempt::Granted(granted)), Some(asking)) => self.granted(granted, asking),
            (Ok(scheme::Attempt::Busy(busy)), asking) => {
                self.asking = asking;
                self.stage = Stage::Shown;
                Attempted::Busy(busy)
            }
            (Err(failure), asking) => {
                self.asking = asking;
                if !matches!(failure, Failure::Unknown(_)) {
                    self.stage = Stage::Shown;
                }
                Attempted::Failed(failure)
            }
            (Ok(scheme::Attempt::Granted(_)), None) => {
                Attempted::Failed(Failure::Unknown("read twice".to_owned()))
            }
        }
    }

    fn granted(&mut self, Granted { fence, more }: Granted, asking: Asking) -> Attempted {
        self.stage = Stage::Answered;
        self.request.leave_place();
        let tenure = self.tenure.clone();
        if let Some(fence) = fence {
            let _ = tenure.fence.set(fence);
        }
        let hold = Hold::new(tenure, self.terms, self.cap, self.sent, self.lease);
        // Before the table of names forgets the attempt: the last handle waits for the one or the other.
        asking.pending.becomes_release();
        self.is_awaited = self.tenure.tenure_began(&hold);
        let now = self.tenure.core.now();
        let grant = Grant { hold, more, asking };
        // Asked after it has moved in: whoever loses all holds before this has not seen it there, and after this does.
        let is_removed = self.tenure.core.engine.is_removed();
        if now < grant.hold.deadline() && !is_removed {
            return Attempted::Granted(grant);
        }
        // A hold that is over is worth nothing, and its caller could not know for how long it has been.
        grant.release_in_background();
        Attempted::TooLate(match is_removed {
            true => Failure::Unknown("what was granted was removed before it was known".to_owned()),
            false => too_late(now.since(self.sent), self.lease),
        })
    }
}

fn call(request: &Request, tenure: &Tenure, lease: Duration) -> Call {
    tenure.scheme.acquire(&Ask {
        bearer: &tenure.bearer,
        lease,
        waits: request.patience != Patience::None,
    })
}

/// What an attempt is told that is not sent because its caller has gone.
pub(crate) const NOBODY_WAITS: &str = "nobody waits any more";

fn is_no_script(reply: &Result<Value, Failure>) -> bool {
    matches!(reply, Err(Failure::Refused { code, .. }) if code == NO_SCRIPT)
}

/// What is said of a grant whose reply took longer than its lease allows.
pub(crate) fn too_late(took: Duration, lease: Duration) -> Failure {
    Failure::Unknown(format!(
        "the grant came after {took:.1?}, too late for a lease of {lease:?}, and was given back"
    ))
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
            unpoisoned(&tenure.core.names).attempt_ended(tenure);
        }
        // The one step that keeps a lost reply from costing a lock: what may have been taken, or may yet be, is owed back.
        if self.stage == Stage::Sent && !self.request.note_doubt_about(tenure) {
            tenure.core.keeper().owe_field(tenure, self.lease);
        }
    }
}

/// Makes an attempt and follows it to its end; a refusal for the type of the key names the type found.
pub(crate) async fn attempt(core: &Arc<Core>, request: &Arc<Request>) -> Attempted {
    explained(
        core,
        &*request.scheme,
        Attempt::new(core, request, core.now()),
    )
    .await
}

/// Follows an attempt to its end; a refusal for the type of the key names the type found.
pub(crate) async fn explained(
    core: &Core,
    scheme: &dyn Scheme,
    attempt: impl Future<Output = Attempted>,
) -> Attempted {
    match attempt.await {
        Attempted::Failed(failure) => Attempted::Failed(explain(core, scheme, failure).await),
        attempted => attempted,
    }
}

/// A refusal for the type of the key names the type found.
pub(crate) async fn explain(core: &Core, scheme: &dyn Scheme, failure: Failure) -> Failure {
    let Failure::Refused { code, message } = failure else {
        return failure;
    };
    if code != "WRONGTYPE" {
        return Failure::Refused { code, message };
    }
    let kind = core
        .engine
        .call(Lane::Commands, key_type::ask(scheme.name()))
        .await;
    Failure::Refused {
        code,
        message: key_type::wrong_type(scheme.subject(), kind.ok()),
    }
}

/// Whether somebody who waits for a lock also waits until the server no longer answers so. Not for what somebody must
/// mend first.
pub(crate) fn waits_out(code: &str) -> bool {
    refusal_passes(code) && !matches!(code, "NOREPLICAS" | "MISCONF" | "OOM")
}
