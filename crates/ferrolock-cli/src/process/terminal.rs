//! The terminal: which process group has it, and handing it over.

use std::fs::{File, OpenOptions};

use rustix::process::Pid;
use rustix::stdio;
use rustix::termios::{
    OptionalActions, Termios, isatty, tcgetattr, tcgetpgrp, tcsetattr, tcsetpgrp,
};

use super::group::Group;
use super::{procfs, signals};

/// The terminal of our session.
#[derive(Debug)]
pub(crate) struct Terminal {
    handle: File,
    lent_to: Option<Group>,
    /// The terminal's modes when the command got it first.
    modes: Option<Termios>,
}

impl Terminal {
    /// `None`: there is none.
    pub(crate) fn open() -> Option<Self> {
        // Not standard input: that of a pager, for one, is not the terminal.
        let handle = OpenOptions::new()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()?;
        signals::block_terminal_output_stops();
        Some(Self {
            handle,
            lent_to: None,
            modes: None,
        })
    }

    /// Gives it to the command's group at its start, or after a stop.
    ///
    /// In a pipe (`… | less`) other processes of our group may need it: there the command gets it when it asks.
    pub(crate) fn offer(&mut self, group: Group) {
        if isatty(stdio::stdin()) && isatty(stdio::stdout()) {
            self.lend(group);
        }
    }

    /// Whether the command has it.
    pub(crate) fn is_lent(&self) -> bool {
        self.lent_to
            .is_some_and(|group| self.foreground() == Some(group.id()))
    }

    /// Gives it to the command's group, if we are in its foreground; returns whether the group has it now.
    ///
    /// If our own group has no number, we could not take it back, so we do not give it.
    pub(crate) fn lend(&mut self, group: Group) -> bool {
        let own = Group::own().map(Group::id);
        if own.is_none() || self.foreground() != own {
            return false;
        }
        if self.modes.is_none() {
            self.modes = tcgetattr(&self.handle).ok();
        }
        let is_lent = tcsetpgrp(&self.handle, group.id()).is_ok();
        self.lent_to = is_lent.then_some(group);
        is_lent
    }

    /// Takes it back if the command still has it, or gave it to a group that is gone; returns whether it is ours.
    pub(crate) fn take_back(&mut self) -> bool {
        let (Some(group), Some(foreground)) = (self.lent_to.take(), self.foreground()) else {
            return false;
        };
        let is_left = foreground == group.id() || procfs::has_living(foreground) == Some(false);
        let own = Group::own().filter(|_| is_left);
        own.is_some_and(|own| tcsetpgrp(&self.handle, own.id()).is_ok())
    }

    /// Takes it back from a command that may not have restored the terminal's modes, and restores them.
    pub(crate) fn take_back_as_it_was(&mut self) {
        if self.take_back()
            && let Some(modes) = &self.modes
        {
            let _ = tcsetattr(&self.handle, OptionalActions::Now, modes);
        }
    }

    fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.handle).ok()
    }
}

/// Whether a shell watches our group and could let it go on after a stop.
///
/// There is one if a process of our group has a parent in another group of this session. We look for it among our own
/// ancestors.
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
