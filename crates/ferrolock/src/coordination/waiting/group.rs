//! The first attempts at several names of one client, in one call: all are granted, or none.
//!
//! Only for names that no call of this client holds or waits for, and only as a first try: whatever else comes out, the names
//! are then acquired one by one, which waits, enters again, and explains failures.
//!
//! The caller's own future polls the call, as with the [first attempt](super::first) at one name. If it does not for a while, the
//! keeper's alarm takes the call over, and what it is granted is given back.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::coordination::holding::hold::Hold;
use crate::coordination::keeper::{AlarmKey, offer_time};
use crate::coordination::waiting::attempt::{Attempt, Attempted, is_no_script};
use crate::coordination::waiting::{Request, enter_with};
use crate::coordination::{Core, safely, unpoisoned};
use crate::engine::{Calling, Failure, Lane};
use crate::figures;
use crate::protocol::call::{Form, Value};
use crate::protocol::multi_lock::{GroupReply, GroupRow, acquire, read_acquire};

/// What one call for several names brought.
pub(crate) enum Together {
    /// The holds, in the order of the requests.
    Granted(Vec<Arc<Hold>>),
    /// That one was busy: nothing is taken.
    Busy(usize),
    /// They have to be acquired one by one.
    OneByOne,
    /// The same; but the call may have taken them, and it takes a moment until that is given back.
    Unknown,
}

/// The attempts that share a call. Its drop leaves a debt for each of them whose outcome is unknown.
struct Group {
    attempts: Vec<Attempt>,
    rows: Vec<GroupRow>,
    form: Form,
    reply: Calling,
    core: Arc<Core>,
}

/// Asks for all of these names of one client in one call.
pub(crate) async fn acquire_together(
    core: &Arc<Core>,
    requests: &[Arc<Request>],
    cancelled_by: Option<&CancellationToken>,
) -> Together {
    let Some(group) = Group::new(core, requests) else {
        return Together::OneByOne;
    };
    let times = requests.iter().map(|request| offer_time(&request.terms));
    let overdue = core.now().after(times.min().unwrap_or_default());
    let place = Arc::new(Mutex::new(Some(group)));
    let taken_over = Arc::new(Notify::new());
    let (left_alone, tells) = (place.clone(), taken_over.clone());
    let alarm = core.keeper().alarm(core, overdue, move || {
        give_back(&left_alone);
        // The answer wakes the caller no longer.
        tells.notify_one();
    });
    let caller = GroupCaller {
        core,
        place: &place,
        alarm: Some(alarm),
    };
    let cancelled = async {
        match cancelled_by {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let mut cancelled = std::pin::pin!(cancelled);
    let mut overdue = std::pin::pin!(taken_over.notified());
    let reply = poll_fn(|cx| {
        if overdue.as_mut().poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        let mut at_work = unpoisoned(&place);
        let Some(group) = &mut *at_work else {
            return Poll::Ready(None);
        };
        // Taken out under the same lock: the alarm must not poll it once more.
        if let Poll::Ready(reply) = group.poll_reply(cx) {
            return Poll::Ready(at_work.take().map(|group| (group, reply)));
        }
        drop(at_work);
        cancelled.as_mut().poll(cx).map(|()| None)
    })
    .await;
    let is_overdue = unpoisoned(&place).is_none();
    drop(caller);
    match reply {
        Some((group, reply)) => group.read(reply),
        None if is_overdue => Together::Unknown,
        // Cancelled: the caller's next step says so.
        None => Together::OneByOne,
    }
}

/// Cleans up behind a caller's future that is dropped, or has its answer.
struct GroupCaller<'a> {
    core: &'a Arc<Core>,
    place: &'a Mutex<Option<Group>>,
    alarm: Option<AlarmKey>,
}

impl Drop for GroupCaller<'_> {
    fn drop(&mut self) {
        let alarm = self.alarm.take().into_iter();
        alarm.for_each(|alarm| self.core.keeper().cancel(alarm));
        give_back(self.place);
    }
}

/// Takes the call over from its caller, if it is still there: what it is granted is given back.
fn give_back(place: &Mutex<Option<Group>>) {
    let taken = unpoisoned(place).take();
    taken.into_iter().for_each(release_in_background);
}

/// Waits for the answer and gives back what was granted. If the answer stays out, or there is no runtime, the drop of the
/// attempts makes the debts.
fn release_in_background(mut group: Group) {
    if let Ok(runtime) = group.core.runtime().cloned() {
        runtime.spawn(async move {
            let core = group.core.clone();
            let limit = core.now().after(core.settings.command_limit / 2);
            let answer = poll_fn(|cx| group.poll_reply(cx));
            if let Some(reply) = core.until(limit, answer).await
                && let Together::Granted(holds) = group.read(reply)
            {
                holds.into_iter().for_each(Hold::release_in_background);
            }
        });
    }
}

impl Group {
    /// `None`: one of the names is known here, or its kind is acquired by itself only.
    fn new(core: &Arc<Core>, requests: &[Arc<Request>]) -> Option<Group> {
        if core.pending.is_full() || core.runtime().is_err() {
            return None;
        }
        let now = core.now();
        let attempt = |request| Attempt::new(core, request, now);
        let mut attempts: Vec<Attempt> = requests.iter().map(attempt).collect();
        let rows: Option<Vec<GroupRow>> = attempts.iter().map(Attempt::group_row).collect();
        let rows = rows?;
        let reply = core.send(
            Lane::Commands,
            acquire(&rows, core.fence_floor(), Form::Hash),
        );
        let mut names = unpoisoned(&core.names);
        let is_known = |request: &Arc<Request>| names.is_known(request.scheme.subject());
        if core.check_open().is_err() || requests.iter().any(is_known) {
            return None;
        }
        for attempt in &mut attempts {
            names.attempt_begins(attempt.tenure());
            // From here on a drop leaves a debt: the first poll sends the call.
            attempt.sent_with_others();
        }
        drop(names);
        let core = core.clone();
        Some(Group {
            attempts,
            rows,
            form: Form::Hash,
            reply,
            core,
        })
    }

    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Result<Value, Failure>> {
        let mut reply = Pin::new(&mut self.reply).poll(cx);
        if let Poll::Ready(answer) = &reply
            && is_no_script(answer)
            && self.form == Form::Hash
        {
            self.form = Form::Text;
            let call = acquire(&self.rows, self.core.fence_floor(), self.form);
            self.reply = self.core.send(Lane::Commands, call);
            reply = Pin::new(&mut self.reply).poll(cx);
        }
        reply
    }

    /// What the reply means for each of the attempts.
    fn read(mut self, reply: Result<Value, Failure>) -> Together {
        let count = self.attempts.len();
        let reply = reply.and_then(|reply| Ok(read_acquire(reply, count)?));
        let is_unknown = matches!(reply, Err(Failure::Unknown(_)));
        let (replies, busy) = match reply {
            Ok(GroupReply::Granted(replies)) => (replies.into_iter().map(Ok).collect(), None),
            Ok(GroupReply::Busy(row, left)) => (vec![Ok(left); count], Some(row)),
            Err(failure) => (vec![Err(failure); count], None),
        };
        let mut holds = Vec::new();
        for (attempt, reply) in self.attempts.iter_mut().zip(replies) {
            if let Attempted::Granted(grant) = attempt.read(reply) {
                holds.push((grant, attempt.is_awaited));
            }
        }
        if let Some(row) = busy {
            return Together::Busy(row);
        }
        if is_unknown {
            return Together::Unknown;
        }
        if holds.len() < count {
            // The drop of the grants gives them back.
            return Together::OneByOne;
        }
        let taken = holds.into_iter().filter_map(|(grant, is_awaited)| {
            let hold = grant.give()?;
            take(&self.core, &hold, is_awaited);
            Some(hold)
        });
        Together::Granted(taken.collect())
    }
}

/// The hold is its caller's from now on, and is renewed.
fn take(core: &Arc<Core>, hold: &Arc<Hold>, is_awaited: bool) {
    let waited = || core.now().since(hold.since);
    safely(|| {
        figures::granted("arrival", waited);
        tracing::debug!(lock = %hold.tenure.scheme.name(), owner = %hold.tenure.id, cause = "arrival", waited = ?waited(), "granted");
    });
    if is_awaited {
        enter_with(&hold.tenure);
    }
    core.keeper().accept(hold.clone(), None);
    if let Some(task) = tokio::task::try_id() {
        let _ = hold.task.set(task);
    }
}
