//! Process groups: the command's, and our own.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::procfs;

/// Between two looks at a group whose leader has ended.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// How long after a look at a group the next one comes, by the time since its leader ended. Each look reads the system's whole
/// table, and a process of another user may be waited for without end.
pub(crate) fn pause_between_looks(since_end: Duration) -> Duration {
    (since_end / 8).clamp(LOOK_MIN, LOOK_MAX)
}

/// All processes that were started in a group and have not left it.
///
/// The number of the command's group is not given to anybody else while one of them is there, be it as a zombie;
/// `ferrolock` does not reap the command before nobody sends signals to the group any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(Pid);

impl Group {
    /// The group led by that process.
    pub(crate) fn of(leader: Pid) -> Self {
        Self(leader)
    }

    /// The one that we are in. `None`: its leader is outside of our namespace, so that it has no number here.
    pub(crate) fn own() -> Option<Self> {
        // Of the other crate's function zero is no value.
        Pid::from_raw(nix::unistd::getpgrp().as_raw()).map(Self)
    }

    pub(crate) fn id(self) -> Pid {
        self.0
    }

    /// Sends a signal to each of them; nothing happens if none is there.
    pub(crate) fn signal(self, signal: Signal) -> io::Result<()> {
        match kill_process_group(self.0, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(why) => Err(why.into()),
        }
    }

    /// Whether none of them runs or could run again.
    ///
    /// A dead one whose parent does not look (a stopped `ferrolock`) is still in the group, so the group's existence is
    /// asked first and its members only then.
    pub(crate) fn is_gone(self) -> bool {
        test_kill_process_group(self.0) == Err(Errno::SRCH)
            || procfs::has_living(self.0) == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is gone is noticed at most an eighth later than it could be, and half a second.
    #[test]
    fn a_group_is_looked_at_ever_more_rarely() {
        let looks = |until: Duration| {
            let (mut time, mut count) = (Duration::ZERO, 0);
            while time < until {
                time += pause_between_looks(time);
                count += 1;
            }
            count
        };

        assert_eq!(pause_between_looks(Duration::ZERO), LOOK_MIN);
        assert_eq!(pause_between_looks(Duration::from_secs(3600)), LOOK_MAX);
        assert!(looks(Duration::from_secs(1)) < 40);
        assert!(looks(Duration::from_secs(60)) < 200);
    }
}
