//! How holds are given back, and how a tenure's count on the server is set to the number of holds here.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use crate::coordination::holding::count::{After, Op, Outcome, Phase, ReleaseEnd};
use crate::coordination::holding::entrant::Entrant;
use crate::coordination::holding::hold::Hold;
use crate::coordination::holding::joint::{Seat, settle_with};
use crate::coordination::keeper::AlarmKey;
use crate::coordination::keeper::kept::Settled;
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Failure, Lane, Tick};
use crate::error::{Error, ErrorKind, LostReason, Result};
use crate::figures;
use crate::protocol::call::{Call, Value};
use crate::protocol::scheme::{Lines, Release, Standing, read_release, read_standing};

/// How long an unlock waits for a renewal of its hold that is under way. A renewal that runs after the release does no harm:
/// its field is gone.
pub(super) const RENEWAL_WAIT: Duration = Duration::from_millis(50);

/// Gives a hold back and waits for the answer: how many holds of its owner go on.
///
/// Sent from the caller's task, with `seat` in one call with others. If this future is dropped, or the answer stays out, the
/// keeper finishes the rest.
pub(crate) async fn unlock(hold: Arc<Hold>, seat: Option<Seat>) -> Result<u32> {
    let tenure = &hold.tenure;
    let core = &tenure.core;
    core.check_process()
        .map_err(|error| error.of(tenure.scheme.name()))?;
    let now = core.now();
    let was = hold.release(now);
    let keeper = core.keeper();
    let (renewing, alarm) = hold.begin_unlock(now.after(core.settings.command_limit / 2));
    if let Err(reason) = tenure.leave(&hold, Some(hold.clone()), now) {
        keeper.cancel(alarm);
        let reason = was.lost().unwrap_or(reason);
        return Err(Error::lost(reason).of(tenure.scheme.name()));
    }
    let answer = hear(&hold, renewing, alarm, seat).await;
    match was.lost() {
        Some(reason) => Err(Error::lost(reason).of(tenure.scheme.name())),
        None => answer.map_err(|error| error.of(tenure.scheme.name())),
    }
}

/// Sends what the tenure has to send until the hold is answered, perhaps after a renewal of it.
pub(super) async fn hear(
    hold: &Arc<Hold>,
    renewing: bool,
    alarm: AlarmKey,
    seat: Option<Seat>,
) -> Result<u32> {
    let tenure = &hold.tenure;
    let keeper = tenure.core.keeper();
    let mut unfinished = Unfinished {
        tenure: Some(tenure),
    };
    if renewing {
        hold.renewal_ended(RENEWAL_WAIT).await;
    }
    let mut work = std::pin::pin!(settle_with(seat, tenure));
    let mut working = true;
    let answer = poll_fn(|cx| {
        if working && let Poll::Ready(driven) = work.as_mut().poll(cx) {
            working = false;
            if driven == Settled::Again {
                tenure.settle_in_background();
            }
        }
        // `Quiet`: the release was answered in this step, or another task is sending for the tenure and brings the answer.
        hold.unlock_answer.poll(cx)
    })
    .await;
    keeper.cancel(alarm);
    if unpoisoned(&tenure.state).count.is_settled() {
        unfinished.tenure = None;
    }
    answer
}

/// Hands the tenure to the keeper when it is dropped, unless all is finished.
pub(super) struct Unfinished<'a> {
    pub(crate) tenure: Option<&'a Arc<Tenure>>,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(tenure) = self.tenure {
            tenure.settle_in_background();
        }
    }
}

impl Hold {
    /// Gives it back without waiting: the keeper sends the release.
    pub(crate) fn release_in_background(self: Arc<Self>) {
        // A forked child has a copy of the hold only; the parent gives it back.
        if self.tenure.core.is_forked() {
            return;
        }
        let now = self.tenure.core.now();
        self.release(now);
        self.leave_behind(now);
    }

    /// The same for a hold that no caller has seen: it is not reported as lost if its time is over.
    pub(crate) fn retract(self: Arc<Self>) {
        self.release_unseen();
        let now = self.tenure.core.now();
        self.leave_behind(now);
    }

    fn leave_behind(self: Arc<Self>, now: Tick) {
        self.tenure.core.keeper().forget(&*self);
        if self.tenure.leave(&self, None, now).is_ok() {
            self.tenure.settle_in_background();
        }
    }
}

/// Sends what the tenure has to send, one command after the other, until it is quiet or one had no answer.
pub(crate) async fn settle(tenure: &Arc<Tenure>, lane: Lane) -> Settled {
    while let Some((command, call)) = tenure.next_command(lane) {
        let running = RunningCommand {
            tenure,
            command,
            lane,
            ended: false,
        };
        let reply = match tenure.core.send(lane, call).await {
            Err(failure) => Err(tenure.core.explain(&*tenure.scheme, failure).await),
            reply => reply,
        };
        if running.end(reply) == Settled::Again {
            return Settled::Again;
        }
    }
    Settled::Quiet
}

/// What the end of a release means for the attempts of this client that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Barrier {
    Lifts,
    Stays,
}

/// A command that changes a tenure's count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Command {
    pub(super) op: Op,
    pub(super) sent: Tick,
    /// Its number within its tenure, by which a reply that comes after the command was given up is recognized.
    pub(super) number: u64,
}

/// A command under way; if this is dropped before the end, its outcome is unknown.
pub(super) struct RunningCommand<'a> {
    pub(crate) tenure: &'a Arc<Tenure>,
    pub(super) command: Command,
    pub(super) lane: Lane,
    pub(super) ended: bool,
}

impl RunningCommand<'_> {
    /// It did not run, and the next command goes out in its place: no caller is told.
    pub(super) fn withdraw(mut self) {
        self.ended = true;
        let mut answered = read(self.command, Err(Failure::NotSent(String::new())));
        answered.error = None;
        self.tenure.ended(answered, Barrier::Stays);
    }

    pub(super) fn end(mut self, reply: std::result::Result<Value, Failure>) -> Settled {
        self.ended = true;
        self.tenure.ended(read(self.command, reply), Barrier::Lifts)
    }
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.tenure.give_up(self.command);
            // The keeper repeats its own commands without this.
            if self.lane == Lane::Commands {
                self.tenure.settle_in_background();
            }
        }
    }
}

/// How a command of a tenure was answered.
pub(super) struct Answered {
    command: Command,
    outcome: Outcome,
    /// If it was the release of the last hold.
    end: ReleaseEnd,
    error: Option<Error>,
}

impl Tenure {
    /// A hold of it is given back; the next command brings that to the server.
    pub(super) fn leave(
        &self,
        hold: &Arc<Hold>,
        who: Option<Arc<Hold>>,
        now: Tick,
    ) -> std::result::Result<(), LostReason> {
        let mut names = unpoisoned(&self.core.names);
        let mut state = unpoisoned(&self.state);
        state.members.retain(|member| !Arc::ptr_eq(member, hold));
        state.count.leave(who)?;
        self.raise_barrier(&mut names, &mut state, now);
        drop(state);
        drop(names);
        figures::released(now.since(hold.since));
        self.core.tell_who_shuts_down();
        Ok(())
    }

    pub(super) fn next_command(&self, lane: Lane) -> Option<(Command, Call)> {
        let mut state = unpoisoned(&self.state);
        let op = state.count.next()?;
        let now = self.core.now();
        state.sender = lane;
        let number = state.count.number();
        let call = match op {
            Op::Reenter { count } => {
                let terms = state.count.reentering().map(|entrant| entrant.terms())?;
                let cap = terms.max_hold.map(|limit| now.after(limit));
                let lease = terms.lease_at(now, cap);
                self.asks_for(now, lease);
                self.scheme.reenter(&self.bearer, lease, count)
            }
            Op::Release { left } => {
                let need = state
                    .members
                    .iter()
                    .map(|member| member.need(now))
                    .max()
                    .unwrap_or_default();
                self.asks_for(now, need);
                self.scheme.release(&self.bearer, left, need)
            }
        };
        let sent = now;
        Some((Command { op, sent, number }, call))
    }

    /// Gives up a command that a caller's task has sent and may no longer poll; it is to be sent again. False: there is none.
    pub(crate) fn take_over(self: &Arc<Self>) -> bool {
        let state = unpoisoned(&self.state);
        let (op, number) = match state.count.command() {
            Some(op) if state.sender == Lane::Commands => (op, state.count.number()),
            _ => return false,
        };
        drop(state);
        let sent = self.core.now();
        self.give_up(Command { op, sent, number });
        true
    }

    /// The reply no longer counts. The barrier stays: attempts wait for the command that is sent instead.
    fn give_up(self: &Arc<Self>, command: Command) {
        let given_up = Err(Failure::Unknown("given up".to_owned()));
        self.ended(read(command, given_up), Barrier::Stays);
    }

    /// Whether the command with that number is all that is left to do here, and another task waits for its reply.
    pub(super) fn is_waiting_for(&self, number: u64) -> bool {
        let state = unpoisoned(&self.state);
        !state.count.is_settled() && state.count.is_under_way(number)
    }

    pub(super) fn command_number(&self) -> u64 {
        unpoisoned(&self.state).count.number()
    }

    fn ended(self: &Arc<Self>, answered: Answered, barrier: Barrier) -> Settled {
        let mut names = unpoisoned(&self.core.names);
        let mut state = unpoisoned(&self.state);
        if !state.count.is_under_way(answered.command.number) {
            state
                .count
                .ended_late(answered.command.op, answered.outcome);
            return Settled::Quiet;
        }
        let after = state.count.ended(answered.outcome);
        if barrier == Barrier::Lifts {
            state.trouble.clone_from(&answered.error);
        }
        if matches!(answered.command.op, Op::Reenter { .. }) {
            // The last hold may have left meanwhile, and the re-entry that kept the tenure open has failed.
            self.raise_barrier(&mut names, &mut state, self.core.now());
        }
        let over = state.is_over();
        let last = answered.command.op == Op::Release { left: 0 } && barrier == Barrier::Lifts;
        // Once it is over, no other release follows, whatever this one was.
        let barring = match last || over {
            true => std::mem::take(&mut state.barring),
            false => Lines::NONE,
        };
        if over {
            names.change(self.scheme.subject(), |entry| entry.tenure_ended(self));
        }
        self.lift_barrier(&mut names, barring, answered.end);
        let refused = answered
            .error
            .clone()
            .filter(|error| error.kind() == ErrorKind::Refused && !error.is_transient());
        // The release is tried again until the lease is over, but its unlock fails now and does not wait for that.
        let told = refused.map(|error| (state.count.leaving().to_vec(), error));
        drop(state);
        drop(names);
        if let Some((leavers, error)) = told {
            leavers
                .iter()
                .for_each(|hold| hold.unlock_answer.answer(Err(error.clone())));
        }
        self.apply(after, Some(answered))
    }

    /// Answers all callers that the end of a command concerns.
    pub(super) fn apply(
        self: &Arc<Self>,
        mut after: After<Arc<dyn Entrant>, Arc<Hold>>,
        answered: Option<Answered>,
    ) -> Settled {
        if let (Some((entrant, _)), Some(answered)) = (&after.entered, &answered) {
            self.entered_again(entrant, answered.command.sent);
        }
        if let Some((gone, left)) = after.left {
            gone.iter()
                .for_each(|hold| hold.unlock_answer.answer(Ok(left)));
        }
        if let Some((reason, late)) = after.lost {
            self.lost(reason);
            late.iter()
                .for_each(|hold| hold.unlock_answer.answer(Err(Error::lost(reason))));
            for entrant in after.turned_away.drain(..) {
                entrant.fail(Error::lost(reason));
            }
        }
        let error = answered.and_then(|answered| answered.error);
        let mut again = after.again;
        for entrant in after.turned_away {
            again |= self.turned_away(entrant, error.as_ref());
        }
        self.leave_names_if_over();
        let waiting = !unpoisoned(&self.state).count.is_settled();
        if again && waiting {
            Settled::Again
        } else {
            Settled::Quiet
        }
    }

    /// A re-entry without an answer is tried again while its caller waits. True: it will be, but not at once.
    fn turned_away(&self, entrant: Arc<dyn Entrant>, error: Option<&Error>) -> bool {
        match error {
            Some(error) if !error.is_transient() => entrant.fail(error.clone()),
            _ if !entrant.is_waiting() => {}
            _ => {
                let refused = unpoisoned(&self.state).count.enter(entrant).err();
                match refused {
                    None => return true,
                    Some(entrant) => self.not_inside(&*entrant),
                }
            }
        }
        false
    }

    /// A caller wanted to enter, and the tenure has ended. If the tenure was lost, the caller fails with that; else it
    /// begins anew.
    pub(super) fn not_inside(&self, entrant: &dyn Entrant) {
        let phase = unpoisoned(&self.state).count.phase();
        match phase {
            Phase::Over(reason) => entrant.fail(Error::lost(reason)),
            _ => entrant.come_anew(),
        }
    }

    /// Every hold of it is lost.
    fn lost(&self, reason: LostReason) {
        let members = unpoisoned(&self.state).members.clone();
        for hold in members {
            self.core.keeper().forget(&*hold);
            hold.lose(reason);
        }
    }

    fn leave_names_if_over(self: &Arc<Self>) {
        let over = unpoisoned(&self.state).is_over();
        if over {
            unpoisoned(&self.core.names)
                .change(self.scheme.subject(), |entry| entry.tenure_ended(self));
            self.owe_late_attempts();
            self.core.tell_who_shuts_down();
        }
    }
}

/// What a reply, or its absence, means for the count.
fn read(command: Command, reply: std::result::Result<Value, Failure>) -> Answered {
    let mut answered = Answered {
        command,
        outcome: Outcome::Done,
        end: ReleaseEnd::Answered,
        error: None,
    };
    let reply = match reply {
        Ok(reply) => reply,
        Err(failure) => {
            answered.outcome = match failure {
                Failure::Unknown(_) => Outcome::Unknown,
                Failure::NotSent(_) | Failure::Refused { .. } | Failure::Closed(_) => {
                    Outcome::NotDone
                }
            };
            answered.error = Some(failure.into());
            return answered;
        }
    };
    let standing = match command.op {
        Op::Reenter { .. } => read_standing(reply),
        Op::Release { left } => read_release(reply, left).map(|release| match release {
            Release::Free { heard } => {
                answered.end = ReleaseEnd::Freed { heard };
                Standing::Ours
            }
            Release::Left | Release::Shared => Standing::Ours,
            Release::Not(standing) => standing,
        }),
    };
    match standing {
        Ok(standing) => answered.outcome = standing.outcome(),
        Err(bad) => {
            answered.outcome = Outcome::Unknown;
            answered.error = Some(Failure::from(bad).into());
        }
    }
    answered
}

impl Standing {
    fn outcome(self) -> Outcome {
        match self.lost() {
            None => Outcome::Done,
            Some(reason) => Outcome::NotOurs(reason),
        }
    }

    /// What it means for a hold that we believed in.
    pub(crate) fn lost(self) -> Option<LostReason> {
        match self {
            Standing::Ours => None,
            Standing::Gone => Some(LostReason::Removed),
            Standing::Taken => Some(LostReason::TakenOver),
        }
    }
}
