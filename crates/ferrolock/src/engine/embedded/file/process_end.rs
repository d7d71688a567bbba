//! Waits for the end of other processes, so that waiters for their locks are woken.
//!
//! A session's file can be locked when its process has ended; a thread per such session sleeps until then. No message
//! comes from a process that was killed, and no waiter should have to wait for its lease.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::sync::Mutex;

use rustix::fs::{FlockOperation, flock};

use crate::engine::unpoisoned;

/// At most this many sessions are waited for at a time; for others, waiters look again now and then, as they do anyway.
const SESSIONS_MAX: usize = 64;
/// A thread that waits for a session stays until that ends, also when no waiter is left.
const THREADS_MAX: usize = 512;

/// Which channels are to be woken at the end of which session.
#[derive(Debug, Default)]
pub(super) struct ProcessEnds {
    channels: Mutex<HashMap<String, BTreeSet<Vec<u8>>>>,
}

impl ProcessEnds {
    /// Notes that listeners of the channel wait for that session; returns whether the caller has to start the waiting.
    pub(super) fn add(&self, session: &str, channel: Vec<u8>) -> bool {
        let mut sessions = unpoisoned(&self.channels);
        if let Some(channels) = sessions.get_mut(session) {
            channels.insert(channel);
            return false;
        }
        let waited_for = sessions.values().filter(|channels| !channels.is_empty());
        if waited_for.count() >= SESSIONS_MAX || sessions.len() >= THREADS_MAX {
            return false;
        }
        sessions.insert(session.to_owned(), BTreeSet::from([channel]));
        true
    }

    /// The last listener of that channel has left.
    pub(super) fn forget(&self, channel: &[u8]) {
        for channels in unpoisoned(&self.channels).values_mut() {
            channels.remove(channel);
        }
    }

    /// Calls `tell` with the channels when the session has ended; without its file, there is nothing to wait for.
    pub(super) fn start_waiting(
        &'static self,
        session: &str,
        file: Option<File>,
        tell: impl FnOnce(BTreeSet<Vec<u8>>) + Send + 'static,
    ) {
        let name = session.to_owned();
        let thread = std::thread::Builder::new().name("ferrolock-waits".to_owned());
        let begun = file.map(|file| {
            thread.spawn(move || {
                let ended = wait_until_ended(&file);
                let channels = unpoisoned(&self.channels).remove(&name);
                if let (true, Some(channels)) = (ended, channels) {
                    tell(channels);
                }
            })
        });
        if !matches!(begun, Some(Ok(_))) {
            unpoisoned(&self.channels).remove(session);
        }
    }
}

/// Sleeps until the file can be locked.
fn wait_until_ended(file: &File) -> bool {
    loop {
        match flock(file, FlockOperation::LockShared) {
            Err(rustix::io::Errno::INTR) => {}
            done => return done.is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once, places were kept for sessions that were no longer waited for, until they ended: a process that had waited for 64
    /// others, which lived on, was no longer woken by the end of any other.
    #[test]
    fn a_session_that_is_no_longer_waited_for_does_not_count() {
        let ends: &ProcessEnds = Box::leak(Box::default());
        let folder = tempfile::tempdir().unwrap();
        let mut alive = Vec::new();
        for number in 0..SESSIONS_MAX {
            let session = number.to_string();
            let path = folder.path().join(&session);
            let theirs = File::create(&path).unwrap();
            flock(&theirs, FlockOperation::LockExclusive).unwrap();
            alive.push(theirs);
            assert!(ends.add(&session, b"x".to_vec()));
            ends.start_waiting(&session, File::open(&path).ok(), |_| ());
        }
        assert!(!ends.add("one more", b"x".to_vec()));

        ends.forget(b"x");

        assert!(ends.add("one more", b"y".to_vec()));
    }
}
