//! Waiters whose client is not heard: who is skipped, who is excused, and who comes back.

use super::*;

#[tokio::test(start_paused = true)]
async fn dead_waiters_at_the_head_are_skipped_in_one_go() {
    let line = Line::new();
    line.is_granted(A, 1);
    for number in 2..10 {
        line.waits(B, number);
    }
    let last = line.waits(A, 20);
    // The client `A` beats, `B` is silent.
    for _ in 0..5 {
        pass(ms(1_250)).await;
        line.busy(&owner(A, 20), Mode::Looks, last.place.unwrap());
    }
    line.release(A, 1);

    assert_eq!(line.heard(), told("A", "20"));
    assert_eq!(line.queue(), ["a20"]);
    assert!(line.is_granted(A, 20));
    line.assert_no_queue();
}

#[tokio::test(start_paused = true)]
async fn a_beat_behind_a_dead_head_takes_the_free_lock_or_wakes_the_next() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    let mine = line.waits(A, 3);
    line.release(A, 1);
    line.heard();
    for _ in 0..3 {
        pass(ms(1_250)).await;
        line.busy(&owner(A, 3), Mode::Looks, mine.place.unwrap());
        // Each beat repairs a message that was lost.
        assert_eq!(line.heard(), told("B", "2"));
    }
    pass(ms(1_251)).await;

    assert!(matches!(
        line.ask(&owner(A, 3), Mode::Looks, mine.place.unwrap(), true),
        AttemptReply::Granted(_)
    ));
    line.assert_no_queue();
}

/// F3: after a server that stood still, the first script that runs would skip every client.
#[tokio::test(start_paused = true)]
async fn a_server_that_stood_still_makes_no_waiter_dead() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    line.waits(A, 3);
    pass(ms(8_000)).await;

    // Whichever script comes first: a release, or a beat of another client.
    line.release(A, 1);
    assert_eq!(line.queue(), ["b2", "a3"]);
    for _ in 0..4 {
        line.busy(&owner(A, 3), Mode::Looks, 3);
        assert_eq!(line.queue(), ["b2", "a3"]);
        pass(ms(1_249)).await;
    }

    // The amnesty lasts as long as a client may be silent. One that stays silent is dead after that.
    pass(ms(5)).await;
    assert!(line.is_granted(A, 3));
}

#[tokio::test(start_paused = true)]
async fn a_server_clock_that_was_set_back_makes_no_waiter_dead() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    let ahead = (line.now() + 3_600_000).to_string();
    line.put(
        "redis.call('ZADD', 'ferrolock_fair_clients:{x}', ARGV[1], ARGV[2])",
        &[&ahead, B],
    );

    line.release(A, 1);

    assert_eq!(line.queue(), ["b2"]);
    assert_eq!(line.heard(), told("B", "2"));
    let known = line.text(
        "return redis.call('ZCARD', 'ferrolock_fair_clients:{x}')",
        &[],
    );
    assert_eq!(known.unwrap(), "0", "the time in the future is forgotten");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_was_skipped_and_lives_goes_back_to_its_place() {
    let line = Line::new();
    line.is_granted(A, 1);
    let first = line.waits(A, 2);
    pass(ms(1)).await;
    line.waits(B, 3);
    pass(ms(1)).await;
    let third = line.waits(A, 4);
    pass(ms(1)).await;
    line.waits(B, 5);
    for number in [2, 4] {
        line.leave(A, number);
    }

    let back = line.busy(&owner(A, 4), Mode::Looks, third.place.unwrap());
    assert_eq!((back.place, back.is_shaken), (third.place, true));
    assert_eq!(line.queue(), ["b3", "a4", "b5"]);
    let back = line.busy(&owner(A, 2), Mode::Waits, first.place.unwrap());
    assert!(back.is_shaken && back.is_next);
    assert_eq!(line.queue(), ["a2", "b3", "a4", "b5"]);
}

/// Once, an attempt of such a waiter was an error.
#[tokio::test(start_paused = true)]
async fn a_waiter_whose_queue_alone_was_lost_has_a_place_again() {
    let line = Line::new();
    line.is_granted(A, 1);
    let mine = line.waits(A, 2).place.unwrap();
    line.put("redis.call('DEL', 'redisson_lock_queue:{x}')", &[]);

    assert!(line.busy(&owner(A, 2), Mode::Looks, mine).is_shaken);

    assert_eq!(line.queue(), ["a2"]);
    assert_eq!(line.left_of("redisson_lock_queue"), 3_600_000);
}

#[tokio::test(start_paused = true)]
async fn after_lost_data_the_waiters_come_back_in_the_order_of_their_tickets() {
    let line = Line::new();
    line.is_granted(A, 1);
    let mut places = Vec::new();
    for number in 2..5 {
        pass(ms(1)).await;
        places.push((number, line.waits(A, number).place.unwrap()));
    }
    line.engine.flush();
    line.java_holds();

    for (number, place) in places.into_iter().rev() {
        assert!(line.busy(&owner(A, number), Mode::Looks, place).is_shaken);
    }

    assert_eq!(line.queue(), ["a2", "a3", "a4"]);
}

#[tokio::test(start_paused = true)]
async fn more_than_64_waiters_ahead_bound_the_walk_back() {
    let line = Line::new();
    line.is_granted(A, 1);
    for number in 100..170 {
        line.waits(B, number);
    }
    line.java_waits(1, Some(300_000));
    let far = u64::try_from(line.now() * 1000 + 60_000_000).unwrap();

    line.busy(&owner(A, 2), Mode::Looks, far);

    let place = line.queue().iter().position(|waiter| waiter == "a2");
    assert_eq!(place, Some(65));
}

/// F15: a process that takes new waiters and no longer serves its first one would keep that one alive.
#[tokio::test(start_paused = true)]
async fn only_the_first_waiter_of_a_client_is_a_sign_of_life() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    let mine = line.waits(A, 3).place.unwrap();
    for number in 10..16 {
        pass(ms(1_000)).await;
        // New waiters of the client whose first one is silent.
        line.ask(&owner(B, number), Mode::Waits, 0, false);
        line.busy(&owner(A, 3), Mode::Looks, mine);
    }

    line.release(A, 1);

    assert_eq!(line.heard(), told("A", "3"));
}

/// `skip_dead_after`.
#[tokio::test(start_paused = true)]
async fn the_dead_time_is_that_of_the_lock() {
    for dead in [1_000, 20_000] {
        let line = Line::with(FairTimes {
            dead: ms(dead),
            ..FairTimes::default()
        });
        line.is_granted(A, 1);
        line.waits(B, 2);
        let mine = line.waits(A, 3).place.unwrap();
        line.release(A, 1);
        for _ in 0..4 {
            line.busy(&owner(A, 3), Mode::Looks, mine);
            pass(ms(dead / 4)).await;
        }
        pass(ms(1)).await;

        assert!(line.is_granted(A, 3), "after {dead} ms");
    }
}
