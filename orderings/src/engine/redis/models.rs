//! The pulse of a connection: what its watcher sees while callers come and go.

use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::spawn;

use super::connection::pulse::Pulse;
use crate::engine::Tick;

/// Long after the last byte came.
const ASKED: Tick = Tick::from_nanos(100);

/// The caller runs in the model's first thread: otherwise `loom` would not notice a read of the count that comes before the
/// caller's own.
pub(crate) fn an_idle_connection_that_is_asked_is_not_silent() {
    let pulse = Arc::new(Pulse::new());
    let watcher = {
        let pulse = pulse.clone();
        spawn(move || {
            let silence = pulse.silence(ASKED);
            assert_eq!(silence, Duration::ZERO, "silent before it was asked");
        })
    };

    pulse.wait(|| ASKED).answered();

    assert!(watcher.join().is_ok());
}

pub(crate) fn a_caller_who_gives_up_leaves_the_silence_behind() {
    let (pulse, has_asked) = (Arc::new(Pulse::new()), Arc::new(AtomicBool::new(false)));
    let caller = {
        let (pulse, has_asked) = (pulse.clone(), has_asked.clone());
        spawn(move || {
            let gives_up = pulse.wait(|| ASKED);
            has_asked.store(true, Ordering::Release);
            drop(gives_up);
        })
    };

    if has_asked.load(Ordering::Acquire) {
        let silence = pulse.silence(ASKED.after(Duration::from_nanos(10)));
        assert_eq!(silence, Duration::from_nanos(10), "nothing was owed");
    }

    assert!(caller.join().is_ok());
}
