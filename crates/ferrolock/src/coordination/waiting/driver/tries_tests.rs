use std::time::Duration;

use crate::coordination::waiting::driver::tests::{
    RTT, at, attempt, driver, settled_with, sleeps_until,
};
use crate::coordination::waiting::driver::{Cause, Driver, Next, Place, Stay};
use crate::protocol::scheme::{Rest, Wake};

const LEASE: Duration = Duration::from_secs(30);

fn tries(driver: &mut Driver<&'static str>, ms: u64, who: &'static str) -> u64 {
    let times = (at(ms), None, Stay::Tries(at(ms + 2000)));
    driver.join(at(ms), who, times, Place::Back, RTT)
}

fn tried(driver: &mut Driver<&'static str>, ms: u64) -> Vec<&'static str> {
    let all = driver.take_tried(at(ms)).into_iter();
    all.map(|late| late.who).collect()
}

#[test]
fn it_attempts_at_once_and_goes_when_the_lock_is_busy() {
    let mut driver = driver();
    let id = tries(&mut driver, 0, "a");

    assert_eq!(attempt(&mut driver, at(0)), (id, Cause::Arrival));
    driver.found_busy(at(1), id, Rest::NoExpiry);

    assert_eq!(tried(&mut driver, 1), ["a"]);
    assert!(matches!(driver.next(at(1)), Next::Done));
}

#[test]
fn beside_waiters_the_front_is_asked_for_and_the_answer_is_for_both() {
    let mut driver = settled_with(1, Rest::NoExpiry);
    tries(&mut driver, 100, "b");

    assert_eq!(attempt(&mut driver, at(100)), (0, Cause::Arrival));
    let to = driver.granted(at(101), (LEASE, false), 0);

    assert_eq!(to.map(|(who, _)| who), Some("a"));
    assert_eq!(tried(&mut driver, 101), ["b"]);
}

/// The lock may have become free after the attempt was sent: its answer is too old for a caller that came later.
#[test]
fn an_attempt_that_was_sent_before_it_came_is_no_answer() {
    let mut driver = driver();
    let first = tries(&mut driver, 0, "a");
    attempt(&mut driver, at(0));
    let second = tries(&mut driver, 1, "b");

    driver.found_busy(at(2), first, Rest::NoExpiry);

    assert_eq!(tried(&mut driver, 2), ["a"]);
    assert_eq!(attempt(&mut driver, at(2)), (second, Cause::Arrival));
    driver.found_busy(at(3), second, Rest::NoExpiry);
    assert_eq!(tried(&mut driver, 3), ["b"]);
}

#[test]
fn one_that_came_after_a_grant_was_asked_for_attempts_again() {
    let mut driver = driver();
    let first = tries(&mut driver, 0, "a");
    attempt(&mut driver, at(0));
    let second = tries(&mut driver, 1, "b");

    assert!(driver.granted(at(2), (LEASE, false), first).is_some());

    assert!(tried(&mut driver, 2).is_empty());
    assert_eq!(attempt(&mut driver, at(2)), (second, Cause::Arrival));
}

#[test]
fn one_that_only_tries_subscribes_to_nothing() {
    let mut driver = driver();
    let id = tries(&mut driver, 0, "a");
    attempt(&mut driver, at(0));
    driver.found_busy(at(1), id, Rest::NoExpiry);
    tries(&mut driver, 1, "b");

    assert!(matches!(driver.next(at(1)), Next::Attempt { .. }));
}

#[test]
fn without_an_answer_it_goes_at_its_own_limit() {
    let mut driver = driver();
    tries(&mut driver, 0, "a");
    attempt(&mut driver, at(0));

    assert_eq!(sleeps_until(&mut driver, at(1)), at(2000));
    assert!(matches!(driver.next(at(2000)), Next::Unreachable(late) if late.len() == 1));
}

#[test]
fn an_attempt_taken_over_is_no_answer_for_callers_that_came_after_it_was_sent() {
    let mut driver = driver();
    let second = tries(&mut driver, 1, "b");
    let first = tries(&mut driver, 2, "a");

    driver.goes_on(first, at(0));
    driver.found_busy(at(3), first, Rest::NoExpiry);

    assert_eq!(tried(&mut driver, 3), ["a"]);
    assert_eq!(attempt(&mut driver, at(3)), (second, Cause::Arrival));
}

/// A guard is dropped, and `try_lock` called, while the task is about to send the attempt that was decided on: the answer is
/// too old for that call.
#[test]
fn an_attempt_that_was_decided_before_a_release_began_answers_no_later_try() {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    let (id, _) = attempt(&mut driver, at(0));

    driver.release_begins(at(0));
    let tries = Stay::Tries(at(9));
    driver.join(at(0), "try", (at(0), None, tries), Place::Back, RTT);
    driver.found_busy(at(1), id, Rest::Left(LEASE));

    assert!(driver.take_tried(at(1)).is_empty());
}

/// Callers of a shared kind attempt by themselves, and join the line when they were refused. A message that came in between
/// was not counted for their attempt, and a reader slept until the safety poll beside a lock that was free.
#[test]
fn a_message_between_an_attempt_outside_of_the_line_and_its_answer_makes_that_answer_stale() {
    let mut driver = settled_with(7, Rest::Left(LEASE));
    driver.take(|_| true);
    driver.message(at(11), Wake::Front, RTT);
    let times = (at(10), None, Stay::Waits);
    let id = driver.join(at(12), "b", times, Place::Front, RTT);
    driver.goes_on(id, at(10));

    driver.found_busy(at(12), id, Rest::Left(LEASE));

    assert_eq!(attempt(&mut driver, at(12)), (id, Cause::Message));
}
