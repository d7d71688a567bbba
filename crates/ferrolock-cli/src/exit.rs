//! Exit codes, and failures that carry one.

use ferrolock::{Error, ErrorKind};

/// The arguments do not make sense: `EX_USAGE`.
pub(crate) const USAGE: u8 = 64;
/// The server or the store cannot be reached, or refuses: `EX_UNAVAILABLE`.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The system has no process or handle left for us: `EX_OSERR`.
pub(crate) const SYSTEM: u8 = 71;
/// Another owner has the lock: `EX_TEMPFAIL`.
pub(crate) const BUSY: u8 = 75;
/// The lock was lost while the command ran, or the time of `--max-hold` was over.
pub(crate) const LOST: u8 = 76;
/// As shells have it.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// As shells have it.
pub(crate) const NOT_FOUND: u8 = 127;

/// What to do about a server or a store that does not answer.
pub(crate) const UNREACHABLE_HINT: &str = "try again later, or name another with --url";

/// The exit code that shells give for a command that a signal ended.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
}

/// Why nothing was run: an exit code and one line that says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: u8,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: u8, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(USAGE, message)
    }

    /// Adds what else the user can do about it.
    pub(crate) fn hint(self, hint: &str) -> Self {
        let message = format!("{}; {hint}", self.message);
        Self { message, ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let failure = |code| Failure::new(code, error.to_string());
        match error.kind() {
            ErrorKind::Invalid | ErrorKind::WouldDeadlock => failure(USAGE),
            ErrorKind::Lost => failure(LOST),
            ErrorKind::Unreachable => failure(UNAVAILABLE).hint(UNREACHABLE_HINT),
            ErrorKind::Refused => {
                failure(UNAVAILABLE).hint("check the address and the user's rights")
            }
            _ => failure(UNAVAILABLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_added_to_128() {
        assert_eq!(by_signal(9), 137);
        assert_eq!(by_signal(i32::MAX), 255);
    }
}
