//! Process groups: the command's, and our own.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};

use super::procfs;

/// Between two looks at a group whose leader has ended.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// The pause before the next look at a group, by the time since its leader ended. Each look reads the system's whole process
/// table, and a process of another user, which cannot be killed, may live on for any time.
pub(crate) fn pause_between_looks(since_end: Duration) -> Duration {
    (since_end / 8).clamp(LOOK_MIN, LOOK_MAX)
}

/// All processes that were started in a group and have not left it.
///
/// No other group gets the number of the command's group while one of them exists, even as a zombie; `ferrolock` reaps the
/// command only when neither it nor the shim sends signals to the group any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group(Pid);

impl Group {
    /// The group led by that process.
    pub(crate) fn of(leader: Pid) -> Self {
        Self(leader)
    }

    /// The group that we are in. `None`: its leader is outside of our namespace, so that it has no number here.
    pub(crate) fn own() -> Option<Self> {
        // The same function of `rustix` cannot return zero.
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
    /// A dead process that its parent (a stopped `ferrolock`) has not reaped is still in the group. So we first ask whether
    /// the group exists, and if it does, whether one of its members is alive.
    pub(crate) fn is_gone(self) -> bool {
        test_kill_process_group(self.0) == Err(Errno::SRCH)
            || procfs::has_living(self.0) == Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of a group is noticed late by at most an eighth of the time waited, and at most half a second.
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
