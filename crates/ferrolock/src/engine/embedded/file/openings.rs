//! Stores that are about to be opened: each by one thread of this process, for all clients that wait for it.
//!
//! Another process may be about to begin the store and take long, and a disk may hang, and with it the thread that opens a
//! file on it. Clients that give up and try again must not leave another thread there each time.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::oneshot;

use super::address::StorePlace;
use super::directory::io_trouble;
use super::environment::Environment;
use crate::engine::{Failure, unpoisoned};

type OpenResult = Result<&'static Environment, Failure>;

/// A store that a thread is about to open.
#[derive(Debug)]
struct StoreOpening {
    id: u64,
    place: StorePlace,
    /// A thread does not survive a fork.
    process: u32,
    waiting: Vec<oneshot::Sender<OpenResult>>,
}

static OPENINGS: Mutex<Vec<StoreOpening>> = Mutex::new(Vec::new());

/// Every place for which a thread was started.
#[cfg(test)]
pub(super) static BEGUN: Mutex<Vec<StorePlace>> = Mutex::new(Vec::new());

/// The store of that place, opened by a thread.
pub(super) async fn opened(place: StorePlace) -> OpenResult {
    let (tell, told) = oneshot::channel();
    if let Some(id) = add_waiting(&place, tell) {
        let ends = Ends(id);
        let thread = std::thread::Builder::new().name("ferrolock-opens".to_owned());
        let begun = thread.spawn(move || open(&place, &ends));
        begun.map_err(|error| io_trouble("a thread to open the store", &error))?;
    }
    let gone = || Failure::Unknown("the thread that opens the store has ended".to_owned());
    told.await.unwrap_or_else(|_| Err(gone()))
}

/// Adds one more that waits for that store; returns the number of a new opening, if none is under way.
fn add_waiting(place: &StorePlace, tell: oneshot::Sender<OpenResult>) -> Option<u64> {
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
    openings.push(StoreOpening {
        id,
        place: place.clone(),
        process,
        waiting: vec![tell],
    });
    Some(id)
}

fn open(place: &StorePlace, ends: &Ends) {
    let opened = Environment::open(place, || is_wanted(ends.0));
    for tell in take(ends.0) {
        // The client may have given up.
        let _ = tell.send(opened.clone());
    }
}

/// Whether a client still waits. If not, the opening ends, and the next client begins a new one.
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

/// Ends an opening; returns the senders to those that wait for it.
fn take(id: u64) -> Vec<oneshot::Sender<OpenResult>> {
    let mut openings = unpoisoned(&OPENINGS);
    let at = openings.iter().position(|opening| opening.id == id);
    at.map_or_else(Vec::new, |at| openings.swap_remove(at).waiting)
}

/// Ends an opening in any case: also when its thread cannot be started, or panics.
struct Ends(u64);

impl Drop for Ends {
    fn drop(&mut self) {
        drop(take(self.0));
    }
}
