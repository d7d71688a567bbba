//! The shim's own life: it waits for the pipe's end or for a deadline, kills the group, and ends when that is gone.
//!
//! It is this program started again, in a session of its own, so neither the terminal nor a signal to a group of ours
//! reaches it. It has one thread, no runtime, and does not look at its arguments.

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

/// What it says when it is ready, and when it has its charge.
const SIGN: &[u8] = b"!";

/// Its exit code after it has killed the group; zero says that there was no need to.
pub(crate) const HAS_KILLED: u8 = 9;

/// Everything the shim does.
pub(crate) fn run() -> ExitCode {
    // No signal but KILL and STOP is for us: whoever ends all our processes politely ends the command first.
    let _ = SigSet::all().thread_block();
    let _ = setsid();
    // Somebody may wait for the end of what we were passed on by chance.
    handles::close_all_but(&[]);
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_name(SHIM_NAME);
    // If nobody is there to hear it, there is all the more to do.
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
    /// Kept open until we end: what `ferrolock` holds is free only then.
    _lifeline: Option<OwnedFd>,
    deadline: Option<Moment>,
    /// The beginning of a line.
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
                // What was said before the deadline counts, however late we are.
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

    /// Reads what is there; the pipe's end is the end of `ferrolock`.
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
                    // Nobody has been killed, and `ferrolock` starts another.
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
            // Again each time: somebody of another user may have changed back, and a stopped one must be hit too.
            let _ = group.signal(Signal::KILL);
            if group.is_gone() {
                return;
            }
            let _ = poll(&mut [], timespec(pause).as_ref());
            pause = (pause * 2).min(LOOK_MAX);
        }
    }
}

/// What was handed to us before the group was told; `None`: nothing was.
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
