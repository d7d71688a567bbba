//! Waiters of a kind whose queue is on the server: each has a place there after its first attempt.
//!
//! A newcomer attempts at once, in order of arrival, so that the server knows of it. Waiters with places are in the line in
//! the server's order; a message may name the waiter that it is for.

use crate::coordination::waiting::driver::{Cause, Driver};
use crate::engine::Tick;

impl<W> Driver<W> {
    /// The waiter that the next attempt is for.
    pub(super) fn next_in_line(&mut self) -> Option<u64> {
        let named = self.named.take();
        if self.has_places {
            let newcomer = self.line.iter().find(|waiter| !waiter.is_known);
            let meant = || {
                let mut line = self.line.iter();
                named.and_then(|named| line.find(|waiter| waiter.place == Some(named)))
            };
            if let Some(waiter) = newcomer.or_else(meant) {
                return Some(waiter.id);
            }
        }
        self.line.front().map(|waiter| waiter.id)
    }

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
