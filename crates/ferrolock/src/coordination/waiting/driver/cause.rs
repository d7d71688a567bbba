//! Why an attempt is made, as drivers decide and figures and logs show.

/// Why an attempt is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A waiter came that needs an attempt at once: the first in the line, say.
    Arrival,
    /// The subscription was confirmed.
    Confirmed,
    /// A message came.
    Message,
    /// The subscription was interrupted and is there again.
    Gap,
    /// A release of our own was answered.
    OwnRelease,
    /// The holder's lease should be over.
    LeaseEnd,
    /// Nothing happened for a while.
    SafetyPoll,
    /// A waiter's time is up.
    LastChance,
    /// The server can be reached again.
    Reconnected,
    /// The waiter before got the lock, and there is room for more holders.
    More,
}

impl Cause {
    /// Nothing has happened, only time has passed.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Cause::LeaseEnd | Cause::SafetyPoll)
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Cause::Arrival => "arrival",
            Cause::Confirmed => "confirmed",
            Cause::Message => "message",
            Cause::Gap => "gap",
            Cause::OwnRelease => "own_release",
            Cause::LeaseEnd => "lease_end",
            Cause::SafetyPoll => "safety_poll",
            Cause::LastChance => "last_chance",
            Cause::Reconnected => "reconnected",
            Cause::More => "more",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They are label values of a metric that users have dashboards for.
    #[test]
    fn causes_have_the_names_that_figures_show() {
        let names = [
            Cause::Arrival,
            Cause::Confirmed,
            Cause::Message,
            Cause::Gap,
            Cause::OwnRelease,
            Cause::LeaseEnd,
            Cause::SafetyPoll,
            Cause::LastChance,
            Cause::Reconnected,
            Cause::More,
        ]
        .map(Cause::as_str);

        assert_eq!(
            names,
            [
                "arrival",
                "confirmed",
                "message",
                "gap",
                "own_release",
                "lease_end",
                "safety_poll",
                "last_chance",
                "reconnected",
                "more"
            ]
        );
    }
}
