//! Waiters of a kind whose queue is on the server: each has a place there after its first attempt.
//!
//! A newcomer attempts at once, in order of arrival, so that the server knows of it. Waiters with places are in the line in
//! the server's order; a message names the waiter that it is for. Only the front of the line can be the first in the
//! server's queue, so it alone looks again and again, which also shows the server that this client lives. The others look
//! before their places are too old.

use std::time::Duration;

use crate::coordination::waiting::driver::{Cause, Driver, Listening, Next, Waiter};
use crate::engine::Tick;
use crate::protocol::scheme::{Busy, Rest, Waiting};

/// What the waiters of such a kind share.
#[derive(Debug)]
pub(super) struct Places {
    /// How long a place is good without an attempt; `None`: for good.
    last: Option<Duration>,
    /// The waiter that a message named.
    named: Option<u64>,
    /// When the front looks again, whichever waiter that is then: it is the client that shows that it lives.
    look: Option<Tick>,
    /// When that waiter looks again sooner, if it is the front, and why.
    sooner: Option<(u64, Tick, Cause)>,
    /// The waiter whose own channel is listened to.
    own: Option<u64>,
}

impl Places {
    pub(super) fn new(last: Option<Duration>) -> Self {
        Self {
            last,
            named: None,
            look: None,
            sooner: None,
            own: None,
        }
    }

    /// What was known of the holder's lease is no longer true.
    pub(super) fn was_granted(&mut self) {
        self.sooner = None;
    }

    pub(super) fn line_is_empty(&mut self) {
        self.named = None;
        self.look = None;
        self.sooner = None;
    }
}

impl<W: Clone> Driver<W> {
    /// The waiter that the next attempt is for, and its number. A message names one. An event of another sort is for the
    /// first in line, also if newcomers wait or a place is old: their attempts are planned again after it.
    pub(super) fn next_in_line(&mut self, now: Tick, cause: Cause) -> Option<(W, u64)> {
        let named = self.places.named.take();
        let is_named = |waiter: &&Waiter<W>| Some(waiter.id) == named;
        let named = self.line.iter().find(is_named);
        let front = self.line.front()?;
        let newcomers_first = self.has_places && (cause == Cause::Arrival || !front.is_known);
        let is_newcomer = |waiter: &&Waiter<W>| newcomers_first && !waiter.is_known;
        let newcomer = || self.line.iter().find(is_newcomer);
        let stale = || self.stale_place(now).filter(|_| cause.is_time());
        let next = named.or_else(newcomer).or_else(stale).unwrap_or(front);
        Some((next.who.clone(), next.id))
    }
}

impl<W> Driver<W> {
    /// The waiter with that number has a place, or will have one. The driver may have been begun by a waiter of the same line
    /// that has none: from now on it goes by what this one needs.
    pub(crate) fn keep_place(&mut self, now: Tick, id: u64, waiting: &Waiting) {
        let waiter = self.line.iter_mut().find(|waiter| waiter.id == id);
        waiter
            .into_iter()
            .for_each(|waiter| waiter.keeps_place = true);
        if !self.has_places {
            self.has_places = true;
            self.pace = waiting.pace.clone();
            self.places = Places::new(waiting.place_lasts);
            self.polls = 0;
            if self.attempt.is_none() {
                self.plan_newcomers(now);
            }
        }
    }

    /// A message came for the front. The intent of a writer may have gone with that writer: if the front has none, the first
    /// that keeps one attempts after it.
    pub(super) fn place_may_be_free(&mut self) {
        let mut waiters = self.line.iter_mut().enumerate();
        let first = waiters.find(|(_, waiter)| waiter.keeps_place);
        if let Some((1.., waiter)) = first
            && waiter.place.is_none()
        {
            waiter.is_known = false;
        }
    }

    /// The number of the first waiter for which `is_it` returns true.
    pub(crate) fn find(&self, mut is_it: impl FnMut(&W) -> bool) -> Option<u64> {
        let waiter = self.line.iter().find(|waiter| is_it(&waiter.who));
        waiter.map(|waiter| waiter.id)
    }

    /// The waiter with that number.
    pub(crate) fn waiter(&self, id: u64) -> Option<&W> {
        let waiter = self.line.iter().find(|waiter| waiter.id == id);
        waiter.map(|waiter| &waiter.who)
    }

    /// Whether the waiter with that number is the first in the line.
    pub(crate) fn is_front(&self, id: u64) -> bool {
        self.line.front().is_some_and(|front| front.id == id)
    }

    /// A message came for the waiter with that number.
    pub(crate) fn woken(&mut self, now: Tick, id: u64) {
        self.places.named = Some(id);
        self.event(now, Duration::ZERO, Cause::Message);
    }

    /// The server answered with the waiter's place; `None` from a kind without a queue.
    pub(crate) fn take_place(&mut self, now: Tick, id: u64, busy: &Busy) {
        let Some(waiter) = self.line.iter_mut().find(|waiter| waiter.id == id) else {
            return;
        };
        waiter.is_known = true;
        waiter.place = busy.place;
        waiter.answered = now;
        waiter.is_mixed = busy.is_mixed;
        let is_asked_again = std::mem::take(&mut waiter.is_asked_again);
        if busy.is_shaken && !is_asked_again {
            self.ask_again(id);
        }
        if busy.place.is_some() {
            // Waiters without a place go behind, in order of arrival: the sort is stable.
            let line = self.line.make_contiguous();
            line.sort_by_key(|waiter| waiter.place.unwrap_or(u64::MAX));
        }
    }

    /// The waiter with that number had lost its place: the others may have lost theirs, and attempt too, each once.
    fn ask_again(&mut self, id: u64) {
        for waiter in self.line.iter_mut().filter(|waiter| waiter.id != id) {
            if waiter.place.is_some() {
                waiter.is_known = false;
                waiter.is_asked_again = true;
            }
        }
    }

    /// An attempt of that waiter found it busy; `looks`: it was made because time had passed.
    pub(super) fn note_look(&mut self, now: Tick, id: u64, looks: bool, busy: &Busy) {
        let is_front = self.is_front(id);
        if !self.has_places || is_front {
            if looks || !self.has_places {
                self.places.look = None;
            }
            let lease_end = match busy.rest {
                Rest::Left(left) if busy.is_next => Some((left + LEASE_GRAIN, Cause::LeaseEnd)),
                _ => None,
            };
            let look = busy.look_in.map(|pause| (pause, Cause::SafetyPoll));
            let soonest = look.into_iter().chain(lease_end).min_by_key(|(at, _)| *at);
            self.places.sooner = soonest.map(|(pause, cause)| (id, now.after(pause), cause));
        }
    }

    /// When the front attempts again if nothing happens, and why.
    pub(super) fn look_at(&mut self, now: Tick) -> (Tick, Cause) {
        let look = match self.places.look.filter(|_| self.has_places) {
            Some(look) => look,
            None => self.poll(now),
        };
        self.places.look = Some(look);
        match self.places.sooner {
            Some((id, at, cause)) if at < look && (!self.has_places || self.is_front(id)) => {
                (at, cause)
            }
            _ => (look, Cause::SafetyPoll),
        }
    }

    /// A waiter that is not the front, and whose place will soon be too old.
    pub(super) fn stale_place(&self, now: Tick) -> Option<&Waiter<W>> {
        let mut others = self.others_with_places();
        others
            .find(|(_, until)| *until <= now)
            .map(|(waiter, _)| waiter)
    }

    /// When the first of them has to look.
    pub(super) fn next_stale_place(&self) -> Option<Tick> {
        self.others_with_places().map(|(_, until)| until).min()
    }

    /// None while the server owes an answer: the next attempt is planned then, and no other is sent beside it. Where the
    /// server has one place for all (the intent of a writer), the first that keeps it looks for the others.
    fn others_with_places(&self) -> impl Iterator<Item = (&Waiter<W>, Tick)> {
        let last = self.places.last;
        let first = self.line.iter().find(|waiter| waiter.keeps_place);
        let first = first.map(|waiter| waiter.id);
        let is_answered = self.silent_since.is_none();
        let others = self.line.iter().skip(1).filter(move |_| is_answered);
        others.filter_map(move |waiter| {
            let keeps = waiter.place.is_some() || first == Some(waiter.id);
            let last = last.filter(|_| keeps)?;
            Some((waiter, waiter.answered.after(last)))
        })
    }

    /// Plans the next attempt for now, if there is a waiter that the server does not know of.
    pub(super) fn plan_newcomers(&mut self, now: Tick) {
        if self.has_places && self.line.iter().any(|waiter| !waiter.is_known) {
            self.try_at(now, Cause::Arrival);
        }
    }

    /// Whether a release of ours needs no attempt here: the server has told the first in its queue, and if that is a waiter
    /// here, the message comes.
    pub(super) fn is_told_of_its_turn(&self, heard: u64) -> bool {
        self.has_places && self.listening == Listening::Yes && heard > 0
    }

    /// The own channel that has to be listened to changes: with another front, and with the last of another library's.
    pub(super) fn change_own_channel(&mut self) -> Option<Next<W>> {
        let front = self.line.front().filter(|waiter| waiter.is_mixed);
        let wanted = front.map(|waiter| waiter.id);
        if wanted == self.places.own {
            return None;
        }
        self.places.own = wanted;
        Some(Next::ListenOwn(wanted))
    }

    /// The subscription to that waiter's own channel is confirmed.
    pub(crate) fn own_confirmed(&mut self, now: Tick, id: u64) {
        if self.places.own == Some(id) {
            self.places.named = Some(id);
            self.event(now, Duration::ZERO, Cause::Confirmed);
        }
    }
}

/// A lease is over this long after its rest.
const LEASE_GRAIN: Duration = Duration::from_millis(1);

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
