//! Decides when the local waiters of one name make an attempt.
//!
//! A state machine without I/O and clock: what happened comes in with its time, [`Driver::next`] says what to do now.
//! `W` stands for a waiter; the shell gives it meaning.
//!
//! The order that loses no wake-up: attempt → busy → listen → confirmed → attempt again → sleep. Every message on the
//! channel is counted; if the count moved while an attempt was under way, a *busy* that comes back is stale and the
//! next attempt follows at once. Sleep ends with a message, a gap, the end of the holder's lease, a waiter's
//! deadline, or the safety poll: a message may never come. One attempt is under way at a time, for the front of the
//! line, and none while a release of this client has no answer. After the last waiter the subscription stays for 5 s.

mod cause;
mod courtesy;
mod lateness;
mod next;
mod pauses;
mod places;
mod tries;
pub(crate) use cause::Cause;
pub(crate) use lateness::LAST_ANSWER;
pub(super) use next::Next;

use std::collections::VecDeque;
use std::time::Duration;

use crate::coordination::waiting::driver::courtesy::OurRelease;
use crate::coordination::waiting::driver::lateness::ANSWER_MAX;
use crate::coordination::waiting::driver::places::Places;
use crate::engine::Tick;
use crate::protocol::pace::Pace;
use crate::protocol::scheme::{Busy, Rest, Waiting, Wake};

/// The waiters of one name in this client, and all that decides when they try.
#[derive(Debug)]
pub(crate) struct Driver<W> {
    line: VecDeque<Waiter<W>>,
    next_id: u64,
    /// The attempt under way: when it was sent, and how many messages had come before.
    attempt: Option<Sent>,
    /// Attempts that were sent so far.
    attempts: u64,
    /// When the next attempt is due, and why.
    due: Option<(Tick, Cause)>,
    /// Why the attempt under way was made, or the last event since: the next one's cause if this one does not count.
    cause: Cause,
    /// Messages and gaps so far.
    heard: u64,
    /// The last of them: when it came, and what it was.
    last_event: Option<(Tick, Cause)>,
    listening: Listening,
    /// Pauses in a row that no event has ended.
    polls: u32,
    /// The next pause, where the user's code decides.
    own_pause: Option<Duration>,
    /// Since when the server owes an answer.
    silent_since: Option<Tick>,
    /// When the first of several grants in a row that were too late came.
    too_slow_since: Option<Tick>,
    /// When the last attempt that found it busy was sent, and what the holder had left.
    busy: Option<(Tick, Rest)>,
    /// How long the server took for its last answer.
    answer_time: Duration,
    ours: OurRelease,
    /// Releases of ours on this name that are not answered yet: no attempt is sent beside them.
    releases: u32,
    /// Since when there is no waiter.
    idle_since: Option<Tick>,
    /// Pauses between attempts that no event asks for.
    pace: Pace,
    is_courteous: bool,
    has_places: bool,
    places: Places,
    unreachable_after: Duration,
    random: fastrand::Rng,
}

/// A waiter in the line.
#[derive(Debug)]
struct Waiter<W> {
    id: u64,
    who: W,
    joined: Tick,
    deadline: Option<Tick>,
    /// The server has answered an attempt of it, and so knows of it if the kind has a queue there.
    is_known: bool,
    /// Where it stands in that queue.
    place: Option<u64>,
    /// When that answer came.
    answered: Tick,
    /// Another library's holders or waiters were there then.
    is_mixed: bool,
    /// It attempts because another waiter here had lost its place.
    is_asked_again: bool,
    /// The server forgets it if it does not attempt now and then.
    keeps_place: bool,
    stay: Stay,
    /// How many attempts were sent before it came: their answers are too old for it.
    came_after: u64,
}

/// What a waiter does when the lock is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    Waits,
    /// It leaves with the first answer, and waits until this time for it.
    Tries(Tick),
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Tick,
    heard: u64,
    /// Nothing had happened, only time had passed.
    looks: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Listening {
    No,
    Asked,
    Yes,
    Refused,
    /// The kind has no messages.
    Never,
}

/// A waiter whose time is up.
#[derive(Debug)]
pub(super) struct Late<W> {
    pub(super) who: W,
    pub(super) waited: Duration,
    pub(super) rest: Option<Rest>,
}

/// Where a waiter joins the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Back,
    /// For a waiter that had an attempt or an offer before, and begins to wait again.
    Front,
}

impl<W> Driver<W> {
    pub(super) fn new(waiting: &Waiting, unreachable_after: Duration, seed: u64) -> Self {
        let listening = match waiting.channel {
            Some(_) => Listening::No,
            None => Listening::Never,
        };
        Self {
            line: VecDeque::new(),
            next_id: 0,
            attempt: None,
            attempts: 0,
            due: None,
            cause: Cause::Arrival,
            heard: 0,
            last_event: None,
            listening,
            polls: 0,
            own_pause: None,
            silent_since: None,
            too_slow_since: None,
            busy: None,
            answer_time: Duration::ZERO,
            ours: OurRelease::None,
            releases: 0,
            idle_since: None,
            pace: waiting.pace.clone(),
            is_courteous: waiting.is_courteous,
            has_places: waiting.has_places,
            places: Places::new(waiting.place_lasts),
            unreachable_after,
            random: fastrand::Rng::with_seed(seed),
        }
    }

    /// Adds a waiter to the line, which has waited since `joined`.
    pub(super) fn join(
        &mut self,
        now: Tick,
        who: W,
        (joined, deadline, stay): (Tick, Option<Tick>, Stay),
        place: Place,
        round_trip: Duration,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let waiter = Waiter {
            id,
            who,
            joined,
            deadline,
            is_known: false,
            place: None,
            answered: now,
            is_mixed: false,
            is_asked_again: false,
            keeps_place: false,
            stay,
            came_after: self.attempts,
        };
        // In a queue of the server every waiter begins at its end: one whose offer was withdrawn has had its turn.
        match place {
            Place::Front if !self.has_places => self.line.push_front(waiter),
            Place::Back | Place::Front => self.line.push_back(waiter),
        }
        self.idle_since = None;
        if stay != Stay::Waits && self.attempt.is_none() {
            self.try_at(now, Cause::Arrival);
        } else if (self.line.len() == 1 || self.has_places) && self.attempt.is_none() {
            // After a release of this client, a new waiter here lets the processes that got the message go first.
            let pause = match self.ours {
                OurRelease::Last { others: 1.. } => self.courtesy(round_trip),
                _ => Duration::ZERO,
            };
            if self.line.len() == 1 {
                self.due = None;
            }
            self.try_at(now.after(pause), Cause::Arrival);
        }
        id
    }

    /// A waiter has joined: those for which `yields` returns true stand behind all others, whose attempts may succeed where
    /// theirs do not.
    pub(super) fn let_others_by(&mut self, yields: impl Fn(&W) -> bool) {
        let yields_at = |at: Option<usize>| {
            let waiter = at.and_then(|at| self.line.get(at));
            waiter.map(|waiter| yields(&waiter.who))
        };
        // The new one is the first or the last, and the others stand in order.
        let last = self.line.len().checked_sub(1);
        let pairs = [
            (Some(0), Some(1)),
            (last.and_then(|at| at.checked_sub(1)), last),
        ];
        let is_out_of_order =
            |(one, next)| (yields_at(one), yields_at(next)) == (Some(true), Some(false));
        if pairs.into_iter().any(is_out_of_order) {
            self.line
                .make_contiguous()
                .sort_by_key(|waiter| yields(&waiter.who));
        }
    }

    /// Takes all waiters out for which `goes` returns true, in order.
    pub(crate) fn take(&mut self, mut goes: impl FnMut(&W) -> bool) -> Vec<W> {
        let (out, stay): (Vec<_>, Vec<_>) = std::mem::take(&mut self.line)
            .into_iter()
            .partition(|waiter| goes(&waiter.who));
        self.line = stay.into();
        out.into_iter().map(|waiter| waiter.who).collect()
    }

    /// Whether there is no waiter.
    pub(crate) fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// Whether an attempt is under way.
    pub(super) fn is_attempting(&self) -> bool {
        self.attempt.is_some()
    }

    pub(super) fn is_listening(&self) -> bool {
        matches!(self.listening, Listening::Asked | Listening::Yes)
    }

    /// The subscription is confirmed.
    pub(super) fn confirmed(&mut self, now: Tick) {
        self.listening = Listening::Yes;
        self.event(now, Duration::ZERO, Cause::Confirmed);
    }

    /// There will be no subscription: attempts follow the clock alone.
    pub(super) fn not_listening(&mut self, now: Tick) {
        self.listening = Listening::Refused;
        self.polls = 0;
        let poll = self.poll(now);
        self.try_at(poll, Cause::SafetyPoll);
    }

    /// A message came; `wake` says for which waiters.
    pub(super) fn message(&mut self, now: Tick, wake: Wake, round_trip: Duration) {
        match wake {
            Wake::Front => {
                self.place_may_be_free();
                let pause = self.courtesy(round_trip);
                self.event(now, pause, Cause::Message);
            }
            // `woken` is called for the waiter that is named, if it is here.
            Wake::Named(_) | Wake::Nobody => {}
        }
    }

    /// Messages may have been missed; `spread` keeps thousands of names from asking at once.
    pub(super) fn gap(&mut self, now: Tick, spread: Duration) {
        let pause = spread.mul_f64(self.random.f64());
        self.event(now, pause, Cause::Gap);
    }

    fn event(&mut self, now: Tick, pause: Duration, cause: Cause) {
        self.heard += 1;
        self.last_event = Some((now, cause));
        self.polls = 0;
        if self.attempt.is_some() {
            self.cause = cause;
            return;
        }
        self.try_after(now, pause, cause);
        // A poll that is due even sooner gets the event as its cause.
        if let Some((_, because @ (Cause::SafetyPoll | Cause::LeaseEnd))) = &mut self.due {
            *because = cause;
        }
    }

    /// An attempt is handed to the engine now.
    fn sent(&mut self, now: Tick) {
        self.attempts += 1;
        self.attempt = Some(Sent {
            at: now,
            heard: self.heard,
            looks: self.cause.is_time(),
        });
        self.due = None;
        self.silent_since.get_or_insert(now);
    }

    /// An attempt for the waiter with that number was sent earlier, before all others in the line came.
    pub(crate) fn goes_on(&mut self, id: u64, sent: Tick) {
        self.cause = Cause::Arrival;
        self.sent(sent);
        // Sent outside of the line: what was heard since then makes a `busy` of it stale, as if it had been sent from here.
        if let Some((_, event)) = self.last_event.filter(|(at, _)| *at >= sent) {
            self.cause = event;
            self.heard += 1;
        }
        let others = self.line.iter_mut().filter(|waiter| waiter.id != id);
        others.for_each(|waiter| waiter.came_after = self.attempts);
    }

    /// The attempt was granted, with that lease. Returns the waiter that it was made for; `None`: the waiter has gone, and
    /// the grant is given back. `more`: the next in line may get in too.
    pub(super) fn granted(
        &mut self,
        now: Tick,
        (lease, more): (Duration, bool),
        id: u64,
    ) -> Option<(W, Duration)> {
        let sent = self.attempt.take();
        self.silent_since = None;
        self.too_slow_since = None;
        self.polls = 0;
        if !more {
            // It is busy now, and this client is the holder: the next in line waits for our own release.
            self.busy = Some((now, Rest::Left(lease)));
        }
        // A kind with several holders: another one may have released since the attempt was sent.
        let is_stale = self.has_places && sent.is_some_and(|sent| sent.heard != self.heard);
        let position = self.line.iter().position(|waiter| waiter.id == id);
        let waiter = position.and_then(|position| self.line.remove(position));
        self.places.was_granted();
        self.due = Some(match more {
            true => (now, Cause::More),
            false if is_stale => (now, self.cause),
            false => self.look_at(now),
        });
        self.plan_newcomers(now);
        self.plan_tries(now);
        waiter.map(|waiter| (waiter.who, now.since(waiter.joined)))
    }

    /// The attempt found it busy.
    pub(crate) fn found_busy(&mut self, now: Tick, id: u64, busy: impl Into<Busy>) {
        let busy = busy.into();
        self.take_place(now, id, &busy);
        self.silent_since = None;
        self.too_slow_since = None;
        let Some(sent) = self.attempt.take() else {
            return;
        };
        self.busy = Some((sent.at, busy.rest));
        self.answer_time = now.since(sent.at).min(ANSWER_MAX);
        if let OurRelease::Last { others } = self.ours {
            self.ours = OurRelease::Earlier { others };
        }
        self.note_look(now, id, sent.looks, &busy);
        if sent.heard != self.heard {
            return self.try_at(now, self.cause);
        }
        self.due = Some(self.look_at(now));
        self.polls = self.polls.saturating_add(1);
        self.plan_newcomers(now);
        self.plan_tries(now);
    }

    /// The attempt was granted, but its time was over when the reply came: that counts like no answer, whatever else the
    /// server answers meanwhile.
    ///
    /// Counted from when the reply came: the machine may have slept since the attempt was sent.
    pub(super) fn came_too_late(&mut self, now: Tick) {
        self.too_slow_since.get_or_insert(now);
        self.silent_since = None;
        self.failed(now);
    }

    /// The attempt was not made after all: its waiter has gone.
    pub(super) fn withdrawn(&mut self, now: Tick) {
        if let Some(sent) = self.attempt.take() {
            self.silent_since.take_if(|since| *since == sent.at);
        }
        self.try_at(now, self.cause);
    }

    /// The attempt had no answer, or there is no connection: again when there is one, or a little later.
    pub(super) fn failed(&mut self, now: Tick) {
        self.attempt = None;
        self.silent_since.get_or_insert(now);
        let at = self.after_failure(now);
        self.try_at(at, Cause::Reconnected);
    }

    /// There is a connection again.
    pub(super) fn reconnected(&mut self, now: Tick) {
        if self.attempt.is_none() {
            self.try_at(now, Cause::Reconnected);
        }
    }

    /// The server refused: returns all waiters, which fail with that.
    pub(super) fn refused(&mut self) -> Vec<W> {
        self.attempt = None;
        self.silent_since = None;
        self.take(|_| true)
    }

    /// As [`Driver::try_at`], but a random pause that was drawn before is kept: our own release comes as a reply and as a
    /// message, and with two draws the shorter pause would count.
    fn try_after(&mut self, now: Tick, pause: Duration, cause: Cause) {
        let drawn = matches!(self.due, Some((_, Cause::Message | Cause::OwnRelease)));
        if !drawn || pause.is_zero() {
            self.try_at(now.after(pause), cause);
        }
    }

    /// Plans an attempt; of two planned ones the sooner counts.
    fn try_at(&mut self, at: Tick, cause: Cause) {
        if self.due.is_none_or(|(due, _)| at < due) {
            self.due = Some((at, cause));
        }
    }
}

#[cfg(test)]
mod order_tests;
#[cfg(test)]
#[path = "driver_tests.rs"]
mod tests;
