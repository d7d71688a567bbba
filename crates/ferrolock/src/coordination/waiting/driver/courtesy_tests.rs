use crate::coordination::holding::count::ReleaseEnd;
use std::time::Duration;

use crate::coordination::waiting::driver::tests::{
    RTT, at, attempt, driver, settled_with, waiting,
};
use crate::coordination::waiting::driver::{Cause, Driver, Next, Place, Stay};
use crate::protocol::scheme::Rest;

/// The longest of many random pauses after a release of ours whose message `heard` clients got.
fn longest_courtesy(heard: u64, round_trip: Duration) -> Duration {
    let drawn = (0..200).map(|seed| {
        let mut driver = settled_with(seed, Rest::NoExpiry);
        driver.release_begins(at(10));
        driver.release_ended(at(11), ReleaseEnd::Freed { heard }, round_trip);
        match driver.next(at(11)) {
            Next::Attempt { .. } => Duration::ZERO,
            Next::Sleep(until) => until.since(at(11)),
            other => panic!("{other:?}"),
        }
    });
    drawn.max().unwrap()
}

/// One of the clients that got the message is our own. One of two hundred draws reaches nine tenths of the bound.
#[test]
fn one_other_is_given_two_round_trips_and_many_the_longest_pause() {
    let (us, ms) = (Duration::from_micros, Duration::from_millis);
    for (heard, round_trip, most) in [
        (1, ms(1), Duration::ZERO),
        (2, us(500), ms(1)),
        (2, us(10), us(100)),
        (2, ms(900), ms(2)),
        (6, us(10), ms(2)),
    ] {
        let longest = longest_courtesy(heard, round_trip);

        assert!(longest <= most, "{heard} {round_trip:?}: {longest:?}");
        assert!(longest >= most.mul_f64(0.9), "{heard}: {longest:?}");
    }
}

/// Without a subscription of ours, all clients that got the message are others.
#[test]
fn a_client_that_does_not_listen_is_not_counted_among_the_listeners() {
    let mut waited = 0;
    for seed in 0..100 {
        let mut driver: Driver<&str> = Driver::new(&waiting(), Duration::from_secs(30), seed);
        driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
        driver.sent(at(0));
        driver.found_busy(at(1), 0, Rest::NoExpiry);
        driver.release_begins(at(10));
        driver.release_ended(
            at(11),
            ReleaseEnd::Freed { heard: 1 },
            Duration::from_millis(1),
        );
        waited += u32::from(driver.due.is_some_and(|(due, _)| due > at(11)));
    }

    assert!(waited > 90, "{waited}");
}

#[test]
fn a_new_waiter_after_our_own_release_lets_others_go_first() {
    let mut waited = 0;
    for seed in 0..100 {
        let mut driver = settled_with(seed, Rest::NoExpiry);
        driver.take(|_| true);
        driver.release_begins(at(10));
        driver.release_ended(at(11), ReleaseEnd::Freed { heard: 5 }, RTT);

        driver.join(at(12), "b", (at(12), None, Stay::Waits), Place::Back, RTT);

        waited += u32::from(matches!(driver.next(at(12)), Next::Sleep(_)));
        assert_eq!(attempt(&mut driver, at(15)).1, Cause::Arrival);
    }
    assert!(waited > 90, "{waited}");
}

#[test]
fn a_release_that_is_given_up_does_not_count_as_an_answer() {
    let mut driver = driver();
    driver.join(at(0), "a", (at(0), None, Stay::Waits), Place::Back, RTT);
    attempt(&mut driver, at(0));
    driver.failed(at(0));
    driver.release_begins(at(1_000));

    driver.release_ended(at(29_000), ReleaseEnd::GivenUp, RTT);

    assert!(matches!(driver.next(at(31_000)), Next::Unreachable(_)));
}
