//! What becomes of a child process, seen without taking it from the system's table.

use std::io;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, waitid};

use crate::exit;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(u8),
    Signal(i32),
}

impl End {
    /// What a shell would give for it.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => exit::by_signal(signal),
        }
    }

    pub(crate) fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

/// How the child ended, if it has. It stays a zombie: its number, and its group's, are nobody else's until then.
pub(crate) fn end_of(child: Pid) -> io::Result<Option<End>> {
    let ended = look(child, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
    Ok(ended.and_then(|status| {
        let code = status
            .exit_status()
            .and_then(|code| u8::try_from(code).ok());
        let signal = status.terminating_signal().map(End::Signal);
        code.map(End::Code).or(signal)
    }))
}

/// The signal that has stopped the child since the last look.
pub(crate) fn stop_of(child: Pid) -> io::Result<Option<Signal>> {
    let stopped = look(child, WaitIdOptions::STOPPED)?;
    Ok(stopped
        .and_then(|status| status.stopping_signal())
        .and_then(Signal::from_named_raw))
}

/// Takes an ended child from the system's table.
pub(crate) fn reap(child: Pid) -> io::Result<()> {
    look(child, WaitIdOptions::EXITED).map(drop)
}

fn look(child: Pid, change: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    Ok(waitid(WaitId::Pid(child), change | WaitIdOptions::NOHANG)?)
}
