//! Waiters of Redisson in the same queue: budgets against its arithmetic, and what it leaves behind.

use super::*;
use crate::protocol::fair_lock::RESERVE;

/// A waiter that comes back behind a waiter of Redisson goes before it only if it is not yet past the front.
#[tokio::test(start_paused = true)]
async fn a_waiter_goes_back_before_the_first_foreign_one() {
    let line = Line::new();
    line.is_granted(A, 1);
    let mine = line.waits(A, 2);
    line.java_waits(1, Some(300_000));
    line.leave(A, 2);

    let back = line.busy(&owner(A, 2), Mode::Looks, mine.place.unwrap());

    assert!(back.is_next && back.is_mixed);
    assert_eq!(line.queue(), ["a2", "c1"]);
}

/// F1, F2: Redisson takes 300 s off every deadline with each grant and each give-up of its own.
#[tokio::test(start_paused = true)]
async fn a_deadline_has_a_whole_wait_of_redisson_for_each_foreign_waiter() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.java_waits(1, Some(1_000));
    line.java_waits(2, Some(2_000));
    line.waits(A, 2);

    let budget = 2 * 300_000 + i64::try_from(RESERVE.as_millis()).unwrap();
    assert_eq!(line.ends_in(&owner(A, 2)), Some(budget));
    // Two of Redisson's go by: there is a reserve left.
    let left = line.ends_in(&owner(A, 2)).unwrap() - 2 * 300_000;
    assert!(left > 0, "{left}");
}

#[tokio::test(start_paused = true)]
async fn a_deadline_is_not_before_that_of_the_waiter_ahead() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.java_waits(1, Some(100_000));
    line.java_waits(2, Some(2_000_000));
    line.waits(A, 2);
    assert_eq!(
        line.ends_in(&owner(A, 2)),
        Some(2_300_000),
        "behind a foreign one, and the reserve"
    );

    line.waits(B, 3);

    assert_eq!(
        line.ends_in(&owner(B, 3)),
        Some(2_300_000),
        "behind one of ours"
    );
}

#[tokio::test(start_paused = true)]
async fn a_beat_gives_a_deadline_the_time_back_that_has_passed_and_once_only() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.java_holds();
    let mine = line.waits(A, 2).place.unwrap();
    let before = line.ends_in(&owner(A, 2)).unwrap();
    pass(ms(100_000)).await;
    line.java_holds();
    line.busy(&owner(A, 2), Mode::Looks, mine);
    assert_eq!(
        line.ends_in(&owner(A, 2)),
        Some(before - 100_000),
        "not yet"
    );

    pass(ms(100_000)).await;
    line.java_holds();
    line.busy(&owner(A, 2), Mode::Looks, mine);
    line.busy(&owner(A, 2), Mode::Looks, mine);

    assert_eq!(line.ends_in(&owner(A, 2)), Some(before));
}

/// F6: budgets of ours raise the deadlines of Redisson's waiters behind us; a dead one at the head must not stay that long.
#[tokio::test(start_paused = true)]
async fn a_foreign_head_is_kept_no_longer_than_redisson_would_and_never_less() {
    let line = Line::new();
    line.java_holds();
    line.java_waits(1, Some(5_000_000));
    let mine = line.waits(A, 2);
    assert_eq!(
        line.ends_in(&owner(JAVA, 1)),
        Some(330_000),
        "its wait, and the rest of the lease"
    );
    assert!(mine.is_mixed);
    assert_eq!(mine.look_in, Some(ms(500)));

    pass(ms(1_000)).await;
    line.busy(&owner(A, 2), Mode::Looks, 1);
    assert_eq!(
        line.ends_in(&owner(JAVA, 1)),
        Some(329_000),
        "what is left is not raised"
    );
}

#[tokio::test(start_paused = true)]
async fn a_foreign_head_without_a_deadline_gets_one_and_goes_when_it_is_over() {
    let line = Line::new();
    line.java_waits(1, None);
    let mine = line.waits(A, 2);
    assert_eq!(line.ends_in(&owner(JAVA, 1)), Some(300_000));
    assert_eq!(mine.rest, Rest::Left(Duration::ZERO));

    pass(ms(300_000)).await;

    assert!(line.is_granted(A, 2));
    line.assert_no_queue();
}

#[tokio::test(start_paused = true)]
async fn a_foreign_head_is_told_on_its_own_channel() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.java_waits(1, Some(300_000));
    line.waits(A, 2);

    line.release(A, 1);
    assert_eq!(line.heard(), told("java", "0"));
    // It may have gone without a word: each beat tells it again.
    line.busy(&owner(A, 2), Mode::Looks, 1);
    assert_eq!(line.heard(), told("java", "0"));
}

#[tokio::test(start_paused = true)]
async fn a_queue_is_mixed_with_a_foreign_holder_head_or_tail() {
    let line = Line::new();
    line.java_holds();
    assert!(line.waits(A, 2).is_mixed, "the holder");
    line.force_unlock();
    assert!(line.is_granted(A, 2));
    let pure = line.waits(A, 3);
    assert!(!pure.is_mixed);
    line.java_waits(1, Some(300_000));
    assert!(
        line.busy(&owner(A, 3), Mode::Waits, pure.place.unwrap())
            .is_mixed,
        "one behind us"
    );
    assert!(line.waits(B, 4).is_mixed, "one before us");
}

/// F12: an end of the keys would drop Redisson's line.
#[tokio::test(start_paused = true)]
async fn the_queue_has_an_end_only_while_all_waiters_are_ours() {
    let line = Line::new();
    line.is_granted(A, 1);
    let mine = line.waits(A, 2).place.unwrap();
    let ends = [
        "redisson_lock_queue",
        "redisson_lock_timeout",
        "ferrolock_fair_waiters",
    ];
    assert_eq!(ends.map(|key| line.left_of(key)), [3_600_000; 3]);
    assert_eq!(line.left_of("ferrolock_fair_clients"), 60_000);
    assert_eq!(line.left_of("ferrolock_fair_amnesty"), 5_000);

    line.java_waits(1, Some(300_000));
    pass(ms(1_250)).await;
    line.busy(&owner(A, 2), Mode::Looks, mine);
    assert_eq!(ends.map(|key| line.left_of(key)), [-1, -1, 3_600_000]);

    line.put("redis.call('RPOP', 'redisson_lock_queue:{x}')", &[]);
    line.busy(&owner(A, 2), Mode::Looks, mine);
    assert_eq!(ends.map(|key| line.left_of(key)), [3_600_000; 3]);
}

#[tokio::test(start_paused = true)]
async fn the_first_waiter_of_ours_behind_foreign_ones_leaves_no_key_without_an_end() {
    let line = Line::new();
    line.java_waits(1, Some(300_000));

    line.waits(A, 2);

    assert_eq!(line.left_of("ferrolock_fair_waiters"), 3_600_000);
    assert_eq!(line.left_of("redisson_lock_queue"), -1);
}

/// F14: Redisson evicts waiters of ours, and does not know our key.
#[tokio::test(start_paused = true)]
async fn waiters_that_redisson_evicted_are_forgotten_by_and_by() {
    let line = Line::new();
    line.is_granted(A, 1);
    let mine = line.waits(A, 2).place.unwrap();
    for number in 100..150 {
        line.waits(B, number);
    }
    let evict = "redis.call('RPOP', 'redisson_lock_queue:{x}') redis.call('ZREM', 'redisson_lock_timeout:{x}', ARGV[1])";
    for number in (100..150).rev() {
        line.put(evict, &[&owner(B, number)]);
    }
    line.java_waits(1, Some(300_000));
    assert_eq!(line.known(), 51);
    let seen = line.waits(B, 7);
    assert!(seen.is_mixed, "by the tail, whatever the count says");

    for _ in 0..400 {
        line.busy(&owner(A, 2), Mode::Looks, mine);
    }

    assert_eq!(line.known(), 2);
    line.force_unlock();
    line.engine.flush();
    line.put(
        "redis.call('HSET', 'ferrolock_fair_waiters:{x}', 'debris', '1:1')",
        &[],
    );
    line.java_holds();
    line.waits(A, 8);
    assert_eq!(line.known(), 1, "an empty queue forgets all");
}

/// `java_wait`.
#[tokio::test(start_paused = true)]
async fn a_wait_of_redisson_is_as_long_as_the_lock_was_told() {
    let line = Line::with(FairTimes {
        java_wait: ms(20_000),
        ..FairTimes::default()
    });
    line.java_waits(1, None);
    line.java_waits(2, Some(1_000));
    line.waits(A, 2);

    assert_eq!(line.ends_in(&owner(JAVA, 1)), Some(20_000));
    let budget = 2 * 20_000 + i64::try_from(RESERVE.as_millis()).unwrap();
    assert_eq!(line.ends_in(&owner(A, 2)), Some(budget));
}
