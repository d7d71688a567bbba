//! How a child process ended or stopped. Looking does not reap it.

use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process, waitid};
use tokio::signal::unix;

use crate::exit;

/// How long we wait for the end of a process of ours; another process may have stopped it.
const END_MAX: Duration = Duration::from_secs(1);

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(u8),
    Signal(i32),
}

impl End {
    /// The exit code that a shell would give for it.
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

/// How the child ended, if it has. It stays a zombie: until it is reaped, no other process or group gets its number.
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

/// Kills a process of ours that has nothing to do yet, also one that is stopped, and reaps it.
pub(crate) async fn end(child: Pid, children: &mut unix::Signal) {
    let _ = kill_process(child, Signal::KILL);
    let _ = wait_for_end(child, children).await;
}

/// Waits at most `END_MAX` for the end of a child that was made to end, and reaps it.
///
/// `children` wakes us when a child has ended. `None`: it has not ended in that time.
pub(crate) async fn wait_for_end(
    child: Pid,
    children: &mut unix::Signal,
) -> io::Result<Option<End>> {
    let looks = async {
        while matches!(end_of(child), Ok(None)) {
            children.recv().await;
        }
    };
    let _ = tokio::time::timeout(END_MAX, looks).await;
    let end = end_of(child);
    take_off(child);
    end
}

/// Reaps a child that has ended: another process may get its number then.
pub(crate) fn take_off(child: Pid) {
    let _ = look(child, WaitIdOptions::EXITED);
}

fn look(child: Pid, change: WaitIdOptions) -> io::Result<Option<WaitIdStatus>> {
    Ok(waitid(WaitId::Pid(child), change | WaitIdOptions::NOHANG)?)
}
