//! The terminal: who has it, and handing it over.

use rustix::process::{Pid, getpgrp};
use rustix::stdio;
use rustix::termios::{isatty, tcgetpgrp, tcsetpgrp};

use super::group::Group;
use super::{procfs, signals};

/// Our right to the terminal that is our standard input.
#[derive(Debug)]
pub(crate) struct Terminal {
    lent_to: Option<Group>,
}

impl Terminal {
    /// `None`: the standard input is no terminal.
    pub(crate) fn of_input() -> Option<Self> {
        if !isatty(stdio::stdin()) {
            return None;
        }
        signals::block_terminal_output_stops();
        Some(Self { lent_to: None })
    }

    /// Whether the command gets it at once.
    ///
    /// In a pipe (`… | less`) others of our group need it: there the command gets it when it asks.
    pub(crate) fn is_ours_alone(&self) -> bool {
        isatty(stdio::stdout())
    }

    /// Whether the command has it.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent_to.is_some()
    }

    /// Gives it to the command's group, if we are in its foreground. True: the group has it.
    pub(crate) fn lend(&mut self, group: Group) -> bool {
        if foreground() != Some(getpgrp()) {
            return false;
        }
        let lent = tcsetpgrp(stdio::stdin(), group.id()).is_ok();
        self.lent_to = lent.then_some(group);
        lent
    }

    /// Takes it back from the command, if the command still has it.
    pub(crate) fn take_back(&mut self) {
        if let Some(group) = self.lent_to.take()
            && foreground() == Some(group.id())
        {
            let _ = tcsetpgrp(stdio::stdin(), getpgrp());
        }
    }
}

fn foreground() -> Option<Pid> {
    tcgetpgrp(stdio::stdin()).ok()
}

/// Whether a shell watches our group and could let it go on after a stop.
///
/// There is one if somebody in our group has a parent in another group of this session; the way up from here finds it.
pub(crate) fn is_under_job_control() -> bool {
    let Some(own) = procfs::stat(rustix::process::getpid().as_raw_pid()) else {
        return false;
    };
    let mut parent = own.parent;
    while let Some(above) = procfs::stat(parent) {
        if above.session != own.session {
            return false;
        }
        if above.group != own.group {
            return true;
        }
        parent = above.parent;
    }
    false
}
