use super::*;
use crate::coordination::holding::count::ReleaseEnd;

pub(super) const RTT: Duration = Duration::from_micros(50);
const LEASE: Duration = Duration::from_secs(30);

pub(super) fn at(ms: u64) -> Tick {
    Tick::from_nanos(10_000_000_000 + ms * 1_000_000)
}

/// As of a kind with messages, and without a queue on the server.
pub(super) fn waiting() -> Waiting {
    Waiting {
        channel: Some("channel".into()),
        pace: Pace::Doubled {
            first: Duration::from_secs(1),
            most: Duration::from_secs(10),
        },
        has_places: false,
        place_lasts: None,
        is_courteous: true,
        is_shared: false,
    }
}

pub(super) fn driver() -> Driver<&'static str> {
    Driver::new(&waiting(), Duration::from_secs(30), 7)
}

/// The number of the waiter that an attempt is due for.
pub(super) fn attempt(driver: &mut Driver<&'static str>, now: Tick) -> (u64, Cause) {
    match driver.next(now) {
        Next::Attempt { id, cause, .. } => (id, cause),
        other => panic!("no attempt but {other:?}"),
    }
}

pub(super) fn sleeps_until(driver: &mut Driver<&'static str>, now: Tick) -> Tick {
    match driver.next(now) {
        Next::Sleep(until) => until,
        other => panic!("no sleep but {other:?}"),
    }
}

/// A driver with one waiter that found it busy, listens, and sleeps.
fn settled(rest: Rest) -> Driver<&'static str> {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    assert_eq!(attempt(&mut driver, at(0)).1, Cause::Arrival);
    driver.found_busy(at(1), 0, rest);
    assert!(matches!(driver.next(at(1)), Next::Listen));
    driver.confirmed(at(2));
    assert_eq!(attempt(&mut driver, at(2)).1, Cause::Confirmed);
    driver.found_busy(at(3), 0, rest);
    driver
}

pub(super) fn settled_with(seed: u64, rest: Rest) -> Driver<&'static str> {
    Driver {
        random: fastrand::Rng::with_seed(seed),
        ..settled(rest)
    }
}

#[test]
fn a_free_lock_costs_one_attempt_and_no_subscription() {
    let mut driver = driver();
    let id = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);

    assert_eq!(attempt(&mut driver, at(0)), (id, Cause::Arrival));
    assert_eq!(
        driver.granted(at(1), (LEASE, false), id),
        Some(("a", Duration::from_millis(1)))
    );
    assert!(matches!(driver.next(at(1)), Next::Done));
}

#[test]
fn a_busy_lock_is_listened_to_before_the_waiter_sleeps() {
    let mut driver = settled(Rest::NoExpiry);

    let until = sleeps_until(&mut driver, at(3));

    assert!(until > at(3) && until <= at(3_000));
}

#[test]
fn a_message_while_an_attempt_is_under_way_makes_its_busy_stale() {
    let mut driver = settled(Rest::NoExpiry);
    driver.message(at(10), Wake::Front, RTT);
    attempt(&mut driver, at(12));

    driver.message(at(13), Wake::Front, RTT);
    driver.found_busy(at(14), 0, Rest::NoExpiry);

    assert_eq!(attempt(&mut driver, at(14)).1, Cause::Message);
}

#[test]
fn a_lease_that_ends_is_waited_for() {
    let mut driver = settled(Rest::Left(Duration::from_millis(400)));

    assert_eq!(sleeps_until(&mut driver, at(3)), at(404));
    assert_eq!(attempt(&mut driver, at(404)).1, Cause::LeaseEnd);
}

#[test]
fn without_any_message_the_lock_is_polled_ever_more_rarely_but_within_ten_seconds() {
    let mut driver = settled(Rest::Left(Duration::from_secs(3600)));
    let mut now = at(3);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let until = sleeps_until(&mut driver, now);
        pauses.push(until.since(now));
        now = until;
        assert_eq!(attempt(&mut driver, now).1, Cause::SafetyPoll);
        driver.found_busy(now, 0, Rest::Left(Duration::from_secs(3600)));
    }

    assert!(pauses[0] <= Duration::from_secs(2), "{pauses:?}");
    assert!(
        pauses[7] >= Duration::from_secs(7) && pauses[7] <= Duration::from_secs(10),
        "{pauses:?}"
    );
}

#[test]
fn fifty_waiters_on_a_held_lock_share_the_attempts_of_one() {
    let mut driver = settled(Rest::Left(Duration::from_secs(3600)));
    for _ in 0..49 {
        driver.join(at(4), "more", (at(4), None, Stay::Waits), Place::Back, RTT);
    }
    let (mut now, mut attempts) = (at(4), 0);
    while now < at(10_004) {
        match driver.next(now) {
            Next::Attempt { .. } => {
                attempts += 1;
                driver.found_busy(now, 0, Rest::Left(Duration::from_secs(3600)));
            }
            Next::Sleep(until) => now = until,
            other => panic!("{other:?}"),
        }
    }

    assert!(attempts <= 20, "{attempts}");
}

#[test]
fn a_waiter_at_its_deadline_attempts_once_more_and_then_times_out() {
    let mut driver = driver();
    driver.join(
        at(0),
        "a",
        (at(0), Some(at(500)), Stay::Waits),
        Place::Back,
        RTT,
    );
    attempt(&mut driver, at(0));
    driver.found_busy(at(1), 0, Rest::NoExpiry);
    assert!(matches!(driver.next(at(1)), Next::Listen));
    driver.confirmed(at(2));
    attempt(&mut driver, at(2));
    driver.found_busy(at(3), 0, Rest::NoExpiry);

    assert_eq!(sleeps_until(&mut driver, at(3)), at(500));
    assert_eq!(attempt(&mut driver, at(500)).1, Cause::LastChance);
    driver.found_busy(at(501), 0, Rest::NoExpiry);
    assert!(matches!(driver.next(at(501)), Next::TimedOut(late) if late[0].who == "a"));
}

#[test]
fn a_waiter_whose_last_attempt_is_not_answered_gets_unreachable_and_not_busy() {
    let mut driver = driver();
    driver.join(
        at(0),
        "a",
        (at(0), Some(at(500)), Stay::Waits),
        Place::Back,
        RTT,
    );
    attempt(&mut driver, at(0));

    assert_eq!(sleeps_until(&mut driver, at(1)), at(580));
    assert!(matches!(driver.next(at(580)), Next::Unreachable(late) if late.len() == 1));
}

#[test]
fn a_call_without_limit_does_not_wait_for_a_silent_server_for_ever() {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));

    assert_eq!(sleeps_until(&mut driver, at(1)), at(30_000));
    assert!(matches!(driver.next(at(30_000)), Next::Unreachable(_)));
}

#[test]
fn an_attempt_is_never_sent_beside_a_release_of_ours() {
    let mut driver = settled(Rest::NoExpiry);
    driver.release_begins(at(10));
    driver.message(at(11), Wake::Front, RTT);

    assert!(matches!(driver.next(at(20)), Next::Sleep(_)));
    driver.release_ended(at(21), ReleaseEnd::Freed { heard: 1 }, RTT);
    assert!(matches!(driver.next(at(21)), Next::Attempt { .. }));
}

#[test]
fn the_process_that_released_last_lets_others_go_first() {
    let mut waited = 0;
    for seed in 0..100 {
        let mut driver: Driver<&str> = Driver::new(&waiting(), Duration::from_secs(30), seed);
        driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
        driver.sent(at(0));
        driver.found_busy(at(1), 0, Rest::NoExpiry);
        driver.next(at(1));
        driver.confirmed(at(2));
        driver.sent(at(2));
        driver.found_busy(at(3), 0, Rest::NoExpiry);
        driver.release_begins(at(10));
        driver.release_ended(
            at(11),
            ReleaseEnd::Freed { heard: 5 },
            Duration::from_millis(1),
        );
        if matches!(driver.next(at(11)), Next::Sleep(_)) {
            waited += 1;
        }
        assert!(matches!(driver.next(at(13)), Next::Attempt { .. }));
    }

    assert!(waited > 90, "{waited}");
}

#[test]
fn a_release_of_ours_that_is_also_heard_as_a_message_draws_one_pause() {
    for seed in 0..100 {
        let mut driver: Driver<&str> = Driver::new(&waiting(), Duration::from_secs(30), seed);
        driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
        driver.sent(at(0));
        driver.found_busy(at(1), 0, Rest::NoExpiry);
        driver.next(at(1));
        driver.confirmed(at(2));
        driver.sent(at(2));
        driver.found_busy(at(3), 0, Rest::NoExpiry);
        driver.release_begins(at(10));
        driver.release_ended(at(11), ReleaseEnd::Freed { heard: 5 }, RTT);
        let drawn = driver.due;

        (0..20).for_each(|_| driver.message(at(11), Wake::Front, RTT));

        assert_eq!(driver.due, drawn);
    }
}

#[test]
fn a_waiter_that_joins_during_an_outage_has_its_own_time() {
    let mut driver = settled(Rest::NoExpiry);
    driver.message(at(10), Wake::Front, RTT);
    attempt(&mut driver, at(20));
    driver.failed(at(20));
    driver.join(
        at(25_020),
        "b",
        (at(25_020), None, Stay::Waits),
        Place::Back,
        RTT,
    );

    assert!(matches!(driver.next(at(30_020)), Next::Unreachable(late) if late.len() == 1));
    driver.sent(at(30_020));
    assert_eq!(sleeps_until(&mut driver, at(30_020)), at(55_020));
}

#[test]
fn a_grant_for_a_waiter_that_has_gone_is_given_to_no_other() {
    let mut driver = driver();
    let id = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));
    driver.take(|_| true);

    assert_eq!(driver.granted(at(1), (LEASE, false), id), None);
}

#[test]
fn without_a_subscription_the_lock_is_polled_with_growing_pauses() {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));
    driver.found_busy(at(1), 0, Rest::NoExpiry);
    assert!(matches!(driver.next(at(1)), Next::Listen));
    driver.not_listening(at(2));
    let mut now = at(2);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let until = sleeps_until(&mut driver, now);
        pauses.push(until.since(now));
        now = until;
        attempt(&mut driver, now);
        driver.found_busy(now, 0, Rest::NoExpiry);
    }

    assert!(pauses[0] <= Duration::from_millis(25), "{pauses:?}");
    assert!(
        pauses[8] >= Duration::from_millis(700) && pauses[8] <= Duration::from_secs(1),
        "{pauses:?}"
    );
}

#[test]
fn without_a_subscription_the_pauses_begin_anew_after_a_grant() {
    let mut driver = driver();
    let first = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    driver.join(at(0), "b", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));
    driver.found_busy(at(1), 0, Rest::NoExpiry);
    assert!(matches!(driver.next(at(1)), Next::Listen));
    driver.not_listening(at(2));
    let now = sleeps_until(&mut driver, at(2));
    attempt(&mut driver, now);
    driver.granted(now, (LEASE, false), first);

    let until = sleeps_until(&mut driver, now);

    assert!(until.since(now) <= Duration::from_millis(25));
}

#[test]
fn a_waiter_that_missed_its_offer_comes_back_to_the_front() {
    let mut driver = settled(Rest::NoExpiry);
    driver.join(at(5), "b", (at(5), None, Stay::Waits), Place::Back, RTT);
    let first = driver.join(at(6), "c", (at(6), None, Stay::Waits), Place::Front, RTT);
    driver.message(at(7), Wake::Front, RTT);

    assert_eq!(attempt(&mut driver, at(20)).0, first);
}

#[test]
fn a_subscription_lingers_after_the_last_waiter() {
    let mut driver = settled(Rest::NoExpiry);
    driver.take(|_| true);

    assert_eq!(sleeps_until(&mut driver, at(10)), at(5_010));
    assert!(matches!(driver.next(at(5_010)), Next::Done));
}

#[test]
fn a_newcomer_does_not_inherit_the_silence_that_others_gave_up_on() {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));
    assert!(matches!(driver.next(at(30_000)), Next::Unreachable(_)));

    driver.join(
        at(31_000),
        "b",
        (at(31_000), None, Stay::Waits),
        Place::Back,
        RTT,
    );

    assert_eq!(sleeps_until(&mut driver, at(31_000)), at(61_000));
}

#[test]
fn an_attempt_names_the_waiter_that_it_is_for() {
    let mut driver = driver();
    let ids =
        ["a", "b"].map(|who| driver.join(at(0), who, (at(0), None, Stay::Waits), Place::Back, RTT));

    assert!(matches!(driver.next(at(0)), Next::Attempt { who: "a", id, .. } if id == ids[0]));
    driver.take(|who| *who == "a");
    driver.withdrawn(at(0));
    assert!(matches!(driver.next(at(0)), Next::Attempt { who: "b", id, .. } if id == ids[1]));
}

#[test]
fn a_waiter_that_joins_a_line_does_not_change_the_next_attempt() {
    let mut driver = settled(Rest::NoExpiry);
    let planned = sleeps_until(&mut driver, at(3));

    driver.join(at(4), "b", (at(4), None, Stay::Waits), Place::Back, RTT);

    assert_eq!(sleeps_until(&mut driver, at(4)), planned);
}

#[test]
fn a_gap_is_followed_by_an_attempt_somewhere_within_its_spread() {
    let spread = Duration::from_secs(1);
    let mut moments = Vec::new();
    for seed in 0..20 {
        let mut driver = settled_with(seed, Rest::NoExpiry);
        driver.due = None;
        driver.gap(at(10), spread);
        let until = sleeps_until(&mut driver, at(10));
        assert_eq!(attempt(&mut driver, until).1, Cause::Gap);
        moments.push(until.since(at(10)));
    }

    moments.sort();
    assert!(moments[0] < spread / 4, "{moments:?}");
    assert!(moments[19] > spread / 2 && moments[19] <= spread);
}

#[test]
fn the_server_owes_an_answer_until_the_last_release_and_the_attempt_have_theirs() {
    let mut driver = settled(Rest::NoExpiry);
    let planned = sleeps_until(&mut driver, at(3));
    driver.release_begins(at(10));
    driver.release_begins(at(11));

    driver.release_ended(at(12), ReleaseEnd::Answered, RTT);
    assert_eq!(sleeps_until(&mut driver, at(12)), at(30_010));
    driver.release_ended(at(13), ReleaseEnd::Answered, RTT);
    assert_eq!(sleeps_until(&mut driver, at(13)), planned);

    driver.message(at(20), Wake::Front, RTT);
    attempt(&mut driver, at(30));
    driver.release_begins(at(31));
    driver.release_ended(at(32), ReleaseEnd::Answered, RTT);
    assert_eq!(sleeps_until(&mut driver, at(32)), at(30_030));
}

#[test]
fn a_lease_that_ends_now_is_asked_for_a_millisecond_later() {
    let mut driver = settled(Rest::Left(Duration::ZERO));

    assert_eq!(sleeps_until(&mut driver, at(3)), at(4));
}

#[test]
fn an_attempt_without_an_answer_is_made_again_soon_and_at_once_with_a_connection() {
    let mut driver = settled(Rest::NoExpiry);
    driver.message(at(10), Wake::Front, RTT);
    attempt(&mut driver, at(20));
    // A release of ours is answered meanwhile: no reason to repeat the attempt sooner.
    driver.release_begins(at(20));
    driver.release_ended(at(21), ReleaseEnd::Freed { heard: 1 }, RTT);
    driver.failed(at(22));

    let until = sleeps_until(&mut driver, at(22));
    assert!(until >= at(22 + 75) && until <= at(22 + 100), "{until:?}");
    driver.reconnected(at(30));
    assert_eq!(attempt(&mut driver, at(30)).1, Cause::Reconnected);

    driver.reconnected(at(31));
    assert!(matches!(driver.next(at(31)), Next::Sleep(_)));
}

#[test]
fn a_refusal_takes_all_waiters_out_of_the_line() {
    let mut driver = settled(Rest::NoExpiry);
    driver.join(at(4), "b", (at(4), None, Stay::Waits), Place::Back, RTT);
    driver.message(at(10), Wake::Front, RTT);
    attempt(&mut driver, at(20));

    assert_eq!(driver.refused(), ["a", "b"]);

    assert_eq!(sleeps_until(&mut driver, at(21)), at(5_021));
    assert!(driver.take(|_| true).is_empty());
}

/// As after a night in which the machine slept: the server is there, and is asked anew.
#[test]
fn a_grant_that_comes_too_late_by_hours_is_followed_by_another_attempt() {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));
    let morning = 8 * 3600 * 1000;

    driver.came_too_late(at(morning));

    let until = sleeps_until(&mut driver, at(morning));
    assert!(until <= at(morning + 100), "{until:?}");
    assert_eq!(attempt(&mut driver, until).1, Cause::Reconnected);
}

#[test]
fn an_attempt_that_was_not_made_is_made_for_the_next_in_line() {
    let mut driver = driver();
    let first = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    let second = driver.join(at(0), "b", (at(0), None, Stay::Waits), Place::Back, RTT);
    assert_eq!(attempt(&mut driver, at(0)).0, first);
    driver.take(|who| *who == "a");

    driver.withdrawn(at(5));

    assert_eq!(attempt(&mut driver, at(5)).0, second);
    assert_eq!(driver.silent_since, Some(at(5)));
}
