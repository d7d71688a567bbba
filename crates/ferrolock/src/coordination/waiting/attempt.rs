//! One attempt at a first hold, and what happens to its reply when the caller no longer waits.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use crate::coordination::holding::entrant::too_late;
use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::pending::{PendingWork, WorkKind};
use crate::coordination::waiting::{Patience, Request};
use crate::coordination::{Core, Tenure, unpoisoned};
use crate::engine::{Calling, Failure, Lane, Tick};
use crate::error::refusal_passes;
use crate::protocol::call::{Call, Form, NO_SCRIPT, Value};
use crate::protocol::multi_lock::GroupRow;
use crate::protocol::scheme::{Ask, AttemptReply, Busy, Granted, Mode, Scheme};

/// How an attempt ended.
#[derive(Debug)]
pub(crate) enum Attempted {
    Granted(Grant),
    Busy(Busy),
    /// It was granted, but the hold was over or removed when the reply came: it is given back.
    TooLate(Failure),
    /// It was not made: its caller had gone.
    Withdrawn,
    Failed(Failure),
}

/// What a server that keeps a queue has to know of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    /// It is made because time has passed.
    pub(super) looks: bool,
    /// Its waiter is the first of this client.
    pub(super) is_front: bool,
}

impl Manner {
    pub(super) const FIRST: Manner = Manner {
        looks: false,
        is_front: true,
    };
}

/// A hold that no caller has yet. Dropped, it is given back: also if code of others panics before its caller has it.
#[derive(Debug)]
pub(crate) struct Grant {
    hold: Option<Arc<Hold>>,
    pub(super) tenure: Arc<Tenure>,
    /// The next in line may get in too.
    pub(super) more: bool,
    /// The last handle of the client waits while this is there. Dropped after the hold was given back: by then its release
    /// is pending work of its own.
    _asking: Asking,
}

impl Grant {
    /// The hold, for its caller. It is there: only the drop takes it too.
    pub(super) fn give(mut self) -> Option<Arc<Hold>> {
        self.hold.take()
    }

    pub(super) fn lease(&self) -> Duration {
        let hold = self.hold.as_ref();
        hold.map_or(Duration::ZERO, |hold| hold.terms.lease)
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.hold.take().into_iter().for_each(Hold::retract);
    }
}

/// One acquire under a field never used before: sent when it is first polled, ready when it is answered.
///
/// If the outcome stays unknown, also because this is dropped before the answer, its drop leaves a debt: the keeper releases
/// the field again and again until the acquire can no longer run late. The next attempt uses another field.
///
/// The drop does it so that no caller has to: a future, a task or a runtime that ends with an attempt in it needs no code
/// of its own for this.
pub(crate) struct Attempt {
    request: Arc<Request>,
    manner: Manner,
    /// When it was made: not later than it was sent.
    pub(super) sent: Tick,
    cap: Option<Tick>,
    lease: Duration,
    reply: Calling,
    /// The field under which its owner held the sibling line when it was made.
    beside: Option<Arc<str>>,
    stage: Stage,
    /// It was granted, and others here wait for the name.
    pub(super) is_awaited: bool,
    tenure: Arc<Tenure>,
    /// Taken out with the grant.
    asking: Option<Asking>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Made,
    /// It is in the table of names: other calls of its owner must not find the name busy with an acquire of their own owner.
    Shown,
    /// It may have run, or may still run. Dropped in this stage, it leaves a debt.
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
            self.tenure.core.keeper().field_is_known(&*self.tenure);
        }
    }
}

impl Attempt {
    /// A caller's own first attempt.
    pub(crate) fn new(core: &Arc<Core>, request: &Arc<Request>, now: Tick) -> Self {
        Self::in_manner(core, request, Manner::FIRST, now)
    }

    pub(super) fn in_manner(
        core: &Arc<Core>,
        request: &Arc<Request>,
        manner: Manner,
        now: Tick,
    ) -> Self {
        let tenure = request.placed().unwrap_or_else(|| {
            let (scheme, owner) = (request.scheme.clone(), request.owner.clone());
            core.new_tenure(scheme, owner, request.who.clone())
        });
        let cap = request.terms.max_hold.map(|limit| now.after(limit));
        let lease = request.terms.lease_at(now, cap);
        let beside = core.held_beside(&*request.scheme, &request.owner);
        let call = call(request, manner, &tenure, lease, beside.as_ref());
        tenure.asks_for(now, lease);
        tenure.first.asks_for(lease);
        request.take_place(&tenure, lease);
        let asking = Asking {
            tenure: tenure.clone(),
            pending: PendingWork::new(core, WorkKind::Attempt),
            is_answered: false,
        };
        Self {
            reply: core.send(Lane::Commands, call),
            tenure,
            request: request.clone(),
            manner,
            sent: now,
            cap,
            lease,
            beside,
            stage: Stage::Made,
            is_awaited: false,
            asking: Some(asking),
        }
    }

    /// The tenure that begins if it is granted.
    pub(crate) fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// It was noted in the table of names.
    pub(super) fn shown(&mut self) {
        self.stage = Stage::Shown;
    }

    /// It goes out in a call for several names, and not by its own future.
    pub(super) fn sent_with_others(&mut self) {
        self.stage = Stage::Sent;
    }

    /// Its row of such a call; `None`: its kind has none.
    pub(super) fn group_row(&self) -> Option<GroupRow> {
        let tenure = &self.tenure;
        tenure.scheme.group_row(&tenure.bearer, self.lease)
    }

    pub(super) fn was_sent(&self) -> bool {
        matches!(self.stage, Stage::Sent | Stage::Answered)
    }

    /// The server's reply. Takes a lock of ours in two cases only: once to put the attempt into the table of names, and when
    /// the server does not know the script, to ask whether the caller still waits.
    pub(super) fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Failure>> {
        if self.stage == Stage::Made {
            unpoisoned(&self.tenure.core.names).attempt_begins(&self.tenure);
        }
        // Before the poll, which may send it: from here on a drop leaves a debt.
        self.stage = Stage::Sent;
        let reply = ready!(Pin::new(&mut self.reply).poll(cx));
        if !is_no_script(&reply) {
            return Poll::Ready(reply);
        }
        if !self.request.slot.is_waiting() {
            return Poll::Ready(Err(Failure::NotSent(NOBODY_WAITS.to_owned())));
        }
        let beside = self.beside.as_ref();
        let (request, tenure) = (&self.request, &self.tenure);
        let call = call(request, self.manner, tenure, self.lease, beside);
        let form = Form::Text;
        let core = &self.tenure.core;
        self.reply = core.send(Lane::Commands, Call { form, ..call });
        Pin::new(&mut self.reply).poll(cx)
    }

    /// What the reply means. With an unknown outcome the stage stays `Sent`: the drop of the attempt makes the debt.
    pub(super) fn read(&mut self, reply: Result<Value, Failure>) -> Attempted {
        let reply = reply.and_then(|reply| Ok(self.tenure.scheme.read_acquire(reply)?));
        // A place in a queue stays owed if the client ends: the answer `busy` is not the end of it.
        let has_place = matches!(&reply, Ok(AttemptReply::Busy(busy)) if busy.place.is_some());
        if !has_place && !matches!(reply, Err(Failure::Unknown(_))) {
            self.asking
                .iter_mut()
                .for_each(|asking| asking.is_answered = true);
        }
        match (reply, self.asking.take()) {
            (Ok(AttemptReply::Granted(granted)), Some(asking)) => self.granted(granted, asking),
            (Ok(AttemptReply::Busy(busy)), asking) => {
                self.asking = asking;
                self.stage = Stage::Shown;
                self.request.note_place(busy.place);
                Attempted::Busy(busy)
            }
            (Err(failure), asking) => {
                self.asking = asking;
                if !matches!(failure, Failure::Unknown(_)) {
                    self.stage = Stage::Shown;
                }
                Attempted::Failed(failure)
            }
            (Ok(AttemptReply::Granted(_)), None) => {
                Attempted::Failed(Failure::Unknown("read twice".to_owned()))
            }
        }
    }

    fn granted(&mut self, Granted { fence, more }: Granted, asking: Asking) -> Attempted {
        self.stage = Stage::Answered;
        self.request.leave_place();
        let tenure = self.tenure.clone();
        if let Some(fence) = fence {
            tenure.core.saw_fence(fence);
            let _ = tenure.fence.set(fence);
        }
        let hold = Hold::new(tenure, self.request.terms, self.cap, self.sent, self.lease);
        // Before the table of names forgets the attempt: the last handle waits for the one or the other.
        asking.pending.becomes_release();
        self.is_awaited = self.tenure.tenure_began(&hold);
        let now = self.tenure.core.now();
        let deadline = hold.deadline();
        let grant = Grant {
            tenure: self.tenure.clone(),
            hold: Some(hold),
            more,
            _asking: asking,
        };
        // Asked after the tenure is in the table of names. If the engine loses all holds before that, the answer here is
        // true; if later, it finds this tenure in the table.
        let is_removed = self.tenure.core.engine.is_removed();
        if now < deadline && !is_removed {
            return Attempted::Granted(grant);
        }
        // A hold that is over is of no use, and its caller could not know for how long it has been over.
        drop(grant);
        Attempted::TooLate(match is_removed {
            true => Failure::Unknown("what was granted was removed before it was known".to_owned()),
            false => too_late(now.since(self.sent), self.lease),
        })
    }
}

fn call(
    request: &Request,
    manner: Manner,
    tenure: &Tenure,
    lease: Duration,
    beside: Option<&Arc<str>>,
) -> Call {
    let mode = match request.patience {
        Patience::None => Mode::Once,
        _ if manner.looks => Mode::Looks,
        _ => Mode::Waits,
    };
    tenure.scheme.acquire(&Ask {
        bearer: &tenure.bearer,
        lease,
        mode,
        place: request.place(),
        is_front: manner.is_front,
        fence_floor: tenure.core.fence_floor(),
        beside,
    })
}

/// The failure of an attempt that is not sent because its caller has gone.
pub(super) const NOBODY_WAITS: &str = "nobody waits any more";

pub(super) fn is_no_script(reply: &Result<Value, Failure>) -> bool {
    matches!(reply, Err(Failure::Refused { code, .. }) if code == NO_SCRIPT)
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
        // The server may have granted it, or may still do so, and no code here would ever know. So the field is owed: the
        // keeper releases it. Without this step a lost reply would leave the lock taken, by no holder, until its lease
        // ends. In a queue on the server the field is the request's place: then the request owes it, when it ends.
        if self.stage == Stage::Sent && !self.request.note_doubt_about(tenure) {
            tenure.core.keeper().owe_field(tenure.clone(), self.lease);
        }
    }
}

/// Makes an attempt and follows it to its end; a refusal for the type of the key names the type found.
pub(super) async fn attempt(core: &Arc<Core>, request: &Arc<Request>, manner: Manner) -> Attempted {
    explained(
        core,
        &*request.scheme,
        Attempt::in_manner(core, request, manner, core.now()),
    )
    .await
}

/// Follows an attempt to its end; a refusal for the type of the key names the type found.
pub(super) async fn explained(
    core: &Core,
    scheme: &dyn Scheme,
    attempt: impl Future<Output = Attempted>,
) -> Attempted {
    match attempt.await {
        Attempted::Failed(failure) => Attempted::Failed(core.explain(scheme, failure).await),
        attempted => attempted,
    }
}

/// Whether a waiter goes on waiting until the server no longer refuses with that code. Not if a person has to repair
/// something first.
pub(super) fn waits_out(code: &str) -> bool {
    refusal_passes(code) && !matches!(code, "NOREPLICAS" | "MISCONF" | "OOM")
}
