//! Decides what happens to the command when its lock is lost or its time is over; no I/O.
//!
//! | what happened | `term` | `kill` | `warn` |
//! |---|---|---|---|
//! | not renewed, the grace before the deadline | TERM, KILL at the deadline | KILL | nothing yet |
//! | the deadline is over | KILL | KILL | a warning |
//! | removed or taken over | TERM, KILL after the grace | KILL | a warning |
//! | the grace before the end of `--max-hold` | TERM, KILL at its end | as `term` | as `term` |

#[cfg(test)]
mod tests;

use std::time::Duration;

use ferrolock::{HoldState, LostReason};

use super::OnLost;
use super::terms::Terms;
use crate::clock::Moment;

/// The shortest pause between two looks: a deadline that is reached must not make us look without pause.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// The hold as it is now.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) now: Moment,
    pub(super) state: HoldState,
    /// Until its deadline.
    pub(super) remaining: Duration,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Nothing,
    /// Try a renewal by hand: the process may have been stopped, and the watchdog is about to catch up.
    Renew,
    Warn(LostReason),
    Term(Why),
    Kill(Why),
}

/// Why the command is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    NotRenewed,
    MaxHold,
    Lost(LostReason),
}

/// A sentence is final: a renewal that comes after TERM does not take the TERM back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sentence {
    why: Why,
    kill_at: Moment,
    is_carried_out: bool,
}

#[derive(Debug)]
pub(super) struct Judge {
    terms: Terms,
    /// When `--max-hold` is over; the guard's own limit may end a round trip earlier.
    cap: Option<Moment>,
    renewing_since: Option<Moment>,
    sentence: Option<Sentence>,
    has_warned: bool,
}

impl Judge {
    /// The judge of a hold that was granted just now.
    pub(super) fn new(terms: Terms, now: Moment) -> Self {
        Self {
            terms,
            cap: terms.max_hold.map(|limit| now.after(limit)),
            renewing_since: None,
            sentence: None,
            has_warned: false,
        }
    }

    /// What to do, now that the hold is like this.
    pub(super) fn look(&mut self, view: View) -> Step {
        match &mut self.sentence {
            Some(sentence) if sentence.is_carried_out || view.now < sentence.kill_at => {
                Step::Nothing
            }
            Some(sentence) => {
                sentence.is_carried_out = true;
                Step::Kill(sentence.why)
            }
            None => self.judge(view),
        }
    }

    /// When to look again at the latest.
    pub(super) fn next_look(&self, view: View) -> Moment {
        let regular = view.now.after(self.terms.look_every());
        match self.sentence {
            Some(sentence) if !sentence.is_carried_out => regular.min(sentence.kill_at),
            Some(_) => regular,
            None if self.renewing_since.is_some() => view.now.after(self.patience() / 8),
            None if matches!(view.state, HoldState::Lost(_)) => {
                // If the loss is seen within the grace before the end of `--max-hold`, TERM follows at once and not after
                // the usual pause.
                let soonest = view.now.after(LOOK_MIN);
                let cap = self.cap.map(|cap| cap.before(self.terms.grace));
                cap.map_or(regular, |cap| regular.min(cap.max(soonest)))
            }
            None => {
                let early = view.remaining.saturating_sub(self.terms.grace);
                // With `--on-lost warn` there is nothing to do before the deadline itself.
                let left = if early.is_zero() {
                    view.remaining
                } else {
                    early
                };
                regular.min(view.now.after(left.max(LOOK_MIN)))
            }
        }
    }

    /// When the shim is to kill the group unless it gets another order; `None`: it kills only if we are gone.
    pub(super) fn shim_deadline(&self, view: View) -> Option<Moment> {
        if let Some(sentence) = self.sentence {
            return Some(sentence.kill_at);
        }
        match self.terms.on_lost {
            OnLost::Term | OnLost::Kill => Some(view.now.after(view.remaining)),
            OnLost::Warn => self.cap,
        }
    }

    /// The lease that a renewal asks for.
    pub(super) fn lease(&self) -> Duration {
        self.terms.lease
    }

    /// Whether the command has run without the lock, or is made to end.
    pub(super) fn has_lost(&self) -> bool {
        self.has_warned || self.is_sentenced()
    }

    /// Whether it is decided that the command and its whole group must end.
    pub(super) fn is_sentenced(&self) -> bool {
        self.sentence.is_some()
    }

    fn judge(&mut self, view: View) -> Step {
        let grace = self.terms.grace;
        let is_over = |cap: Moment| view.now.after(grace) >= cap;
        match view.state {
            HoldState::Lost(LostReason::MaxHold) => self.sentence(Why::MaxHold, view.now, view.now),
            HoldState::Lost(_) if self.has_warned && !self.cap.is_some_and(is_over) => {
                Step::Nothing
            }
            HoldState::Lost(_) if self.has_warned => {
                let kill_at = self.cap.unwrap_or(view.now);
                self.sentence(Why::MaxHold, view.now, kill_at)
            }
            HoldState::Lost(reason) if self.terms.on_lost == OnLost::Warn => {
                self.has_warned = true;
                Step::Warn(reason)
            }
            // The lease may be over already.
            HoldState::Lost(LostReason::Expired) => {
                self.sentence(Why::Lost(LostReason::Expired), view.now, view.now)
            }
            HoldState::Lost(reason) => {
                self.sentence(Why::Lost(reason), view.now, view.now.after(grace))
            }
            _ if view.remaining > grace => {
                self.renewing_since = None;
                Step::Nothing
            }
            _ => self.judge_late(view),
        }
    }

    /// The deadline is nearer than the grace.
    fn judge_late(&mut self, view: View) -> Step {
        let deadline = view.now.after(view.remaining);
        // The guard's own limit lies before ours by the time that the grant took to get here.
        let is_capped = self
            .cap
            .is_some_and(|cap| deadline.after(self.terms.margin) >= cap);
        if is_capped {
            return self.sentence(Why::MaxHold, view.now, deadline);
        }
        if self.terms.on_lost == OnLost::Warn {
            return Step::Nothing;
        }
        match self.renewing_since {
            _ if view.state == HoldState::Uncertain => {}
            None => {
                self.renewing_since = Some(view.now);
                return Step::Renew;
            }
            Some(since) if view.now.since(since) < self.patience() => return Step::Nothing,
            Some(_) => {}
        }
        self.sentence(Why::NotRenewed, view.now, deadline)
    }

    fn sentence(&mut self, why: Why, now: Moment, kill_at: Moment) -> Step {
        // `--on-lost` is about losses only, and the end of `--max-hold` is none.
        let is_merciful = why == Why::MaxHold || self.terms.on_lost != OnLost::Kill;
        let is_mercy = kill_at > now && is_merciful;
        self.sentence = Some(Sentence {
            why,
            kill_at: if is_mercy { kill_at } else { now },
            is_carried_out: !is_mercy,
        });
        if is_mercy {
            Step::Term(why)
        } else {
            Step::Kill(why)
        }
    }

    /// How much of the grace is left to a renewal by hand.
    fn patience(&self) -> Duration {
        self.terms.grace / 4
    }
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRenewed => f.write_str("it could not be renewed, its deadline is near"),
            Self::MaxHold => f.write_str("the time of --max-hold ends"),
            Self::Lost(reason) => write!(f, "it was lost: {reason}"),
        }
    }
}
