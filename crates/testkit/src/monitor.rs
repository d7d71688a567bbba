//! Every command that a server receives, in the order in which it receives them.

use crate::connection::{Closer, Connection};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A `MONITOR` connection and the lines it has collected.
///
/// A line reads `1700000000.123456 [0 127.0.0.1:50000] "SET" "name" "value"`; with `lua` for the address
/// when a script called the command.
#[derive(Debug)]
pub struct Monitor {
    seen: Arc<Seen>,
    closer: Closer,
    collector: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Seen {
    lines: Mutex<Vec<String>>,
    more: Condvar,
}

impl Monitor {
    #[track_caller]
    pub(crate) fn start(mut connection: Connection) -> Self {
        let closer = connection.closer().expect("a second handle of the socket");
        assert_eq!(connection.command(&["MONITOR"]), "OK".into());
        let seen = Arc::new(Seen::default());
        let collecting = Arc::clone(&seen);
        let collector = std::thread::spawn(move || {
            while let Ok(line) = connection.receive_line() {
                collecting.push(line);
            }
        });
        Self {
            seen,
            closer,
            collector: Some(collector),
        }
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.seen.lines.lock().unwrap().clone()
    }

    /// Waits for a line that fits and returns it; panics after `limit` with all lines seen.
    #[track_caller]
    pub fn wait_for(&self, mut fits: impl FnMut(&str) -> bool, limit: Duration) -> String {
        let mut found = None;
        let lines = self.seen.lines.lock().unwrap();
        let (lines, _) = self
            .seen
            .more
            .wait_timeout_while(lines, limit, |lines| {
                found = lines.iter().find(|line| fits(line)).cloned();
                found.is_none()
            })
            .unwrap();
        found.unwrap_or_else(|| panic!("no such command in {limit:?}; seen: {lines:#?}"))
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.closer.close();
        if let Some(collector) = self.collector.take() {
            let _ = collector.join();
        }
    }
}

impl Seen {
    fn push(&self, line: String) {
        // The protocol marks each line as a status.
        let line = line.strip_prefix('+').map(str::to_owned).unwrap_or(line);
        self.lines.lock().unwrap().push(line);
        self.more.notify_all();
    }
}
