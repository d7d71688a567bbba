use crate::coordination::waiting::driver::tests::{RTT, at, attempt, driver, sleeps_until};
use crate::coordination::waiting::driver::{Cause, Driver, Next, Place, Stay};
use crate::engine::Tick;
use crate::protocol::scheme::{Rest, Wake};

/// A waiter with that deadline, whose server takes `answer_ms` for each answer; and the time of the last answer.
fn slow(answer_ms: u64, deadline: u64) -> (Driver<&'static str>, Tick) {
    let mut driver = driver();
    driver.join(
        at(0),
        "a",
        (at(0), Some(at(deadline)), Stay::Waits),
        Place::Back,
        RTT,
    );
    attempt(&mut driver, at(0));
    driver.found_busy(at(answer_ms), 0, Rest::NoExpiry);
    assert!(matches!(driver.next(at(answer_ms)), Next::Listen));
    driver.confirmed(at(answer_ms));
    attempt(&mut driver, at(answer_ms));
    driver.found_busy(at(2 * answer_ms), 0, Rest::NoExpiry);
    (driver, at(2 * answer_ms))
}

#[test]
fn a_slow_server_is_asked_for_the_last_time_before_the_deadline() {
    // Answers take 100 ms; with 40 ms more the answer is there at the deadline.
    let (mut driver, now) = slow(100, 700);

    assert_eq!(sleeps_until(&mut driver, now), at(560));
    assert_eq!(attempt(&mut driver, at(560)).1, Cause::LastChance);
    driver.found_busy(at(660), 0, Rest::NoExpiry);
    assert_eq!(sleeps_until(&mut driver, at(660)), at(700));
    assert!(matches!(driver.next(at(700)), Next::TimedOut(late) if late.len() == 1));
}

#[test]
fn a_server_that_answers_within_40_ms_is_asked_at_the_deadline() {
    let (mut driver, now) = slow(40, 700);

    assert_eq!(sleeps_until(&mut driver, now), at(700));
    assert_eq!(attempt(&mut driver, at(700)).1, Cause::LastChance);
}

/// The next attempt is planned, and the time for the last one passes in between: it sleeps until the plan.
#[test]
fn a_server_in_trouble_is_not_asked_in_a_loop_when_a_time_is_up() {
    let (mut driver, now) = slow(100, 700);
    driver.message(now, Wake::Front, RTT);
    attempt(&mut driver, at(210));
    driver.failed(at(550));
    let planned = driver.due.unwrap().0;
    assert!(planned > at(560));
    assert_eq!(sleeps_until(&mut driver, at(560)), planned);

    driver.sent(planned);
    driver.failed(at(690));
    let planned = driver.due.unwrap().0.min(at(780));
    assert_eq!(sleeps_until(&mut driver, at(700)), planned);
}

#[test]
fn a_last_attempt_without_an_answer_means_unreachable_although_the_lock_was_busy_before() {
    let (mut driver, _) = slow(1, 500);
    assert_eq!(attempt(&mut driver, at(500)).1, Cause::LastChance);

    assert_eq!(sleeps_until(&mut driver, at(501)), at(580));
    assert!(matches!(driver.next(at(580)), Next::Unreachable(late) if late.len() == 1));
}

/// This process was stopped: the server had too little time to answer, and its answer before counts.
#[test]
fn a_last_attempt_that_left_late_is_not_held_against_the_server() {
    let (mut driver, _) = slow(1, 500);
    assert_eq!(attempt(&mut driver, at(540)).1, Cause::LastChance);

    assert!(matches!(driver.next(at(580)), Next::TimedOut(late) if late.len() == 1));
}
