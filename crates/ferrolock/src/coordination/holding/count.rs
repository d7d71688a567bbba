//! A tenure's count: how many holds it has here, and the one command under way that may change the count on the server.
//!
//! A state machine without I/O and clock. `R` stands for a caller that enters again, `L` for a hold that leaves and waits
//! for the answer; the shell gives them meaning.
//!
//! | phase | means | goes to |
//! |---|---|---|
//! | `Entering` | the first acquire is under way | `Live` when granted; otherwise the tenure never begins |
//! | `Live` | at least one hold, or one on its way in | `Closed` when the last hold leaves; `Over` when the server says "not yours" |
//! | `Closed` | a release that leaves nothing was decided: no caller enters again | `Over` or gone when it is answered |
//! | `Over` | the server has no field of ours | stays |
//!
//! Commands name the count they leave, so one whose outcome is unknown is repaired by the next, whatever it is.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::error::LostReason;

/// Mostly one.
pub(crate) type Few<T> = SmallVec<[T; 1]>;

/// The count of one tenure.
#[derive(Debug)]
pub(super) struct Count<R, L> {
    phase: Phase,
    /// Holds that were granted and not given back.
    holds: u32,
    /// What the server has; `None` when a command's outcome is unknown.
    server: Option<u32>,
    under_way: Option<CommandUnderWay<R, L>>,
    /// The number of the command under way, or of the last one.
    number: u64,
    entering: VecDeque<R>,
    leaving: Few<L>,
    /// A release that leaves nothing may have run already.
    doubt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Entering,
    Live,
    Closed,
    Over(LostReason),
}

#[derive(Debug)]
enum CommandUnderWay<R, L> {
    Enter,
    Reenter(R, u32),
    Release(Few<L>, u32),
}

/// A command that changes the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Reenter { count: u32 },
    Release { left: u32 },
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    /// The field is not there.
    NotOurs(LostReason),
    /// It may have run, or may still run.
    Unknown,
    /// It did not run and will not.
    NotDone,
}

/// How the last release of a tenure ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReleaseEnd {
    /// It freed the name, and this many clients got the message, this one included if it listens.
    Freed { heard: u64 },
    /// It was answered otherwise.
    Answered,
    /// It was not answered in time: attempts no longer wait for it.
    GivenUp,
}

/// What follows from the end of a command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct After<R, L> {
    /// This caller entered; the count now.
    pub(super) entered: Option<(R, u32)>,
    /// These callers did not enter.
    pub(super) turned_away: Vec<R>,
    /// These left; how many holds go on.
    pub(super) left: Option<(Few<L>, u32)>,
    /// The whole tenure is lost: all its holds are, and these, which were leaving, left too late.
    pub(super) lost: Option<(LostReason, Few<L>)>,
    /// The release must be tried again later.
    pub(super) again: bool,
}

/// Whether the last hold can be left to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delay {
    /// It is, from now on: the command for it is under way.
    UnderWay,
    /// The server's count is not, or may not be, the number of holds here: that is repaired first.
    Unsettled,
    /// It is not the last one, or a caller is about to enter.
    OthersGoOn,
}

impl<R, L> Default for After<R, L> {
    fn default() -> Self {
        Self {
            entered: None,
            turned_away: Vec::new(),
            left: None,
            lost: None,
            again: false,
        }
    }
}

impl<R, L> Count<R, L> {
    /// A tenure whose first acquire is about to be sent.
    pub(super) fn entering() -> Self {
        Self {
            phase: Phase::Entering,
            holds: 0,
            server: Some(0),
            under_way: Some(CommandUnderWay::Enter),
            number: 0,
            entering: VecDeque::new(),
            leaving: Few::new(),
            doubt: false,
        }
    }

    /// The first acquire was granted.
    pub(super) fn entered(&mut self) {
        debug_assert!(matches!(self.under_way, Some(CommandUnderWay::Enter)));
        self.under_way = None;
        self.phase = Phase::Live;
        self.holds = 1;
        self.server = Some(1);
    }

    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    pub(super) fn holds(&self) -> u32 {
        self.holds
    }

    /// Whether the server has the count that it should have, as far as we know.
    pub(super) fn is_settled(&self) -> bool {
        let agreed = matches!(self.phase, Phase::Over(_)) || self.server == Some(self.holds);
        self.under_way.is_none() && self.leaving.is_empty() && self.entering.is_empty() && agreed
    }

    /// A caller wants to enter; `Err` returns it if the tenure lets no caller in.
    pub(super) fn enter(&mut self, who: R) -> Result<(), R> {
        if self.phase != Phase::Live {
            return Err(who);
        }
        self.entering.push_back(who);
        Ok(())
    }

    /// A hold is given back. `who` gets the answer later; with `Err` there is nothing left to give back, and no answer comes.
    pub(super) fn leave(&mut self, who: Option<L>) -> Result<(), LostReason> {
        debug_assert!(self.holds > 0);
        self.holds = self.holds.saturating_sub(1);
        if let Phase::Over(reason) = self.phase {
            return Err(reason);
        }
        self.leaving.extend(who);
        self.close_if_empty();
        Ok(())
    }

    fn close_if_empty(&mut self) {
        if self.phase == Phase::Live && self.holds == 0 && !self.is_awaited() {
            self.phase = Phase::Closed;
        }
    }

    /// Whether a caller is about to enter: the tenure goes on for it even when the last hold has left.
    pub(super) fn is_awaited(&self) -> bool {
        !self.entering.is_empty() || matches!(self.under_way, Some(CommandUnderWay::Reenter(..)))
    }

    /// The next command to send, if one is due; it is under way from now on.
    pub(super) fn next(&mut self) -> Option<Op> {
        if self.under_way.is_some() || !matches!(self.phase, Phase::Live | Phase::Closed) {
            return None;
        }
        let unsettled = !self.leaving.is_empty() || self.server != Some(self.holds);
        // With no hold left, a release would end the tenure before the callers that are about to enter it.
        let release_first = unsettled && (self.holds > 0 || self.entering.is_empty());
        if release_first {
            let left = self.holds;
            self.number += 1;
            self.under_way = Some(CommandUnderWay::Release(
                std::mem::take(&mut self.leaving),
                left,
            ));
            return Some(Op::Release { left });
        }
        let who = self.entering.pop_front()?;
        let count = self.holds + 1;
        self.number += 1;
        self.under_way = Some(CommandUnderWay::Reenter(who, count));
        Some(Op::Reenter { count })
    }

    /// Those that left, and whose release is not under way yet.
    pub(super) fn leaving(&self) -> &[L] {
        &self.leaving
    }

    /// The caller whose re-entry is under way.
    pub(super) fn reentering(&self) -> Option<&R> {
        match &self.under_way {
            Some(CommandUnderWay::Reenter(who, _)) => Some(who),
            _ => None,
        }
    }

    /// The number of the command under way.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether the command with that number is still under way, and was not given up.
    pub(super) fn is_under_way(&self, number: u64) -> bool {
        self.under_way.is_some() && self.number == number
    }

    /// The command under way, unless it is the first acquire.
    pub(super) fn command(&self) -> Option<Op> {
        match self.under_way {
            Some(CommandUnderWay::Release(_, left)) => Some(Op::Release { left }),
            Some(CommandUnderWay::Reenter(_, count)) => Some(Op::Reenter { count }),
            Some(CommandUnderWay::Enter) | None => None,
        }
    }

    /// The command under way ended.
    pub(super) fn ended(&mut self, outcome: Outcome) -> After<R, L> {
        match self.under_way.take() {
            Some(CommandUnderWay::Reenter(who, count)) => self.reenter_ended(who, count, outcome),
            Some(CommandUnderWay::Release(leavers, left)) => {
                self.release_ended(leavers, left, outcome)
            }
            Some(CommandUnderWay::Enter) | None => After::default(),
        }
    }

    fn reenter_ended(&mut self, who: R, count: u32, outcome: Outcome) -> After<R, L> {
        match outcome {
            // Lost while its answer was on the way: it entered nothing.
            Outcome::Done if matches!(self.phase, Phase::Over(_)) => After {
                turned_away: vec![who],
                ..After::default()
            },
            Outcome::Done => {
                // The release that follows takes care of holds that were given back meanwhile.
                self.holds += 1;
                self.server = Some(count);
                After {
                    entered: Some((who, self.holds)),
                    ..After::default()
                }
            }
            Outcome::NotOurs(reason) => self.lose(reason, vec![who], Few::new()),
            Outcome::Unknown | Outcome::NotDone => {
                if outcome == Outcome::Unknown {
                    self.server = None;
                }
                self.close_if_empty();
                After {
                    turned_away: vec![who],
                    again: self.server != Some(self.holds),
                    ..After::default()
                }
            }
        }
    }

    fn release_ended(&mut self, leavers: Few<L>, left: u32, outcome: Outcome) -> After<R, L> {
        match outcome {
            Outcome::Done => {
                self.server = Some(left);
                After {
                    left: Some((leavers, left)),
                    ..After::default()
                }
            }
            // Our release ran the first time: nothing else removes a field that only this client writes.
            Outcome::NotOurs(_) if left == 0 && self.doubt => {
                self.server = Some(0);
                After {
                    left: Some((leavers, left)),
                    ..After::default()
                }
            }
            Outcome::NotOurs(reason) => self.lose(reason, Vec::new(), leavers),
            Outcome::Unknown | Outcome::NotDone => {
                if let Phase::Over(reason) = self.phase {
                    return self.lose(reason, Vec::new(), leavers);
                }
                if outcome == Outcome::Unknown {
                    self.server = None;
                    self.doubt |= left == 0;
                }
                self.leaving.insert_many(0, leavers);
                After {
                    again: true,
                    ..After::default()
                }
            }
        }
    }

    /// A command ended that had been given up. If it was a release that found no field, the next release, which may find
    /// none either, does not count as a repeat of one that ran.
    pub(super) fn ended_late(&mut self, op: Op, outcome: Outcome) {
        if matches!(
            (op, outcome),
            (Op::Release { left: 0 }, Outcome::NotOurs(_))
        ) {
            self.doubt = false;
        }
    }

    /// The last hold is left to the server, which ends it.
    pub(super) fn delay_release(&mut self) -> Delay {
        if self.phase != Phase::Live || self.holds != 1 || self.is_awaited() {
            return Delay::OthersGoOn;
        }
        if !self.is_settled() {
            return Delay::Unsettled;
        }
        self.holds = 0;
        self.phase = Phase::Closed;
        self.number += 1;
        self.under_way = Some(CommandUnderWay::Release(Few::new(), 0));
        Delay::UnderWay
    }

    /// `who` does not leave; it gets an answer when the server has the number of holds that are here.
    pub(super) fn settles(&mut self, who: L) -> Result<(), LostReason> {
        match (self.phase, &mut self.under_way) {
            (Phase::Over(reason), _) => return Err(reason),
            (_, Some(CommandUnderWay::Release(leavers, left))) if *left == self.holds => {
                leavers.push(who)
            }
            _ => self.leaving.push(who),
        }
        Ok(())
    }

    /// The server was asked about the field in another way, and has none.
    pub(super) fn not_ours(&mut self, reason: LostReason) -> After<R, L> {
        match self.phase {
            // In `Closed` the reply to the release shows what the server has.
            Phase::Live => self.lose(reason, Vec::new(), Few::new()),
            _ => After::default(),
        }
    }

    /// No command is sent for it from now on: its lease is over, or the client has stopped trying to reach the server.
    pub(super) fn left_to_its_lease(&mut self) -> After<R, L> {
        match self.phase {
            Phase::Live | Phase::Closed => self.lose(LostReason::Expired, Vec::new(), Few::new()),
            Phase::Entering | Phase::Over(_) => After::default(),
        }
    }

    fn lose(
        &mut self,
        reason: LostReason,
        mut turned_away: Vec<R>,
        mut late: Few<L>,
    ) -> After<R, L> {
        self.phase = Phase::Over(reason);
        self.server = Some(0);
        turned_away.extend(self.entering.drain(..));
        late.append(&mut self.leaving);
        After {
            turned_away,
            lost: Some((reason, late)),
            ..After::default()
        }
    }
}

#[cfg(test)]
#[path = "count_tests.rs"]
mod tests;
