//! The shim as `ferrolock` sees it.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, Command, Stdio};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix;

use super::orders::Order;
use super::{SHIM, child, this_program};

/// How long its end is waited for; somebody may have stopped it.
const END_MAX: Duration = Duration::from_secs(1);

/// The second process of ours, which ends the command's group when this one cannot.
#[derive(Debug)]
pub(crate) struct Shim {
    pid: Pid,
    orders: ChildStdin,
    ready: Receiver,
}

impl Shim {
    /// Starts it. The lifeline keeps what we hold ours until the shim has ended too.
    pub(crate) fn start(lifeline: Option<OwnedFd>) -> io::Result<Self> {
        let mut process = Command::new(this_program()?)
            .arg0("ferrolock")
            .arg(SHIM)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A standard stream is what a process can be handed without unsafe code; it prints nothing.
            .stderr(lifeline.map_or_else(Stdio::null, Stdio::from))
            .spawn()?;
        let (orders, ready) = (process.stdin.take(), process.stdout.take());
        let (Some(orders), Some(ready)) = (orders, ready) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        // A shim that somebody has stopped must not make us wait.
        fcntl_setfl(&orders, fcntl_getfl(&orders)? | OFlags::NONBLOCK)?;
        Ok(Self {
            pid: Pid::from_child(&process),
            orders,
            ready: Receiver::from_owned_fd(OwnedFd::from(ready))?,
        })
    }

    /// Waits until no signal but KILL reaches it. An error: it has ended instead.
    pub(crate) async fn ready(&self) -> io::Result<()> {
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

    /// Tells it something. A line is short enough to be written whole or not at all.
    pub(crate) fn tell(&mut self, order: Order) -> io::Result<()> {
        self.orders.write_all(format!("{order}\n").as_bytes())
    }

    /// Whether somebody has ended it.
    pub(crate) fn has_ended(&self) -> bool {
        !matches!(child::end_of(self.pid), Ok(None))
    }

    /// Takes its charge away: from now on it kills nobody.
    pub(crate) fn dismiss(mut self, children: unix::Signal) -> Dismissed {
        if self.tell(Order::Done).is_err() {
            // It is stopped and its pipe is full, or it is gone: else it would wake up one day and kill a stranger.
            let _ = kill_process(self.pid, Signal::KILL);
        }
        Dismissed {
            pid: self.pid,
            children,
        }
    }
}

/// A shim on its way out.
#[derive(Debug)]
pub(crate) struct Dismissed {
    pid: Pid,
    /// Tells when a child has ended.
    children: unix::Signal,
}

impl Dismissed {
    /// Waits for its end, so that nothing of ours is left behind us.
    pub(crate) async fn ended(mut self) {
        let looks = async {
            while let Ok(false) = child::reap(self.pid) {
                self.children.recv().await;
            }
        };
        let _ = tokio::time::timeout(END_MAX, looks).await;
    }
}
