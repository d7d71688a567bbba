//! What the shim process does: it waits until its pipe is closed or a deadline is over, kills the group, and ends when the
//! group is gone.
//!
//! It is this program started again, in a session of its own, so it gets no signal from the terminal nor one sent to a group
//! of ours. It has one thread and no runtime, and does not parse arguments.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec, read, write};
use rustix::net::RecvFlags;
use rustix::process::{Signal, setsid};
use rustix::stdio;

use super::group::Group;
use super::orders::Order;
use super::{SHIM_NAME, handles};
use crate::clock::Moment;

/// Between two looks at a group that was killed.
const LOOK_MIN: Duration = Duration::from_millis(2);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// Written to `ferrolock` when the shim is ready, and when it knows the group.
const SIGN: &[u8] = b"!";

/// The shim's exit code after it has killed the group; it is zero if it did not have to.
pub(crate) const HAS_KILLED: u8 = 9;

/// Everything the shim does.
pub(crate) fn run() -> ExitCode {
    // Only KILL and STOP act on us. If another process sends TERM to all our processes, the command ends first.
    let _ = SigSet::all().thread_block();
    let _ = setsid();
    // We may have inherited a pipe by chance, and its reader may wait for its end.
    handles::close_all_but(&[]);
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(SHIM_NAME);
    // If `ferrolock` is gone, the write fails; we go on, since then we have to kill the group.
    let _ = write(stdio::stdout(), SIGN);
    let mut watch = Watch::default();
    match watch.wait() {
        Outcome::Done => ExitCode::SUCCESS,
        Outcome::Kill => {
            watch.kill();
            ExitCode::from(HAS_KILLED)
        }
    }
}

enum Outcome {
    Done,
    Kill,
}

#[derive(Default)]
struct Watch {
    group: Option<Group>,
    /// Kept open until we end: the locks that `ferrolock` holds in a store become free only then.
    _lifeline: Option<OwnedFd>,
    deadline: Option<Moment>,
    /// The beginning of a line whose end has not come yet.
    unread: Vec<u8>,
}

impl Watch {
    fn wait(&mut self) -> Outcome {
        let alarm = Alarm::new();
        loop {
            if self
                .deadline
                .is_some_and(|deadline| deadline <= Moment::now())
            {
                // An order that was written before the deadline counts, however late we run.
                match self.hear_what_is_there() {
                    Some(outcome) => return outcome,
                    None if self
                        .deadline
                        .is_some_and(|deadline| deadline <= Moment::now()) =>
                    {
                        return Outcome::Kill;
                    }
                    None => continue,
                }
            }
            if alarm.wait(self.deadline) == Heard::Orders
                && let Some(outcome) = self.hear()
            {
                return outcome;
            }
        }
    }

    fn hear_what_is_there(&mut self) -> Option<Outcome> {
        while has_input(Some(Duration::ZERO)) {
            if let Some(outcome) = self.hear() {
                return Some(outcome);
            }
        }
        None
    }

    /// Reads from the pipe and carries out the orders in it. If the pipe is closed, `ferrolock` is gone.
    fn hear(&mut self) -> Option<Outcome> {
        let mut bytes = [0; 4096];
        match read(stdio::stdin(), &mut bytes) {
            Ok(0) => Some(Outcome::Kill),
            Ok(count) => {
                self.unread.extend(bytes.iter().take(count));
                self.obey()
            }
            Err(Errno::INTR | Errno::AGAIN) => None,
            Err(_) => Some(Outcome::Kill),
        }
    }

    fn obey(&mut self) -> Option<Outcome> {
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            match Order::parse(String::from_utf8_lossy(&line).trim_end()) {
                Some(Order::Group(group)) => match lifeline() {
                    Ok(handle) => {
                        self.group = Some(group);
                        self._lifeline = handle;
                        let _ = write(stdio::stdout(), SIGN);
                    }
                    // We end without killing the group, and `ferrolock` starts another shim.
                    Err(_) => return Some(Outcome::Done),
                },
                Some(Order::Deadline(deadline)) => self.deadline = Some(deadline),
                Some(Order::NoDeadline) => self.deadline = None,
                Some(Order::Done) => return Some(Outcome::Done),
                None => {}
            }
        }
        None
    }

    /// Kills the group until it is gone: the lock may be free for others when we end.
    fn kill(&self) {
        let Some(group) = self.group else {
            // The gate was never opened.
            return;
        };
        let mut pause = LOOK_MIN;
        loop {
            // Sent at each turn: a process that ran as another user may have changed back, and a stopped one must be hit
            // too.
            let _ = group.signal(Signal::KILL);
            if group.is_gone() {
                return;
            }
            let _ = poll(&mut [], timespec(pause).as_ref());
            pause = (pause * 2).min(LOOK_MAX);
        }
    }
}

/// The handle that `ferrolock` sent before it named the group; `None`: it sent none.
fn lifeline() -> io::Result<Option<OwnedFd>> {
    let socket = fcntl_dupfd_cloexec(stdio::stderr(), 3)?;
    match handles::receive(&UnixStream::from(socket), RecvFlags::DONTWAIT) {
        Ok(passed) => Ok(passed.map(|(handle, _)| handle)),
        Err(why) if why.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(why) => Err(why),
    }
}

#[derive(PartialEq, Eq)]
enum Heard {
    Orders,
    Time,
}

/// Wakes at a moment of the boot-time clock, where there is such a timer: others stand still during suspend.
struct Alarm(Option<OwnedFd>);

impl Alarm {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Self(timerfd_create(TimerfdClockId::Boottime, flags).ok())
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Self(None)
    }

    fn wait(&self, deadline: Option<Moment>) -> Heard {
        let left = deadline.map(|deadline| deadline.since(Moment::now()));
        let Some(timer) = self.0.as_ref().filter(|timer| set(timer, deadline).is_ok()) else {
            return if has_input(left) {
                Heard::Orders
            } else {
                Heard::Time
            };
        };
        let stdin = stdio::stdin();
        let mut handles = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::new(timer, PollFlags::IN),
        ];
        let polled = poll(&mut handles, None);
        let [orders, _] = &handles;
        match polled {
            Ok(_) if !orders.revents().is_empty() => Heard::Orders,
            _ => Heard::Time,
        }
    }
}

#[cfg(target_os = "linux")]
fn set(timer: &OwnedFd, deadline: Option<Moment>) -> io::Result<()> {
    use rustix::time::{Itimerspec, TimerfdTimerFlags, timerfd_settime};
    let zero = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let value = deadline.and_then(|deadline| timespec(deadline.since_zero()));
    let times = Itimerspec {
        it_interval: zero,
        it_value: value.unwrap_or(zero),
    };
    timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &times)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn set(_: &OwnedFd, _: Option<Moment>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

fn has_input(limit: Option<Duration>) -> bool {
    let stdin = stdio::stdin();
    let mut handles = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = limit.and_then(timespec);
    matches!(poll(&mut handles, limit.as_ref()), Ok(count) if count > 0)
}

fn timespec(time: Duration) -> Option<Timespec> {
    Some(Timespec {
        tv_sec: i64::try_from(time.as_secs()).ok()?,
        tv_nsec: time.subsec_nanos().into(),
    })
}
