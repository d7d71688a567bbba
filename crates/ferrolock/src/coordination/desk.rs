//! What a client knows of each name: who holds it here, who waits for it here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::Tenure;
use super::acquire::driver::Driver;
use super::acquire::slot::Answer;
use super::acquire::{Patience, Request};
use crate::engine::{Subscription, Tick};
use crate::error::Error;
use crate::owner::Owner;

/// All names that somebody here holds or waits for.
#[derive(Debug, Default)]
pub(crate) struct Desk {
    seats: HashMap<Arc<str>, Seat>,
}

/// One name.
#[derive(Debug)]
pub(crate) struct Seat {
    tenures: Vec<Arc<Tenure>>,
    /// Those who wait. Kept for a while after the last one, for what it knows of the competition.
    pub(crate) driver: Option<Box<Driver<Arc<Request>>>>,
    pub(crate) subscription: Option<Subscription>,
    /// A task runs the driver.
    pub(crate) driven: bool,
    /// Releases of ours that are not answered yet.
    releases: u32,
    /// Who asks for the name with a future of its own, while nobody waits.
    pub(crate) first: Option<Arc<Request>>,
    /// Whose attempts are not answered yet.
    attempting: Vec<Owner>,
    /// Told of whatever the driver, or an attempt that waits for our releases, should look at.
    pub(crate) news: Arc<Notify>,
}

impl Seat {
    fn new() -> Self {
        Self {
            tenures: Vec::new(),
            driver: None,
            first: None,
            subscription: None,
            driven: false,
            releases: 0,
            attempting: Vec::new(),
            news: Arc::new(Notify::new()),
        }
    }

    fn is_empty(&self) -> bool {
        let held = !self.tenures.is_empty() || !self.attempting.is_empty();
        !held && self.first.is_none() && self.driver.is_none() && self.releases == 0 && !self.driven
    }

    /// Whether that task holds the name by another owner, and would wait for itself.
    pub(crate) fn is_held_in(&self, task: tokio::task::Id) -> bool {
        self.tenures.iter().any(|tenure| tenure.is_held_in(task))
    }

    pub(crate) fn releases(&self) -> u32 {
        self.releases
    }

    /// Whether that owner may be inside as soon as an attempt of it is answered.
    pub(crate) fn is_attempted_by(&self, owner: &Owner) -> bool {
        self.attempting.contains(owner)
    }

    fn attempt_ended(&mut self, owner: &Owner) {
        if let Some(place) = self.attempting.iter().position(|other| other == owner) {
            self.attempting.swap_remove(place);
        }
        self.news.notify_waiters();
    }

    /// The tenure that `owner` can enter again.
    pub(crate) fn live_tenure(&self, owner: &Owner) -> Option<Arc<Tenure>> {
        let inside = |tenure: &&Arc<Tenure>| tenure.owner == *owner && tenure.is_enterable();
        self.tenures.iter().find(inside).cloned()
    }
}

impl Desk {
    pub(crate) fn seat(&mut self, name: &Arc<str>) -> &mut Seat {
        self.seats.entry(name.clone()).or_insert_with(Seat::new)
    }

    pub(crate) fn seat_if_any(&mut self, name: &str) -> Option<&mut Seat> {
        self.seats.get_mut(name)
    }

    pub(crate) fn live_tenure(&self, name: &str, owner: &Owner) -> Option<Arc<Tenure>> {
        self.seats.get(name)?.live_tenure(owner)
    }

    /// Whether anybody here holds that name, waits or asks for it.
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.seats.contains_key(name)
    }

    /// The caller makes the first attempt itself.
    pub(crate) fn walks_in(&mut self, request: &Arc<Request>) {
        let seat = self.seat(&request.keys.lock);
        seat.attempting.push(request.owner.clone());
        if request.patience != Patience::None {
            seat.first = Some(request.clone());
        }
    }

    /// It does not any more.
    pub(crate) fn walked_out(&mut self, request: &Arc<Request>) {
        if let Some(seat) = self.seats.get_mut(&request.keys.lock) {
            seat.first.take_if(|first| Arc::ptr_eq(first, request));
        }
        self.tidy(&request.keys.lock);
    }

    /// An attempt is on its way.
    pub(crate) fn attempt_begins(&mut self, name: &Arc<str>, owner: &Owner) {
        self.seat(name).attempting.push(owner.clone());
    }

    /// It was answered, or is given up.
    pub(crate) fn attempt_ended(&mut self, name: &str, owner: &Owner) {
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        seat.attempt_ended(owner);
        self.tidy(name);
    }

    /// A grant came. True: somebody here waits for the name.
    pub(crate) fn moved_in(&mut self, tenure: &Arc<Tenure>) -> bool {
        let seat = self.seat(&tenure.keys.lock);
        seat.tenures.push(tenure.clone());
        seat.first.take_if(|first| first.owner == tenure.owner);
        seat.attempt_ended(&tenure.owner);
        seat.driver.is_some()
    }

    /// A tenure ended.
    pub(crate) fn moved_out(&mut self, tenure: &Arc<Tenure>) {
        if let Some(seat) = self.seats.get_mut(&tenure.keys.lock) {
            seat.tenures.retain(|other| !Arc::ptr_eq(other, tenure));
        }
        self.tidy(&tenure.keys.lock);
    }

    /// A release of ours is on its way: attempts wait for its answer.
    pub(crate) fn release_begins(&mut self, name: &Arc<str>, now: Tick) {
        let seat = self.seat(name);
        seat.releases += 1;
        if let Some(driver) = &mut seat.driver {
            driver.release_begins(now);
        }
    }

    /// It was answered (`heard`: it freed the name, and so many heard of it), or has become a debt.
    pub(crate) fn release_ended(
        &mut self,
        name: &str,
        now: Tick,
        heard: Option<u64>,
        round_trip: Duration,
    ) {
        let Some(seat) = self.seats.get_mut(name) else {
            return;
        };
        seat.releases = seat.releases.saturating_sub(1);
        if let Some(driver) = &mut seat.driver {
            driver.release_ended(now, heard, round_trip);
        }
        seat.news.notify_waiters();
        seat.news.notify_one();
        self.tidy(name);
    }

    /// Forgets a name that nobody holds or waits for.
    pub(crate) fn tidy(&mut self, name: &str) {
        if self.seats.get(name).is_some_and(Seat::is_empty) {
            self.seats.remove(name);
        }
    }

    /// Names that are listened to.
    pub(crate) fn listening(&self) -> usize {
        self.seats
            .values()
            .filter(|seat| seat.subscription.is_some())
            .count()
    }

    /// Every tenure of this client.
    pub(crate) fn tenures(&self) -> Vec<Arc<Tenure>> {
        self.seats
            .values()
            .flat_map(|seat| seat.tenures.iter().cloned())
            .collect()
    }

    /// Everybody who waits is told so.
    pub(crate) fn turn_away(&mut self, error: &Error) {
        for seat in self.seats.values_mut() {
            for request in seat
                .driver
                .iter_mut()
                .flat_map(|driver| driver.take(|_| true))
            {
                request
                    .slot
                    .answer(Answer::Failed(error.clone().of(&request.keys.lock)));
            }
            seat.news.notify_waiters();
            seat.news.notify_one();
        }
    }
}
