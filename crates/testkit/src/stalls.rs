//! How long the machine itself stands still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often the machine is asked whether it goes on.
const TICK: Duration = Duration::from_millis(5);

/// Watches how long a thread that only sleeps is kept from going on.
///
/// A machine that is shared may let nobody run for a while. What came late by no more than that is nobody's fault.
#[derive(Debug)]
pub struct Stalls {
    is_over: Arc<AtomicBool>,
    watcher: JoinHandle<Vec<Duration>>,
}

impl Stalls {
    /// Watches from now on.
    pub fn watch() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let watcher = thread::spawn(move || {
            let mut stalls = Vec::new();
            while !told.load(Ordering::Relaxed) {
                let begun = Instant::now();
                thread::sleep(TICK);
                stalls.push(begun.elapsed().saturating_sub(TICK));
            }
            stalls.sort();
            stalls
        });
        Self { is_over, watcher }
    }

    /// Ends the watch; what was seen, the longest last.
    pub fn seen(self) -> Vec<Duration> {
        self.is_over.store(true, Ordering::Relaxed);
        self.watcher.join().expect("it only sleeps")
    }
}
