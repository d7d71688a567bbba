//! Each row of the judge's table, second by second.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// A lease of 30 s: deadline at 27 s, grace 10 s.
struct Court {
    judge: Judge,
    start: Moment,
}

impl Court {
    fn of(on_lost: OnLost, max_hold: Option<u32>) -> Self {
        let start = Moment::from_nanos(1_000_000_000_000);
        let max_hold = max_hold.map(|seconds| SECOND * seconds);
        let terms = Terms::new(SECOND * 30, Some(SECOND * 10), max_hold, on_lost).unwrap();
        Self {
            judge: Judge::new(terms, start),
            start,
        }
    }

    fn view(&self, at: u32, state: HoldState, deadline: u32) -> View {
        View {
            now: self.start.after(SECOND * at),
            state,
            remaining: SECOND * deadline.saturating_sub(at),
        }
    }

    /// The judge's step at second `at`, with the deadline at second `deadline`.
    fn look(&mut self, at: u32, state: HoldState, deadline: u32) -> Step {
        let view = self.view(at, state, deadline);
        self.judge.look(view)
    }

    fn lose(&mut self, at: u32, reason: LostReason) -> Step {
        self.look(at, HoldState::Lost(reason), at)
    }
}

#[test]
fn a_hold_that_is_renewed_is_left_alone() {
    let mut court = Court::of(OnLost::Term, None);

    for at in 0..100 {
        assert_eq!(court.look(at, HoldState::Held, at + 17), Step::Nothing);
    }
    assert!(!court.judge.has_lost());
}

#[test]
fn without_renewal_term_comes_the_grace_before_the_deadline_and_kill_at_it() {
    let mut court = Court::of(OnLost::Term, None);

    assert_eq!(court.look(16, HoldState::Uncertain, 27), Step::Nothing);
    assert_eq!(
        court.look(17, HoldState::Uncertain, 27),
        Step::Term(Why::NotRenewed)
    );
    assert_eq!(court.look(26, HoldState::Uncertain, 27), Step::Nothing);
    assert_eq!(
        court.lose(27, LostReason::Expired),
        Step::Kill(Why::NotRenewed)
    );
    assert_eq!(court.lose(28, LostReason::Expired), Step::Nothing);
}

#[test]
fn a_renewal_after_term_does_not_take_it_back() {
    let mut court = Court::of(OnLost::Term, None);
    court.look(17, HoldState::Uncertain, 27);

    assert_eq!(court.look(20, HoldState::Held, 47), Step::Nothing);
    assert_eq!(
        court.look(27, HoldState::Held, 47),
        Step::Kill(Why::NotRenewed)
    );
}

#[test]
fn after_a_pause_a_renewal_is_tried_before_term() {
    let mut court = Court::of(OnLost::Term, None);

    assert_eq!(court.look(20, HoldState::Held, 27), Step::Renew);
    assert_eq!(court.look(21, HoldState::Held, 27), Step::Nothing);
    assert_eq!(court.look(22, HoldState::Held, 48), Step::Nothing);

    assert_eq!(court.look(40, HoldState::Held, 48), Step::Renew);
    assert_eq!(
        court.look(43, HoldState::Held, 48),
        Step::Term(Why::NotRenewed)
    );
}

#[test]
fn after_a_removal_term_comes_at_once_and_kill_after_the_grace() {
    for reason in [LostReason::Removed, LostReason::TakenOver] {
        let mut court = Court::of(OnLost::Term, None);

        assert_eq!(court.lose(5, reason), Step::Term(Why::Lost(reason)));
        assert_eq!(court.lose(14, reason), Step::Nothing);
        let view = court.view(14, HoldState::Lost(reason), 14);
        assert_eq!(
            court.judge.shim_deadline(view),
            Some(court.start.after(SECOND * 15))
        );
        assert_eq!(court.lose(15, reason), Step::Kill(Why::Lost(reason)));
    }
}

#[test]
fn a_deadline_that_is_over_means_kill_at_once() {
    let mut court = Court::of(OnLost::Term, None);

    assert_eq!(
        court.lose(60, LostReason::Expired),
        Step::Kill(Why::Lost(LostReason::Expired))
    );
}

#[test]
fn with_on_lost_kill_kill_comes_where_term_would() {
    let mut late = Court::of(OnLost::Kill, None);
    let mut removed = Court::of(OnLost::Kill, None);

    assert_eq!(
        late.look(17, HoldState::Uncertain, 27),
        Step::Kill(Why::NotRenewed)
    );
    assert_eq!(
        removed.lose(1, LostReason::Removed),
        Step::Kill(Why::Lost(LostReason::Removed))
    );
}

#[test]
fn with_on_lost_warn_there_is_one_warning_and_no_deadline_for_the_shim() {
    let mut court = Court::of(OnLost::Warn, None);
    let view = court.view(20, HoldState::Uncertain, 27);

    assert_eq!(court.judge.look(view), Step::Nothing);
    assert_eq!(court.judge.shim_deadline(view), None);
    assert_eq!(
        court.lose(27, LostReason::Expired),
        Step::Warn(LostReason::Expired)
    );
    assert_eq!(court.lose(28, LostReason::Expired), Step::Nothing);
    assert!(court.judge.has_lost() && !court.judge.is_sentenced());
}

#[test]
fn the_longest_hold_ends_with_term_and_kill_whatever_a_loss_would_do() {
    for on_lost in [OnLost::Term, OnLost::Kill, OnLost::Warn] {
        let mut court = Court::of(on_lost, Some(60));

        assert_eq!(court.look(49, HoldState::Held, 60), Step::Nothing);
        assert_eq!(
            court.look(50, HoldState::Held, 60),
            Step::Term(Why::MaxHold)
        );
        assert_eq!(
            court.lose(60, LostReason::MaxHold),
            Step::Kill(Why::MaxHold)
        );
    }
}

#[test]
fn the_longest_hold_counts_after_a_loss_that_was_only_warned_of() {
    let mut court = Court::of(OnLost::Warn, Some(60));
    court.lose(20, LostReason::Removed);

    let view = court.view(20, HoldState::Lost(LostReason::Removed), 20);
    assert_eq!(
        court.judge.shim_deadline(view),
        Some(court.start.after(SECOND * 60))
    );
    assert_eq!(court.lose(49, LostReason::Removed), Step::Nothing);
    assert_eq!(
        court.lose(50, LostReason::Removed),
        Step::Term(Why::MaxHold)
    );
    assert_eq!(
        court.lose(60, LostReason::Removed),
        Step::Kill(Why::MaxHold)
    );
}

#[test]
fn the_judge_looks_again_when_term_or_kill_is_due() {
    let mut court = Court::of(OnLost::Term, None);
    let second = |at| court.start.after(SECOND * at);
    let (early, near) = (
        court.view(0, HoldState::Held, 27),
        court.view(15, HoldState::Held, 27),
    );

    assert_eq!(court.judge.next_look(early), second(5));
    assert_eq!(court.judge.next_look(near), second(17));

    let late = court.view(23, HoldState::Uncertain, 27);
    court.judge.look(late);
    assert_eq!(court.judge.next_look(late), court.start.after(SECOND * 27));
}

#[test]
fn with_on_lost_warn_the_judge_looks_again_at_the_deadline() {
    let mut court = Court::of(OnLost::Warn, None);
    let view = court.view(23, HoldState::Uncertain, 27);

    assert_eq!(court.judge.look(view), Step::Nothing);

    let deadline = court.start.after(SECOND * 27);
    assert_eq!(court.judge.next_look(view), deadline);
}

/// There was no warning yet: the loss is reported first, and TERM for the end of `--max-hold` follows at once. If the judge
/// looked again only after the usual pause, the shim's KILL might come first, and the command would never get its TERM.
#[test]
fn a_loss_within_the_grace_before_the_longest_hold_delays_its_term_by_nothing() {
    let mut court = Court::of(OnLost::Warn, Some(60));
    let lost = HoldState::Lost(LostReason::Removed);

    let view = court.view(57, lost, 57);
    assert_eq!(court.judge.look(view), Step::Warn(LostReason::Removed));

    let next = court.judge.next_look(view);
    assert_eq!(next, view.now.after(LOOK_MIN));
    assert_eq!(
        court.judge.look(View { now: next, ..view }),
        Step::Term(Why::MaxHold)
    );
}

#[test]
fn after_a_warning_the_judge_looks_again_when_the_longest_hold_nears_its_end() {
    let mut court = Court::of(OnLost::Warn, Some(60));
    let lost = HoldState::Lost(LostReason::Removed);
    court.lose(20, LostReason::Removed);

    for (at, next) in [(20, 25), (44, 49), (48, 50)] {
        let next = court.start.after(SECOND * next);
        assert_eq!(court.judge.next_look(court.view(at, lost, at)), next);
    }
    let mut unlimited = Court::of(OnLost::Warn, None);
    unlimited.lose(20, LostReason::Removed);
    let view = unlimited.view(20, lost, 20);
    let next = unlimited.start.after(SECOND * 25);
    assert_eq!(unlimited.judge.next_look(view), next);
}

#[test]
fn after_a_kill_the_judge_looks_again_at_the_usual_pace() {
    let mut court = Court::of(OnLost::Term, None);
    let view = court.view(60, HoldState::Lost(LostReason::Expired), 60);

    court.judge.look(view);

    let next = court.start.after(SECOND * 65);
    assert_eq!(court.judge.next_look(view), next);
}

/// A quarter of the grace is 2.5 s, and within it the renewal is looked for eight times.
#[test]
fn while_a_renewal_is_tried_the_judge_looks_often_for_a_quarter_of_the_grace() {
    let mut court = Court::of(OnLost::Term, None);
    let first = court.view(20, HoldState::Held, 27);
    let after = |ms| {
        let passed = Duration::from_millis(ms);
        View {
            now: first.now.after(passed),
            remaining: first.remaining - passed,
            ..first
        }
    };

    assert_eq!(court.judge.look(first), Step::Renew);
    assert_eq!(
        court.judge.next_look(first),
        first.now.after(Duration::from_micros(312_500))
    );
    assert_eq!(court.judge.look(after(2499)), Step::Nothing);
    assert_eq!(court.judge.look(after(2500)), Step::Term(Why::NotRenewed));
}

/// `ferrolock` was stopped until `--max-hold` was over.
#[test]
fn the_longest_hold_that_is_over_means_kill_at_once_whatever_a_loss_would_do() {
    for on_lost in [OnLost::Term, OnLost::Kill, OnLost::Warn] {
        let mut court = Court::of(on_lost, Some(60));

        assert_eq!(
            court.lose(70, LostReason::MaxHold),
            Step::Kill(Why::MaxHold)
        );
    }
}

#[test]
fn after_a_removal_the_command_is_sentenced_and_the_lock_lost() {
    let mut court = Court::of(OnLost::Term, None);
    assert!(!court.judge.is_sentenced());

    court.lose(5, LostReason::Removed);

    assert!(court.judge.is_sentenced() && court.judge.has_lost());
}

#[test]
fn a_renewal_asks_for_the_whole_lease() {
    let court = Court::of(OnLost::Term, None);

    assert_eq!(court.judge.lease(), SECOND * 30);
}

#[test]
fn the_reasons_for_ending_the_command_are_in_words() {
    let said = [
        Why::NotRenewed,
        Why::MaxHold,
        Why::Lost(LostReason::Removed),
    ]
    .map(|why| why.to_string());

    assert!(said[0].contains("renewed"), "{said:?}");
    assert!(said[1].contains("--max-hold"), "{said:?}");
    assert_eq!(said[2], format!("it was lost: {}", LostReason::Removed));
}
