//! The signals that come to `ferrolock`.

use std::io;
use std::sync::OnceLock;
use std::task::Poll;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// They end a `ferrolock` that has not started its command.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Passed on to the command while it runs, as are the ones above.
///
/// Not among them: signals caused by our own bugs (as SEGV), and signals for which no safe interface has a name (the
/// real-time signals). Those end `ferrolock`, and the shim ends the command.
const FORWARDED: &[Signal] = &[
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::XCPU,
    Signal::XFSZ,
    Signal::IO,
    Signal::URG,
    #[cfg(target_os = "linux")]
    Signal::POWER,
    #[cfg(target_os = "linux")]
    Signal::STKFLT,
    Signal::WINCH,
    // In this order: if both have come, `ferrolock` was continued and then stopped again. While it is stopped it reads
    // no signals.
    Signal::CONT,
    Signal::TSTP,
];

/// Signals listened to, from when this is made until the process ends.
#[derive(Debug)]
pub(crate) struct Signals {
    heard: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Listens to the signals that end a wait.
    pub(crate) fn ending() -> io::Result<Self> {
        let mut signals = Self { heard: Vec::new() };
        signals.listen(&ENDING)?;
        Ok(signals)
    }

    /// Also listens to the signals that are passed on to the command, and keeps those that have come since the wait was over.
    ///
    /// The streams of the signals that end a wait are kept: new streams would not have what came before they were made.
    pub(crate) fn and_forwarded(mut self) -> io::Result<Self> {
        self.listen(FORWARDED)?;
        Ok(self)
    }

    /// The signal that a child has ended, stopped or continued.
    pub(crate) fn of_children() -> io::Result<unix::Signal> {
        unix::signal(SignalKind::child())
    }

    /// A signal that `ferrolock` was started to ignore, as by `nohup`, stays ignored, here and in the command.
    fn listen(&mut self, signals: &[Signal]) -> io::Result<()> {
        for signal in signals {
            if !is_ignored(*signal) {
                let kind = SignalKind::from_raw(signal.as_raw());
                self.heard.push((*signal, unix::signal(kind)?));
            }
        }
        Ok(())
    }

    /// The next one. Cancel safe.
    pub(crate) async fn next(&mut self) -> Signal {
        std::future::poll_fn(|cx| {
            for (signal, stream) in &mut self.heard {
                if let Poll::Ready(Some(())) = stream.poll_recv(cx) {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }
}

/// Unblocks all these signals, which our parent may have blocked, and the one by which we stop ourselves.
///
/// To be called before the first thread is started: the others inherit the mask.
pub(crate) fn unblock() {
    let heard = ENDING.iter().chain(FORWARDED).map(|signal| signal.as_raw());
    let set: SigSet = heard
        .filter_map(|signal| NixSignal::try_from(signal).ok())
        .chain([NixSignal::SIGCHLD, NixSignal::SIGTTIN])
        .collect();
    let _ = set.thread_unblock();
}

/// Lets this process use the terminal's controls from the background: without it, taking the terminal back stops us.
pub(crate) fn block_terminal_output_stops() {
    let mut set = SigSet::empty();
    set.add(NixSignal::SIGTTOU);
    // Child processes begin with no signal blocked: the standard library sees to it.
    let _ = set.thread_block();
}

/// The name without `SIG`, as `kill -l` has it; the number for those without one.
pub(crate) fn name(signal: i32) -> String {
    match NixSignal::try_from(signal) {
        Ok(known) => known.as_str().trim_start_matches("SIG").to_owned(),
        Err(_) => signal.to_string(),
    }
}

/// Whether `ferrolock` was started to ignore it.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    ignored() >> (signal.as_raw() - 1) & 1 == 1
}

/// One bit per ignored signal; none where the system has no `/proc`. Read once, before the first handler is set.
fn ignored() -> u64 {
    static IGNORED: OnceLock<u64> = OnceLock::new();
    *IGNORED.get_or_init(|| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
            .unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::process::alone;

    /// Signals go to the whole process: another test would receive those that are raised here, and raise its own.
    fn alone_with_signals(story: impl Future<Output = ()>) {
        alone(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            runtime.unwrap().block_on(story);
        });
    }

    /// A signal between the end of the wait and the start of the command was lost.
    #[test]
    fn a_signal_that_comes_before_the_command_starts_is_passed_on_to_it() {
        alone_with_signals(async {
            let signals = Signals::ending().unwrap();
            let mut other = Signals::ending().unwrap();
            nix::sys::signal::raise(NixSignal::SIGHUP).unwrap();
            assert_eq!(other.next().await, Signal::HUP);

            let mut signals = signals.and_forwarded().unwrap();

            assert_eq!(signals.next().await, Signal::HUP);
        });
    }

    /// As after `fg` and Ctrl-Z at once. The other way round the stop would be undone.
    #[test]
    fn cont_is_delivered_before_tstp() {
        alone_with_signals(async {
            let mut signals = Signals::ending().unwrap().and_forwarded().unwrap();
            // Raised last: when this separate stream has it, the runtime has received the signals raised before it.
            let mut last = unix::signal(SignalKind::child()).unwrap();
            for signal in [NixSignal::SIGCONT, NixSignal::SIGTSTP, NixSignal::SIGCHLD] {
                nix::sys::signal::raise(signal).unwrap();
            }
            last.recv().await;

            assert_eq!(signals.next().await, Signal::CONT);
            assert_eq!(signals.next().await, Signal::TSTP);
        });
    }

    #[test]
    fn signals_are_named_as_kill_does() {
        assert_eq!(name(15), "TERM");
        assert_eq!(name(64), "64");
    }
}
