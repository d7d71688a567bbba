//! How long the server or the store has for its answers: one limit for everything before the command.

use std::future::Future;
use std::time::Duration;

use crate::address::Address;
use crate::clock::Moment;
use crate::exit::Failure;

/// The limit of a run that does not wait: the time of one command to the server.
pub(super) const COMMAND_MAX: Duration = Duration::from_secs(3);

/// How long a busy lock is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    Not,
    AtMost(Duration),
    Forever,
}

/// A wait that has begun. Connecting and every question to the server count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) wait: Wait,
    begun: Moment,
}

impl Limit {
    /// Begins now. A wait of zero means `--try`: with a limit of zero it could never connect.
    pub(super) fn begin(does_try: bool, wait: Option<Duration>) -> Self {
        let wait = match wait {
            None if !does_try => Wait::Forever,
            Some(limit) if !does_try && !limit.is_zero() => Wait::AtMost(limit),
            _ => Wait::Not,
        };
        Self {
            wait,
            begun: Moment::now(),
        }
    }

    /// The time that is left; `None`: there is no limit.
    pub(super) fn left(&self) -> Option<Duration> {
        self.left_and(Duration::ZERO)
    }

    /// The time that would be left if the limit were longer by `more`.
    pub(super) fn left_and(&self, more: Duration) -> Option<Duration> {
        let end = self.begun.after(self.whole()?).after(more);
        Some(end.since(Moment::now()))
    }

    /// The answer, if it comes in time; else the failure that says that it did not.
    pub(super) async fn keep<T>(
        &self,
        address: &Address,
        answer: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let Some(whole) = self.whole() else {
            return answer.await;
        };
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.over() => Err(address.silent(whole)),
        }
    }

    /// Ready when no time is left. Timers stand still during suspend, so the clock is read again.
    async fn over(&self) {
        while let Some(left) = self.left().filter(|left| !left.is_zero()) {
            tokio::time::sleep(left).await;
        }
    }

    fn whole(&self) -> Option<Duration> {
        match self.wait {
            Wait::Not => Some(COMMAND_MAX),
            Wait::AtMost(limit) => Some(limit),
            Wait::Forever => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_wait_of_zero_is_a_try() {
        assert_eq!(Limit::begin(false, Some(Duration::ZERO)).wait, Wait::Not);
        assert_eq!(Limit::begin(true, None).wait, Wait::Not);
        assert_eq!(Limit::begin(false, Some(SECOND)).wait, Wait::AtMost(SECOND));
        assert_eq!(Limit::begin(false, None).wait, Wait::Forever);
    }

    #[test]
    fn the_help_tells_how_long_a_try_takes() {
        let words = crate::cli::description();
        let run = words.find_subcommand("run").unwrap();
        let mut options = run.get_arguments();
        let does_try = options.find(|option| option.get_long() == Some("try"));

        let help = does_try.unwrap().get_help().unwrap().to_string();

        let limit = format!("within {}", humantime::format_duration(COMMAND_MAX));
        assert!(help.contains(&limit), "{help}");
    }

    #[test]
    fn the_time_that_has_passed_is_not_left() {
        let begun = |ago: Duration| Limit {
            wait: Wait::AtMost(2 * SECOND),
            begun: Moment::now().before(ago),
        };

        let left = begun(SECOND).left().unwrap();

        assert!(left <= SECOND, "{left:?}");
        assert_eq!(begun(3 * SECOND).left(), Some(Duration::ZERO));
        assert_eq!(Limit::begin(false, None).left(), None);
    }

    /// An answer that has come counts, however late we look, as after a stop of this process.
    #[tokio::test]
    async fn an_answer_that_has_come_counts_although_the_limit_is_over() {
        let address = Address::Given("redis://ann:secret@host".to_owned());
        let limit = Limit {
            wait: Wait::AtMost(SECOND),
            begun: Moment::now().before(2 * SECOND),
        };

        let answered = limit.keep(&address, async { Ok(7) }).await;
        let silent = limit.keep::<i32>(&address, std::future::pending()).await;

        assert_eq!(answered, Ok(7));
        let silent = silent.unwrap_err();
        assert_eq!(silent.code, crate::exit::UNAVAILABLE);
        assert!(
            silent
                .message
                .contains("redis://host did not answer within 1s")
        );
    }
}
