//! The shim as `ferrolock` sees it.

use std::ffi::OsStr;
use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix;

use super::child::{self, End};
use super::group::Group;
use super::orders::Order;
use super::watch::HAS_KILLED;
use super::{SHIM, SHIM_NAME, handles, this_program};

/// How long we wait for a sign from it: on a machine that is short of memory a process may stand still for seconds. The lock
/// is renewed meanwhile.
const SIGN_MAX: Duration = Duration::from_secs(10);
/// How often we continue it meanwhile: another process may have stopped it.
const WAKE_EVERY: Duration = Duration::from_millis(250);

/// Whether the shim is alive, and how it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Alive,
    /// It has killed the group and ended: no process of the group is left.
    HasKilled,
    /// It was killed, or it was dismissed.
    Ended,
}

/// The second process of ours, which ends the command's group when this one cannot.
#[derive(Debug)]
pub(crate) struct Shim {
    pid: Pid,
    orders: PipeWriter,
    /// The other end is its error output, on which it prints nothing: without unsafe code a new process can only be given
    /// standard streams, and through this one we send it more handles.
    socket: UnixStream,
    ready: Receiver,
}

impl Shim {
    /// Starts it, without a group to kill yet.
    pub(crate) fn start() -> io::Result<Self> {
        Self::start_with(None, &[])
    }

    /// Starts it. Lifeline and orders are in its socket and pipe before it starts: we may be killed the moment after.
    pub(crate) fn start_with(lifeline: Option<OwnedFd>, orders: &[Order]) -> io::Result<Self> {
        let (input, pipe) = io::pipe()?;
        // We must not wait for a shim that was stopped.
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let (socket, other) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        entrust(&socket, lifeline)?;
        for order in orders {
            write(&pipe, *order)?;
        }
        let mut process = Command::new(this_program()?)
            .arg0(OsStr::from_bytes(SHIM_NAME.to_bytes()))
            .arg(SHIM)
            .current_dir("/")
            .stdin(input)
            .stdout(Stdio::piped())
            .stderr(OwnedFd::from(other))
            .spawn()?;
        let ready = process.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            pid: Pid::from_child(&process),
            orders: pipe,
            socket,
            ready: Receiver::from_owned_fd(OwnedFd::from(ready))?,
        })
    }

    /// Waits until it has blocked all signals but KILL and STOP. An error: it has ended instead, or takes too long.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        self.heard().await
    }

    /// Waits for its next sign, and continues it if it is stopped.
    async fn heard(&self) -> io::Result<()> {
        let waking = async {
            loop {
                match tokio::time::timeout(WAKE_EVERY, self.sign()).await {
                    Ok(sign) => return sign,
                    Err(_) => self.wake(),
                };
            }
        };
        tokio::time::timeout(SIGN_MAX, waking).await?
    }

    /// Cancel safe.
    async fn sign(&self) -> io::Result<()> {
        loop {
            self.ready.readable().await?;
            match self.ready.try_read(&mut [0]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => {}
                Err(why) => return Err(why),
            }
        }
    }

    /// Gives it the group to kill, and waits until it has taken it. With the lifeline, the locks that we hold in a store stay
    /// ours until the shim has ended too.
    pub(crate) async fn entrust(
        &self,
        lifeline: Option<OwnedFd>,
        group: Group,
        deadline: Order,
    ) -> io::Result<()> {
        entrust(&self.socket, lifeline)?;
        self.tell(Order::Group(group))?;
        self.tell(deadline)?;
        self.heard().await
    }

    /// Sends it an order. A line is short enough to be written whole or not at all.
    pub(crate) fn tell(&self, order: Order) -> io::Result<()> {
        write(&self.orders, order)
    }

    /// Whether it is alive now, and if not, how it ended.
    pub(crate) fn fate(&self) -> Fate {
        fate(&child::end_of(self.pid))
    }

    /// Reaps one that has ended.
    pub(crate) fn bury(self) {
        child::take_off(self.pid);
    }

    /// Continues it if it was stopped; returns whether it was.
    pub(crate) fn wake(&self) -> bool {
        let is_stopped = matches!(child::stop_of(self.pid), Ok(Some(_)));
        if is_stopped {
            let _ = kill_process(self.pid, Signal::CONT);
        }
        is_stopped
    }

    /// Ends one that has no group to kill.
    pub(crate) async fn end(self, children: &mut unix::Signal) {
        child::end(self.pid, children).await;
    }

    /// Tells it to end without killing the group.
    pub(crate) fn dismiss(self, children: unix::Signal) -> Dismissed {
        if self.tell(Order::Done).is_err() {
            // It is gone, or it is stopped and its pipe is full: continued later, it would kill a group that may be another's
            // by then.
            let _ = kill_process(self.pid, Signal::KILL);
        }
        Dismissed {
            pid: self.pid,
            children,
        }
    }
}

fn fate(end: &io::Result<Option<End>>) -> Fate {
    match end {
        Ok(None) => Fate::Alive,
        Ok(Some(End::Code(HAS_KILLED))) => Fate::HasKilled,
        Ok(Some(_)) | Err(_) => Fate::Ended,
    }
}

fn entrust(socket: &UnixStream, lifeline: Option<OwnedFd>) -> io::Result<()> {
    lifeline.map_or(Ok(()), |lifeline| {
        handles::pass(socket, lifeline.as_fd(), b"")
    })
}

fn write(mut pipe: &PipeWriter, order: Order) -> io::Result<()> {
    pipe.write_all(format!("{order}\n").as_bytes())
}

/// A shim that was told to end.
#[derive(Debug)]
pub(crate) struct Dismissed {
    pid: Pid,
    /// Wakes us when a child has ended.
    children: unix::Signal,
}

impl Dismissed {
    /// Waits for its end, so that nothing of ours is left behind us.
    pub(crate) async fn ended(&mut self) -> Fate {
        fate(&child::wait_for_end(self.pid, &mut self.children).await)
    }
}
