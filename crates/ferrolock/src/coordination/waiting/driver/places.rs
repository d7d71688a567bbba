//! Waiters of a kind whose queue is on the server: each has a place there after its first attempt.
//!
//! A newcomer attempts at once, in order of arrival, so that the server knows of it. Waiters with places are in the line in
//! the server's order; a message may name the waiter that it is for.

use crate::coordination::waiting::driver::{Cause, Driver, Waiter};
use crate::engine::Tick;

impl<W: Clone> Driver<W> {
    /// The waiter that the next attempt is for, and its number. A message names one. An event of another sort is for the
    /// first in line, also if newcomers wait: their attempts are planned again after it.
    pub(super) fn next_in_line(&mut self, cause: Cause) -> Option<(W, u64)> {
        let named = self.named.take();
        let is_named = |waiter: &&Waiter<W>| named.is_some() && waiter.place == named;
        let named = self.line.iter().find(is_named);
        let front = self.line.front()?;
        let newcomers_first = self.has_places && (cause == Cause::Arrival || !front.is_known);
        let is_newcomer = |waiter: &&Waiter<W>| newcomers_first && !waiter.is_known;
        let newcomer = || self.line.iter().find(is_newcomer);
        let next = named.or_else(newcomer).unwrap_or(front);
        Some((next.who.clone(), next.id))
    }
}

impl<W> Driver<W> {
    pub(super) fn is_at(&self, place: u64) -> bool {
        let places = self.line.iter().map(|waiter| waiter.place);
        places.into_iter().any(|other| other == Some(place))
    }

    /// The server answered with the waiter's place; `None` from a kind without a queue.
    pub(crate) fn take_place(&mut self, id: u64, place: Option<u64>) {
        if let Some(waiter) = self.line.iter_mut().find(|waiter| waiter.id == id) {
            waiter.is_known = true;
            waiter.place = place;
        }
        if place.is_some() {
            // Waiters without a place go behind, in order of arrival: the sort is stable.
            let line = self.line.make_contiguous();
            line.sort_by_key(|waiter| waiter.place.unwrap_or(u64::MAX));
        }
    }

    /// Plans the next attempt for now, if there is a waiter that the server does not know of.
    pub(super) fn plan_newcomers(&mut self, now: Tick) {
        if self.has_places && self.line.iter().any(|waiter| !waiter.is_known) {
            self.try_at(now, Cause::Arrival);
        }
    }
}

#[cfg(test)]
#[path = "places_tests.rs"]
mod tests;
