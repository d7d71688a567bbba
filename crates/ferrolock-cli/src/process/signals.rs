//! The signals that come to `ferrolock`.

use std::io;
use std::sync::OnceLock;
use std::task::Poll;

use nix::sys::signal::{SigSet, Signal as NixSignal};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// End a `ferrolock` that has not started its command.
const ENDING: [Signal; 4] = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];

/// Are the command's while it runs.
const FORWARDED: [Signal; 10] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::WINCH,
    Signal::TSTP,
    Signal::CONT,
];

/// Signals listened to, from when this is made until the process ends.
#[derive(Debug)]
pub(crate) struct Signals {
    heard: Vec<(Signal, unix::Signal)>,
}

impl Signals {
    /// Those that end a wait.
    pub(crate) fn ending() -> io::Result<Self> {
        Self::listen(&ENDING)
    }

    /// Those that are passed on to the command.
    pub(crate) fn forwarded() -> io::Result<Self> {
        Self::listen(&FORWARDED)
    }

    /// A child has ended, stopped or gone on.
    pub(crate) fn of_children() -> io::Result<unix::Signal> {
        unix::signal(SignalKind::child())
    }

    /// A signal that we were started to ignore, as by `nohup`, stays ignored, here and in the command.
    fn listen(signals: &[Signal]) -> io::Result<Self> {
        let ignored = ignored();
        let mut heard = Vec::with_capacity(signals.len());
        for signal in signals {
            if ignored >> (signal.as_raw() - 1) & 1 == 0 {
                let kind = SignalKind::from_raw(signal.as_raw());
                heard.push((*signal, unix::signal(kind)?));
            }
        }
        Ok(Self { heard })
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

/// Lets this process use the terminal's controls from the background: without it, taking the terminal back stops us.
pub(crate) fn block_terminal_output_stops() {
    let mut set = SigSet::empty();
    set.add(NixSignal::SIGTTOU);
    // What is started from here begins with no signal blocked: the standard library sees to it.
    let _ = set.thread_block();
}

/// The name without `SIG`, as `kill -l` has it; the number for those without one.
pub(crate) fn name(signal: i32) -> String {
    match NixSignal::try_from(signal) {
        Ok(known) => known.as_str().trim_start_matches("SIG").to_owned(),
        Err(_) => signal.to_string(),
    }
}

/// One bit per ignored signal, where the system tells; read once, before the first handler is set.
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

    #[test]
    fn signals_are_named_as_kill_does() {
        assert_eq!(name(15), "TERM");
        assert_eq!(name(64), "64");
    }
}
