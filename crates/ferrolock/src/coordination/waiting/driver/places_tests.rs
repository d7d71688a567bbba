use std::time::Duration;

use crate::coordination::waiting::driver::tests::{RTT, at, attempt, sleeps_until, waiting};
use crate::coordination::waiting::driver::{Cause, Driver, Next, Place, Stay};
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
