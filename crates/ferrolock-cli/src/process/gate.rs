//! The gate: the command's process, before it becomes the command.
//!
//! Its standard input is a socket to `ferrolock`. To open the gate, `ferrolock` sends the real standard input through it,
//! together with the variables that it adds to the environment. If the socket is closed instead, `ferrolock` is gone, and
//! nothing is run.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::net::RecvFlags;
use rustix::process::Pid;
use rustix::{io as rio, stdio};
use tokio::signal::unix;

use super::group::Group;
use super::{GATE, GATE_NAME, child, handles, this_program};
use crate::exit::{NOT_EXECUTABLE, NOT_FOUND};

/// The command, waiting at the gate in a group of its own.
#[derive(Debug)]
pub(crate) struct Gate {
    pid: Pid,
    socket: UnixStream,
}

impl Gate {
    /// Starts the process that will become `program`. The first of `words` is its `argv[0]`; it inherits these handles.
    pub(crate) fn start(
        program: &Path,
        words: &[OsString],
        inherited: &[RawFd],
    ) -> io::Result<Self> {
        let (socket, other) = UnixStream::pair()?;
        let child = Command::new(this_program()?)
            .arg0(OsStr::from_bytes(GATE_NAME.to_bytes()))
            .arg(GATE)
            .arg(handles::to_text(inherited))
            .arg(program)
            .args(words)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .process_group(0)
            .spawn()?;
        Ok(Self {
            pid: Pid::from_child(&child),
            socket,
        })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn group(&self) -> Group {
        Group::of(self.pid)
    }

    /// Whether the process waits at the gate, or has become the command and runs.
    pub(crate) fn is_alive(&self) -> bool {
        matches!(child::end_of(self.pid), Ok(None))
    }

    /// Lets the process become the command, with our standard input and these variables.
    pub(crate) fn open(&self, environment: &[(&str, String)]) -> io::Result<()> {
        let text: String = environment
            .iter()
            .map(|(name, value)| format!("{name}={value}\0"))
            .collect();
        handles::pass(&self.socket, stdio::stdin(), text.as_bytes())
    }

    /// Ends the process: there will be no command.
    pub(crate) async fn end(self, children: &mut unix::Signal) {
        child::end(self.pid, children).await;
    }

    /// Why the ended process never became the command; `None` if it did.
    pub(crate) fn refusal(&mut self) -> Option<io::Error> {
        let mut code = [0; 4];
        self.socket.set_nonblocking(true).ok()?;
        self.socket.read_exact(&mut code).ok()?;
        Some(io::Error::from_raw_os_error(i32::from_ne_bytes(code)))
    }
}

/// The exit code for a command that the system refuses to run.
pub(crate) fn refusal_code(why: &io::Error) -> u8 {
    match why.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_EXECUTABLE,
    }
}

/// The gate's own life: waits, and becomes the command given as handles, a path, a name and arguments.
pub(crate) fn wait_and_become(mut words: impl Iterator<Item = OsString>) -> ExitCode {
    let (inherited, program, name) = (words.next(), words.next(), words.next());
    let (Some(inherited), Some(program), Some(name)) = (inherited, program, name) else {
        return ExitCode::from(NOT_EXECUTABLE);
    };
    handles::close_all_but(&handles::from_text(&inherited.to_string_lossy()));
    end_with_parent();
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(GATE_NAME);
    // A copy that the command will not inherit.
    let socket = match rio::fcntl_dupfd_cloexec(stdio::stdin(), 3) {
        Ok(socket) => UnixStream::from(socket),
        Err(why) => return refuse(stdio::stdin(), &why.into()),
    };
    match handles::receive(&socket, RecvFlags::empty()) {
        Ok(Some((input, environment))) => {
            let mut command = Command::new(program);
            command.arg0(name).args(words).envs(variables(&environment));
            refuse(socket.as_fd(), &become_command(&mut command, input))
        }
        // `ferrolock` is gone, or does not want the command to run.
        Ok(None) => ExitCode::from(NOT_EXECUTABLE),
        Err(why) => refuse(socket.as_fd(), &why),
    }
}

/// Sends `ferrolock` the reason why there is no command; if `ferrolock` is gone, the write fails, which does not matter.
fn refuse(socket: BorrowedFd<'_>, why: &io::Error) -> ExitCode {
    let code = why.raw_os_error().unwrap_or_default();
    let _ = rio::write(socket, &code.to_ne_bytes());
    ExitCode::from(refusal_code(why))
}

/// Has the system end this process, and the command it becomes, with `ferrolock`.
///
/// The shim does so too, and for the whole group: this is for the case that both are killed at once. The system sends the
/// signal when the thread that started us ends, which is the main one and lasts as long as its process. If the parent is
/// gone already, the socket is closed.
fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// The names and values of the variables that `Gate::open` sent.
fn variables(text: &[u8]) -> impl Iterator<Item = (&OsStr, &OsStr)> {
    text.split(|byte| *byte == 0).filter_map(|variable| {
        let mut parts = variable.splitn(2, |byte| *byte == b'=');
        let (name, value) = (parts.next()?, parts.next()?);
        Some((OsStr::from_bytes(name), OsStr::from_bytes(value)))
    })
}

/// Returns only if it fails.
fn become_command(command: &mut Command, input: OwnedFd) -> io::Error {
    if let Err(why) = stdio::dup2_stdin(&input) {
        return why.into();
    }
    // The command has it as its standard input only.
    drop(input);
    command.exec()
}
