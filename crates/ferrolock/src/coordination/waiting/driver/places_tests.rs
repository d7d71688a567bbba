use crate::engine::Tick;
use std::time::Duration;

use crate::coordination::holding::count::ReleaseEnd;
use crate::coordination::waiting::driver::tests::{RTT, at, attempt, sleeps_until, waiting};
use crate::coordination::waiting::driver::{Cause, Driver, Next, Place, Stay};
use crate::protocol::pace::Pace;
use crate::protocol::scheme::{Busy, Rest, Waiting, Wake};

const LEASE: Duration = Duration::from_secs(30);

fn queued() -> Driver<&'static str> {
    let waiting = Waiting {
        has_places: true,
        is_courteous: false,
        ..waiting()
    };
    Driver::new(&waiting, Duration::from_secs(30), 7)
}

fn at_place(place: u64) -> Busy {
    Busy {
        place: Some(place),
        ..Rest::NoExpiry.into()
    }
}

/// Three waiters that came in the order a, b, c, and that the server put at 30, 10 and 20; no attempt is due.
fn three() -> Driver<&'static str> {
    let mut driver = queued();
    for name in ["a", "b", "c"] {
        driver.join(at(0), name, (at(0), None, Stay::Waits), Place::Back, RTT);
    }
    for (id, place) in [30, 10, 20].into_iter().enumerate() {
        let id = u64::try_from(id).unwrap();
        assert_eq!(attempt(&mut driver, at(1)), (id, Cause::Arrival));
        driver.found_busy(at(1), id, at_place(place));
    }
    assert!(matches!(driver.next(at(1)), Next::Listen));
    driver.confirmed(at(2));
    let (id, _) = attempt(&mut driver, at(2));
    driver.found_busy(at(2), id, at_place(10));
    driver
}

#[test]
fn every_newcomer_attempts_at_once_in_order_of_arrival() {
    let mut driver = three();

    assert!(sleeps_until(&mut driver, at(2)) > at(700));
}

#[test]
fn the_front_of_the_line_is_the_first_in_the_servers_queue() {
    let mut driver = three();

    driver.message(at(5), Wake::Front, RTT);

    assert_eq!(attempt(&mut driver, at(5)), (1, Cause::Message));
    let to = driver.granted(at(6), (LEASE, false), 1);
    assert_eq!(to.map(|(who, _)| who), Some("b"));
}

#[test]
fn a_named_wake_is_for_that_waiter() {
    let mut driver = three();

    driver.woken(at(5), driver.find(|who| *who == "c").unwrap());

    assert_eq!(attempt(&mut driver, at(5)), (2, Cause::Message));
}

#[test]
fn a_wake_for_no_waiter_of_ours_makes_no_attempt() {
    let mut driver = three();
    let until = sleeps_until(&mut driver, at(2));

    assert_eq!(driver.find(|who| *who == "z"), None);
    driver.message(at(5), Wake::Named(77), RTT);
    driver.message(at(5), Wake::Nobody, RTT);

    assert_eq!(sleeps_until(&mut driver, at(5)), until);
}

/// The reply with its place and the message that names it may come in either order.
#[test]
fn a_newcomer_that_is_named_before_it_knows_its_place_attempts_again() {
    let mut driver = queued();
    let id = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));

    driver.woken(at(1), id);
    driver.found_busy(at(2), id, at_place(5));

    assert_eq!(attempt(&mut driver, at(2)), (id, Cause::Message));
}

#[test]
fn with_room_for_more_the_next_in_line_attempts_at_once() {
    let mut driver = three();
    driver.message(at(5), Wake::Front, RTT);
    attempt(&mut driver, at(5));

    driver.granted(at(6), (LEASE, true), 1);

    assert_eq!(attempt(&mut driver, at(6)), (2, Cause::More));
}

/// Else a kind that gives no place would be asked without a pause.
#[test]
fn a_waiter_that_got_no_place_waits_like_any_other() {
    let mut driver = queued();
    let id = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));

    driver.found_busy(at(1), id, Rest::NoExpiry);

    assert!(matches!(driver.next(at(1)), Next::Listen));
    assert!(sleeps_until(&mut driver, at(1)) > at(700));
}

const BEAT: Duration = Duration::from_millis(1250);

/// As of a fair lock: it looks at each beat, and its places last for 240 s.
fn fair() -> Driver<&'static str> {
    let waiting = Waiting {
        pace: Pace::Constant(BEAT),
        has_places: true,
        place_lasts: Some(Duration::from_secs(240)),
        is_courteous: false,
        ..waiting()
    };
    Driver::new(&waiting, Duration::from_secs(300), 7)
}

fn busy(place: u64) -> Busy {
    Busy {
        is_next: false,
        ..at_place(place)
    }
}

/// Waiters a, b, … at the places 1, 2, …, and the subscription stands: the front has found it busy at 0.
fn line_of(names: &[&'static str]) -> Driver<&'static str> {
    let mut driver = fair();
    for (id, name) in (0..).zip(names) {
        driver.join(at(0), *name, (at(0), None, Stay::Waits), Place::Back, RTT);
        assert_eq!(attempt(&mut driver, at(0)), (id, Cause::Arrival));
        driver.found_busy(at(0), id, busy(id + 1));
    }
    assert!(matches!(driver.next(at(0)), Next::Listen));
    driver.confirmed(at(0));
    assert_eq!(attempt(&mut driver, at(0)), (0, Cause::Confirmed));
    driver.found_busy(at(0), 0, busy(1));
    driver
}

#[test]
fn the_front_looks_at_every_beat_and_the_others_sleep() {
    let mut driver = line_of(&["a", "b"]);

    for beat in 1..10 {
        let now = at(beat * 1250);
        assert_eq!(sleeps_until(&mut driver, at(beat * 1250 - 1)), now);
        assert_eq!(attempt(&mut driver, now), (0, Cause::SafetyPoll));
        driver.found_busy(now, 0, busy(1));
    }
}

/// In a line that moves fast, no front would live to its own beat, and the client would look dead.
#[test]
fn a_new_front_goes_on_with_the_beats_of_the_one_before() {
    let mut driver = line_of(&["a", "b"]);
    driver.woken(at(1000), 0);
    assert_eq!(attempt(&mut driver, at(1000)), (0, Cause::Message));
    driver.granted(at(1000), (LEASE, false), 0);

    assert_eq!(sleeps_until(&mut driver, at(1000)), at(1250));
    assert_eq!(attempt(&mut driver, at(1250)), (1, Cause::SafetyPoll));
}

#[test]
fn behind_a_foreign_head_the_front_looks_sooner_and_no_more_than_three_times_a_second() {
    let mut driver = line_of(&["a", "b"]);
    let foreign = Busy {
        look_in: Some(Duration::from_millis(500)),
        is_mixed: true,
        ..busy(1)
    };
    driver.woken(at(0), 0);
    let mut attempts = 0;
    for ms in 0..10_000 {
        match driver.next(at(ms)) {
            Next::Attempt { id, .. } => {
                driver.sent(at(ms));
                driver.found_busy(at(ms), id, foreign);
                attempts += 1;
            }
            Next::ListenOwn(id) => assert_eq!(id, Some(0)),
            _ => {}
        }
    }

    assert!((20..=30).contains(&attempts), "{attempts}");
}

#[test]
fn the_end_of_the_lease_is_for_the_next_in_the_servers_queue_alone() {
    let mut driver = line_of(&["a"]);
    let rest = Rest::Left(Duration::from_millis(300));
    for (is_next, until) in [(false, 1250), (true, 301)] {
        driver.woken(at(0), 0);
        assert_eq!(attempt(&mut driver, at(0)).0, 0);
        driver.found_busy(
            at(0),
            0,
            Busy {
                rest,
                is_next,
                ..busy(1)
            },
        );

        assert_eq!(sleeps_until(&mut driver, at(0)), at(until), "{is_next}");
    }
}

#[test]
fn a_waiter_that_is_not_the_front_looks_before_its_place_is_too_old() {
    let mut driver = line_of(&["a", "b"]);
    let mut looked = Vec::new();
    for ms in (0..500_000).step_by(10) {
        if let Next::Attempt { id, cause, .. } = driver.next(at(ms)) {
            assert_eq!(cause, Cause::SafetyPoll);
            driver.sent(at(ms));
            driver.found_busy(at(ms), id, busy(id + 1));
            looked.extend((id == 1).then_some(ms));
        }
    }

    assert_eq!(looked, [240_000, 480_000]);
}

/// Once, it was asked for without a pause as long as there was no connection.
#[test]
fn a_place_that_is_too_old_is_asked_for_no_more_often_than_others_while_there_is_no_answer() {
    let mut driver = line_of(&["a", "b"]);
    for ms in 0..235_000 {
        if let Next::Attempt { id, .. } = driver.next(at(ms)) {
            driver.found_busy(at(ms), id, busy(id + 1));
        }
    }

    let mut failures = 0;
    for ms in 235_000..260_000 {
        if let Next::Attempt { .. } = driver.next(at(ms)) {
            driver.failed(at(ms));
            failures += 1;
        }
        let until = sleeps_until(&mut driver, at(ms));
        assert!(until > at(ms), "{until:?} at {ms} ms");
    }
    assert!(failures > 10, "{failures}");
    // There is an answer again: the place is asked for.
    let (id, _) = (0..10_000)
        .find_map(|late| match driver.next(at(260_000 + late)) {
            Next::Attempt { id, cause, .. } => Some((id, cause)),
            _ => None,
        })
        .unwrap();
    driver.found_busy(at(270_000), id, busy(id + 1));
    assert_eq!(attempt(&mut driver, at(270_000)).0, 1);
}

#[test]
fn a_waiter_with_a_place_makes_the_line_keep_it_whoever_began_it() {
    let without = Waiting {
        is_courteous: false,
        ..waiting()
    };
    let mut driver = Driver::new(&without, Duration::from_secs(300), 7);
    let plain = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    assert_eq!(attempt(&mut driver, at(0)).0, plain);
    driver.found_busy(at(0), plain, Rest::NoExpiry);
    assert!(matches!(driver.next(at(0)), Next::Listen));
    driver.confirmed(at(0));
    assert_eq!(attempt(&mut driver, at(0)).0, plain);
    driver.found_busy(at(0), plain, Rest::NoExpiry);
    let second = Duration::from_secs(1);
    let with_intent = Waiting {
        pace: Pace::Constant(second),
        has_places: true,
        place_lasts: Some(second),
        ..waiting()
    };
    let mut preferring = Vec::new();
    for name in ["b", "c"] {
        let times = (at(1), None, Stay::Waits);
        let id = driver.join(at(1), name, times, Place::Back, RTT);
        driver.keep_place(at(1), id, &with_intent);
        assert_eq!(attempt(&mut driver, at(1)), (id, Cause::Arrival));
        driver.found_busy(at(1), id, Rest::NoExpiry);
        preferring.push(id);
    }

    let mut looked = Vec::new();
    for ms in 2..5_000 {
        if let Next::Attempt { id, .. } = driver.next(at(ms)) {
            driver.found_busy(at(ms), id, Rest::NoExpiry);
            looked.push(id);
        }
    }

    let of = |id| looked.iter().filter(|other| **other == id).count();
    assert!((3..=5).contains(&of(preferring[0])), "{looked:?}");
    assert_eq!(of(preferring[1]), 0, "one keeps it for both");
    driver.message(at(5_000), Wake::Front, RTT);
    assert_eq!(attempt(&mut driver, at(5_000)).0, plain);
    // The message may be that of a writer that took its intent along.
    driver.found_busy(at(5_000), plain, Rest::NoExpiry);
    assert_eq!(attempt(&mut driver, at(5_000)).0, preferring[0]);
}

#[test]
fn if_one_waiter_had_lost_its_place_each_of_the_others_attempts_once() {
    let mut driver = line_of(&["a", "b", "c", "d"]);
    let shaken = |id| Busy {
        is_shaken: true,
        ..busy(id + 1)
    };
    driver.woken(at(5), 0);
    assert_eq!(attempt(&mut driver, at(5)).0, 0);
    driver.found_busy(at(5), 0, shaken(0));

    for id in 1..4 {
        assert_eq!(attempt(&mut driver, at(5)), (id, Cause::Arrival));
        driver.found_busy(at(5), id, shaken(id));
    }
    assert!(sleeps_until(&mut driver, at(5)) > at(1000));
}

#[test]
fn an_own_release_that_the_first_in_the_queue_was_told_of_needs_no_attempt() {
    let mut driver = line_of(&["a"]);
    driver.release_begins(at(5));
    driver.release_ended(at(6), ReleaseEnd::Freed { heard: 1 }, RTT);
    assert_eq!(sleeps_until(&mut driver, at(6)), at(1250));

    // No client got the message.
    driver.release_begins(at(7));
    driver.release_ended(at(8), ReleaseEnd::Freed { heard: 0 }, RTT);
    assert_eq!(attempt(&mut driver, at(8)), (0, Cause::OwnRelease));
}

#[test]
fn the_front_listens_to_its_own_channel_while_another_library_waits_too() {
    let mut driver = line_of(&["a", "b"]);
    driver.woken(at(5), 0);
    attempt(&mut driver, at(5));
    let mixed = Busy {
        is_mixed: true,
        ..busy(1)
    };
    driver.found_busy(at(5), 0, mixed);

    assert!(matches!(driver.next(at(5)), Next::ListenOwn(Some(0))));
    assert!(matches!(driver.next(at(5)), Next::Sleep(_)));
    // A message may have come before the subscription stood: it attempts once more.
    driver.own_confirmed(at(6), 0);
    assert_eq!(attempt(&mut driver, at(6)), (0, Cause::Confirmed));
    driver.found_busy(at(6), 0, busy(1));
    assert!(matches!(driver.next(at(6)), Next::ListenOwn(None)));
    driver.own_confirmed(at(7), 0);
    assert_eq!(sleeps_until(&mut driver, at(7)), at(1250), "too late");
}

#[test]
fn a_waiter_whose_offer_was_withdrawn_begins_at_the_end() {
    let mut driver = line_of(&["a", "b"]);

    let id = driver.join(at(5), "c", (at(0), None, Stay::Waits), Place::Front, RTT);

    assert!(!driver.is_front(id));
    assert_eq!(attempt(&mut driver, at(5)), (id, Cause::Arrival));
}

/// Once, the newcomer's attempt used the message up, and the waiter that it was for waited for its next look.
#[test]
fn a_waiter_that_is_named_goes_before_newcomers() {
    let mut driver = line_of(&["a"]);
    driver.join(at(5), "b", (at(5), None, Stay::Waits), Place::Back, RTT);
    assert_eq!(attempt(&mut driver, at(5)), (1, Cause::Arrival));
    driver.join(at(5), "c", (at(5), None, Stay::Waits), Place::Back, RTT);
    driver.woken(at(5), 0);
    driver.found_busy(at(6), 1, busy(2));

    assert_eq!(attempt(&mut driver, at(6)), (0, Cause::Message));
    driver.granted(at(7), (LEASE, false), 0);
    assert_eq!(attempt(&mut driver, at(7)), (2, Cause::Arrival));
}

#[test]
fn a_kind_without_messages_follows_its_own_pace_and_never_listens() {
    let waiting = Waiting {
        channel: None,
        ..waiting()
    };
    let mut driver: Driver<&str> = Driver::new(&waiting, Duration::from_secs(30), 7);
    let id = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));

    driver.found_busy(at(1), id, Rest::NoExpiry);

    let until = sleeps_until(&mut driver, at(1));
    assert!(until >= at(751) && until <= at(1001), "{until:?}");
}

/// The numbers of the waiters that attempt now; each is found busy, the newcomer `new` at place 40, the others at 10.
fn attempts(driver: &mut Driver<&'static str>, now: Tick, new: u64) -> Vec<u64> {
    let mut asked = Vec::new();
    while let Next::Attempt { id, .. } = driver.next(now) {
        driver.found_busy(now, id, at_place(if id == new { 40 } else { 10 }));
        asked.push(id);
        assert!(asked.len() < 10);
    }
    asked
}

#[test]
fn a_newcomer_does_not_use_up_the_attempt_of_a_waiter_that_was_woken() {
    let by_name = |driver: &mut Driver<_>| driver.woken(at(5), 1);
    let as_front = |driver: &mut Driver<_>| driver.message(at(5), Wake::Front, RTT);
    for wake in [&by_name as &dyn Fn(&mut Driver<_>), &as_front] {
        let mut driver = three();
        wake(&mut driver);
        let id = driver.join(at(5), "d", (at(5), None, Stay::Waits), Place::Back, RTT);

        assert_eq!(attempts(&mut driver, at(6), id), [1, id]);
    }
}

/// Another holder leaves: the message for the next in the queue overtakes the reply.
#[test]
fn a_message_that_comes_before_a_grant_is_read_wakes_the_next_in_line() {
    let mut driver = three();
    driver.woken(at(5), 1);
    let (id, _) = attempt(&mut driver, at(5));

    driver.woken(at(6), 2);
    assert!(driver.granted(at(6), (LEASE, false), id).is_some());

    assert!(matches!(driver.next(at(6)), Next::Attempt { id: 2, .. }));
}

#[test]
fn a_waiter_whose_time_is_up_tries_where_there_is_room_for_more() {
    let mut driver = queued();
    let a = driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    let end = Some(at(10));
    let b = driver.join(at(0), "b", (at(0), end, Stay::Waits), Place::Back, RTT);
    for (id, place) in [(a, 1), (b, 2)] {
        assert_eq!(attempt(&mut driver, at(0)).0, id);
        driver.found_busy(at(0), id, at_place(place));
    }
    driver.woken(at(9), a);
    attempt(&mut driver, at(9));

    driver.granted(at(10), (LEASE, true), a);

    assert!(matches!(
        driver.next(at(10)),
        Next::Attempt { who: "b", .. }
    ));
}
