//! Stores that are about to be opened: each by one thread of this process, for all who wait for it.
//!
//! Another process may be about to begin the store and take its time, and a disk may stand still for as long as it likes, with
//! whoever opens something on it. Those who give up and come again must not leave a thread there each time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::oneshot;

use super::address::Place;
use super::directory::io_trouble;
use super::environment::Environment;
use crate::engine::{Failure, unpoisoned};

type Outcome = Result<&'static Environment, Failure>;

/// A store that a thread is about to open.
#[derive(Debug)]
struct Opening {
    id: u64,
    place: Place,
    /// A thread does not survive a fork.
    process: u32,
    waiting: Vec<oneshot::Sender<Outcome>>,
}

static OPENINGS: Mutex<Vec<Opening>> = Mutex::new(Vec::new());

/// Every place for which a thread was started.
#[cfg(test)]
pub(super) static BEGUN: Mutex<Vec<Place>> = Mutex::new(Vec::new());

/// The store of that place, opened by a thread.
pub(super) async fn opened(place: Place) -> Outcome {
    let (tell, told) = oneshot::channel();
    if let Some(id) = waits(&place, tell) {
        let ends = Ends(id);
        let thread = std::thread::Builder::new().name("ferrolock-opens".to_owned());
        let begun = thread.spawn(move || open(&place, &ends));
        begun.map_err(|error| io_trouble("a thread to open the store", &error))?;
    }
    let gone = || Failure::Unknown("the thread that opens the store has ended".to_owned());
    told.await.unwrap_or_else(|_| Err(gone()))
}

/// Adds one more who waits for that store; the number of a new opening, if none is under way.
fn waits(place: &Place, tell: oneshot::Sender<Outcome>) -> Option<u64> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let process = std::process::id();
    let mut openings = unpoisoned(&OPENINGS);
    let under_way = openings
        .iter_mut()
        .find(|opening| opening.place == *place && opening.process == process);
    if let Some(opening) = under_way {
        opening.waiting.retain(|tell| !tell.is_closed());
        opening.waiting.push(tell);
        return None;
    }
    #[cfg(test)]
    unpoisoned(&BEGUN).push(place.clone());
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    openings.push(Opening {
        id,
        place: place.clone(),
        process,
        waiting: vec![tell],
    });
    Some(id)
}

fn open(place: &Place, ends: &Ends) {
    let opened = Environment::open(place, || is_wanted(ends.0));
    for tell in taken(ends.0) {
        // Whoever asked may be gone.
        let _ = tell.send(opened.clone());
    }
}

/// Whether somebody still waits. If not, whoever comes next begins an opening of its own.
fn is_wanted(id: u64) -> bool {
    let mut openings = unpoisoned(&OPENINGS);
    openings.retain_mut(|opening| {
        if opening.id == id {
            opening.waiting.retain(|tell| !tell.is_closed());
        }
        opening.id != id || !opening.waiting.is_empty()
    });
    openings.iter().any(|opening| opening.id == id)
}

/// Ends an opening; those who wait for it.
fn taken(id: u64) -> Vec<oneshot::Sender<Outcome>> {
    let mut openings = unpoisoned(&OPENINGS);
    let at = openings.iter().position(|opening| opening.id == id);
    at.map_or_else(Vec::new, |at| openings.swap_remove(at).waiting)
}

/// Ends an opening in any case: also when its thread cannot be started, or panics.
struct Ends(u64);

impl Drop for Ends {
    fn drop(&mut self) {
        drop(taken(self.0));
    }
}
