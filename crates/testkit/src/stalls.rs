//! How long the machine itself stalls.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long the watching thread sleeps each time.
const TICK: Duration = Duration::from_millis(5);

/// Measures how much too long a thread sleeps that only sleeps.
///
/// A shared machine may let no thread run for a while. If something is late by no more than that, the machine is the cause.
#[derive(Debug)]
pub struct Stalls {
    is_over: Arc<AtomicBool>,
    watcher: JoinHandle<Vec<Duration>>,
}

impl Stalls {
    /// Watches from now on.
    pub fn watch() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let is_ended = Arc::clone(&is_over);
        let watcher = thread::spawn(move || {
            let mut stalls = Vec::new();
            while !is_ended.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(TICK);
                stalls.push(begun.elapsed().saturating_sub(TICK));
            }
            stalls.sort();
            stalls
        });
        Self { is_over, watcher }
    }

    /// Ends the watch; returns the stalls, the longest last.
    pub fn seen(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.watcher.join().expect("it only sleeps")
    }
}
