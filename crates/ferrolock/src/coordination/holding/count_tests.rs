use super::*;

fn few<const N: usize>(who: [&'static str; N]) -> Few<&'static str> {
    who.into_iter().collect()
}

type Tested = Count<&'static str, &'static str>;

fn live() -> Tested {
    let mut count = Tested::entering();
    count.entered();
    count
}

/// Enters once more and answers it.
fn reentered(count: &mut Tested, who: &'static str) {
    count.enter(who).unwrap();
    assert!(matches!(count.next(), Some(Op::Reenter { .. })));
    assert_eq!(
        count
            .ended(Outcome::Done)
            .entered
            .map(|(entered, _)| entered),
        Some(who)
    );
}

#[test]
fn the_last_hold_to_leave_closes_the_tenure_for_ever() {
    let mut count = live();

    count.leave(Some("a")).unwrap();

    assert_eq!(count.phase(), Phase::Closed);
    assert_eq!(count.enter("b"), Err("b"));
    assert_eq!(count.next(), Some(Op::Release { left: 0 }));
    assert_eq!(count.ended(Outcome::Done).left, Some((few(["a"]), 0)));
    assert!(count.is_settled());
}

#[test]
fn five_holds_and_four_releases_leave_one() {
    let mut count = live();
    for who in ["2", "3", "4", "5"] {
        reentered(&mut count, who);
    }

    for left in [4, 3, 2, 1] {
        count.leave(Some("out")).unwrap();
        assert_eq!(count.next(), Some(Op::Release { left }));
        assert_eq!(count.ended(Outcome::Done).left, Some((few(["out"]), left)));
    }

    assert_eq!((count.holds(), count.phase()), (1, Phase::Live));
}

#[test]
fn only_one_command_is_under_way() {
    let mut count = live();
    count.enter("b").unwrap();
    count.enter("c").unwrap();

    assert_eq!(count.next(), Some(Op::Reenter { count: 2 }));
    assert_eq!(count.next(), None);
    count.ended(Outcome::Done);
    assert_eq!(count.next(), Some(Op::Reenter { count: 3 }));
}

#[test]
fn an_unknown_reentry_is_taken_back() {
    let mut count = live();
    count.enter("b").unwrap();
    count.next();

    let after = count.ended(Outcome::Unknown);

    assert_eq!(after.turned_away, ["b"]);
    assert!(after.again);
    assert_eq!(count.next(), Some(Op::Release { left: 1 }));
    count.ended(Outcome::Done);
    assert!(count.is_settled());
}

#[test]
fn nothing_there_after_an_unknown_release_counts_as_released() {
    let mut count = live();
    count.leave(Some("a")).unwrap();
    count.next();

    assert!(count.ended(Outcome::Unknown).again);
    assert_eq!(count.next(), Some(Op::Release { left: 0 }));
    assert_eq!(
        count.ended(Outcome::NotOurs(LostReason::Removed)).left,
        Some((few(["a"]), 0))
    );
}

#[test]
fn nothing_there_at_the_first_try_is_lost() {
    let mut count = live();
    count.leave(Some("a")).unwrap();
    count.next();

    let after = count.ended(Outcome::NotOurs(LostReason::TakenOver));

    assert_eq!(after.lost, Some((LostReason::TakenOver, few(["a"]))));
    assert_eq!(count.phase(), Phase::Over(LostReason::TakenOver));
}

#[test]
fn a_reentry_that_finds_nothing_loses_all() {
    let mut count = live();
    count.enter("b").unwrap();
    count.enter("c").unwrap();
    count.next();

    let after = count.ended(Outcome::NotOurs(LostReason::Removed));

    assert_eq!(after.turned_away, ["b", "c"]);
    assert_eq!(after.lost, Some((LostReason::Removed, few([]))));
    assert_eq!(count.enter("d"), Err("d"));
    assert_eq!(count.next(), None);
}

#[test]
fn a_caller_that_is_entering_keeps_the_tenure_open() {
    let mut count = live();
    count.enter("b").unwrap();
    count.next();

    count.leave(Some("a")).unwrap();

    assert_eq!(count.phase(), Phase::Live);
    count.ended(Outcome::Done);
    assert_eq!(count.next(), Some(Op::Release { left: 1 }));
    assert_eq!(count.ended(Outcome::Done).left, Some((few(["a"]), 1)));
}

#[test]
fn a_reentry_that_fails_after_the_last_hold_left_closes_the_tenure() {
    let mut count = live();
    count.enter("b").unwrap();
    count.next();
    count.leave(None).unwrap();

    count.ended(Outcome::NotDone);

    assert_eq!(count.phase(), Phase::Closed);
    assert_eq!(count.next(), Some(Op::Release { left: 0 }));
}

#[test]
fn a_reentry_answered_after_the_tenure_was_lost_enters_nothing() {
    let mut count = live();
    count.enter("b").unwrap();
    count.next();
    count.not_ours(LostReason::Removed);

    let after = count.ended(Outcome::Done);

    assert_eq!((after.entered, after.turned_away), (None, vec!["b"]));
    assert_eq!(count.phase(), Phase::Over(LostReason::Removed));
}

#[test]
fn only_the_last_hold_can_be_left_to_the_server() {
    let mut count = live();
    reentered(&mut count, "b");
    assert_eq!(count.delay_release(), Delay::OthersGoOn);
    count.leave(None).unwrap();
    assert_eq!(count.delay_release(), Delay::Unsettled);
    count.next();
    assert_eq!(count.delay_release(), Delay::Unsettled);
    count.ended(Outcome::Done);

    assert_eq!(count.delay_release(), Delay::UnderWay);
    assert_eq!((count.enter("c"), count.next()), (Err("c"), None));
    count.ended(Outcome::Done);
    assert!(count.is_settled());
}

#[test]
fn the_last_hold_is_not_left_to_the_server_while_a_caller_is_entering() {
    let mut count = live();
    count.enter("b").unwrap();
    assert_eq!(count.delay_release(), Delay::OthersGoOn);
    count.next();
    assert_eq!(count.delay_release(), Delay::OthersGoOn);
    count.ended(Outcome::Unknown);

    assert_eq!(count.delay_release(), Delay::Unsettled);
}

#[test]
fn a_hold_that_stays_is_answered_when_the_server_has_the_right_count() {
    let mut count = live();
    reentered(&mut count, "b");
    count.leave(None).unwrap();
    assert_eq!(count.next(), Some(Op::Release { left: 1 }));
    count.settles("a").unwrap();

    assert_eq!(count.ended(Outcome::Done).left, Some((few(["a"]), 1)));

    assert_eq!((count.delay_release(), count.holds()), (Delay::UnderWay, 0));
}

#[test]
fn a_hold_that_could_not_be_left_to_the_server_is_released() {
    let mut count = live();
    assert_eq!(count.delay_release(), Delay::UnderWay);

    assert!(count.ended(Outcome::NotDone).again);

    assert_eq!(count.next(), Some(Op::Release { left: 0 }));
}

/// A server that holds one count, and commands that are answered, lost before or lost after they ran.
#[test]
fn whatever_is_lost_the_server_ends_with_the_holds_that_live() {
    for seed in 0..2_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut count: Count<u32, u32> = Count::entering();
        count.entered();
        let mut server = Some(1_u32);
        for step in 0..60 {
            if count.holds() > 0 && random.bool() && !(count.holds() == 1 && step < 50) {
                count.leave(random.bool().then_some(step)).unwrap();
            } else {
                let _ = count.enter(step);
            }
            let faulty = step < 55 && random.u8(..4) == 0;
            drive(&mut count, &mut server, faulty, &mut random);
        }
        drive(&mut count, &mut server, false, &mut random);

        let live = if count.holds() == 0 {
            None
        } else {
            Some(count.holds())
        };
        assert_eq!(server, live, "seed {seed}");
        assert!(count.is_settled(), "seed {seed}");
    }
}

fn drive(
    count: &mut Count<u32, u32>,
    server: &mut Option<u32>,
    faulty: bool,
    random: &mut fastrand::Rng,
) {
    let mut budget = if faulty { 1 } else { 100 };
    while budget > 0
        && let Some(op) = count.next()
    {
        budget -= 1;
        let ran = !faulty || random.bool();
        let found = server.is_some();
        if ran && found {
            *server = match op {
                Op::Reenter { count } => Some(count),
                Op::Release { left: 0 } => None,
                Op::Release { left } => Some(left),
            };
        }
        let outcome = match (faulty, found) {
            (true, _) => Outcome::Unknown,
            (false, true) => Outcome::Done,
            (false, false) => Outcome::NotOurs(LostReason::Removed),
        };
        count.ended(outcome);
    }
}

#[test]
fn a_release_is_sent_before_a_reentry_while_another_hold_goes_on() {
    let mut count = live();
    reentered(&mut count, "b");
    count.leave(Some("a")).unwrap();
    count.enter("c").unwrap();

    assert_eq!(count.next(), Some(Op::Release { left: 1 }));
    assert_eq!(count.ended(Outcome::Done).left, Some((few(["a"]), 1)));
    assert_eq!(count.next(), Some(Op::Reenter { count: 2 }));
}

/// A release that leaves nothing would end the tenure before the caller enters.
#[test]
fn a_reentry_is_sent_before_the_release_of_the_last_hold() {
    let mut count = live();
    count.enter("b").unwrap();
    count.leave(Some("a")).unwrap();

    assert_eq!(count.leaving(), ["a"]);
    assert_eq!(count.next(), Some(Op::Reenter { count: 1 }));
    assert_eq!(count.ended(Outcome::Done).entered, Some(("b", 1)));
    assert_eq!(count.next(), Some(Op::Release { left: 1 }));
    assert_eq!(count.ended(Outcome::Done).left, Some((few(["a"]), 1)));
    assert!(count.leaving().is_empty());
}

/// The number distinguishes a late answer from the answer to the command under way.
#[test]
fn each_command_has_another_number() {
    let mut count = live();
    let mut numbers = vec![count.number()];

    count.enter("b").unwrap();
    count.next();
    numbers.push(count.number());
    count.ended(Outcome::Done);
    count.leave(None).unwrap();
    count.next();
    numbers.push(count.number());
    count.ended(Outcome::Done);
    assert_eq!(count.delay_release(), Delay::UnderWay);
    numbers.push(count.number());

    assert!(
        numbers.is_sorted_by(|one, next| one < next),
        "commands share a number: {numbers:?}"
    );
    let under_way: Vec<u64> = numbers
        .into_iter()
        .filter(|number| count.is_under_way(*number))
        .collect();
    assert_eq!(under_way, [count.number()]);
    count.ended(Outcome::Done);
    assert!(!count.is_under_way(count.number()));
}

#[test]
fn a_hold_that_stays_in_a_lost_tenure_gets_lost_at_once() {
    let mut count = live();
    count.not_ours(LostReason::Removed);

    assert_eq!(count.settles("a"), Err(LostReason::Removed));
}

/// Another hold left after the release was sent: the count that it leaves is not the number of holds here.
#[test]
fn a_release_that_leaves_too_much_does_not_answer_a_hold_that_stays() {
    let mut count = live();
    reentered(&mut count, "b");
    reentered(&mut count, "c");
    count.leave(Some("b")).unwrap();
    assert_eq!(count.next(), Some(Op::Release { left: 2 }));
    count.leave(Some("c")).unwrap();
    count.settles("a").unwrap();

    assert_eq!(count.ended(Outcome::Done).left, Some((few(["b"]), 2)));
    assert_eq!(count.next(), Some(Op::Release { left: 1 }));
    assert_eq!(count.ended(Outcome::Done).left, Some((few(["c", "a"]), 1)));
}
