//! Read holds of ours beside readers of Redisson, whose renewals set the whole lock to their own 30 s.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use std::time::Duration;

use crate::coordination::fair_tests::{s, server};
use crate::protocol::call::{Arg, Value};
use crate::testing::lying::{Lie, Lying, Match};
use crate::testing::scenes::{Pair, insider, ms, pair};
use crate::{Client, LostReason, RwLock};

const RENEW: &str = "rw_lock/read_renew";

/// Redisson's acquire and renewal, each for its 30 s, and its unlock.
const JAVA_READS: &str = "
redis.call('HSET', 'x', 'mode', 'read', 'java:1', 1)
redis.call('SET', '{x}:java:1:rwlock_timeout:1', 1, 'PX', 30000)
redis.call('PEXPIRE', 'x', math.max(redis.call('PTTL', 'x'), 30000))";
const JAVA_RENEWS: &str = "
redis.call('PEXPIRE', 'x', 30000)
redis.call('PEXPIRE', '{x}:java:1:rwlock_timeout:1', 30000)";

/// How long the lock, and the hold of the only reader of ours, still last.
async fn left(client: &Client) -> (Duration, Duration) {
    let ask = "
for _, field in ipairs(redis.call('HKEYS', 'x')) do
    if string.sub(field, 15, 15) == '8' then
        return { redis.call('PTTL', 'x'), redis.call('PTTL', '{x}:' .. field .. ':rwlock_timeout:1') }
    end
end
return {}";
    match server(client, ask, &[]).await {
        Value::List(both) => match both.as_slice() {
            [Value::Int(lock), Value::Int(hold)] => (
                ms(u64::try_from(*lock).unwrap()),
                ms(u64::try_from(*hold).unwrap()),
            ),
            other => panic!("no reader of ours: {other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn renewals(lying: &Lying) -> usize {
    lying.log_of(RENEW).len()
}

/// A reader of Redisson comes, renews each 10 s for a while, and dies.
async fn java_reads_for(client: &Client, time: Duration) {
    server(client, JAVA_READS, &[]).await;
    for _ in 0..time.as_secs() / 10 {
        tokio::time::sleep(s(10)).await;
        server(client, JAVA_RENEWS, &[]).await;
    }
}

/// No writer gets in before the reader of ours has gone, and the lock does not outlast it.
async fn writers_wait_for(lock: RwLock, them: &Client, lease: Duration) {
    let begun = them.core().now();
    let reading = lock.read().await.unwrap();
    java_reads_for(them, s(60)).await;

    while them.core().now().since(begun) < lease - s(20) {
        assert!(reading.is_held());
        let writes = them.rw_lock("x").try_write().await.unwrap();
        assert!(writes.is_none(), "{:?}", them.core().now().since(begun));
        tokio::time::sleep(s(1)).await;
    }
    assert_eq!(reading.lost().await, LostReason::Expired);
    let writing = them.rw_lock("x").write().await.unwrap();
    let waited = them.core().now().since(begun);
    assert!(waited > lease - s(1) && waited < lease + s(1), "{waited:?}");
    writing.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_not_cut_by_the_renewals_of_a_reader_of_redisson() {
    let Pair { us, them, .. } = pair("keeps_fixed");
    let lock = us.rw_lock("x").lease(s(300));

    writers_wait_for(lock, &them, s(300)).await;
}

/// It is renewed each 10 s, and not each third of its lease.
#[tokio::test(start_paused = true)]
async fn a_long_lease_that_is_renewed_is_not_cut_either() {
    let Pair { lying, us, them } = pair("keeps_renewed");
    let reading = us.rw_lock("x").watchdog_lease(s(600)).read().await.unwrap();
    java_reads_for(&them, s(60)).await;

    for _ in 0..100 {
        tokio::time::sleep(s(1)).await;
        assert!(them.rw_lock("x").try_write().await.unwrap().is_none());
    }
    reading.check().await.unwrap();
    assert!(
        (16..=18).contains(&renewals(&lying)),
        "{}",
        renewals(&lying)
    );
    reading.unlock().await.unwrap();
}

/// The server knows what the hold has left: no clock of a client and no delay of a call moves its end.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_fixed_lease_does_not_move() {
    let Pair { lying, us, them } = pair("keeps_its_end");
    let reading = us.rw_lock("x").lease(s(100)).read().await.unwrap();
    let granted = them.core().now();
    server(&them, JAVA_READS, &[]).await;
    lying.always(Match::script(RENEW), Lie::DelayCall(ms(900)));
    for _ in 0..6 {
        server(&them, JAVA_RENEWS, &[]).await;
        tokio::time::sleep(s(11)).await;
        let rest = s(100) - them.core().now().since(granted);
        let (lock, hold) = left(&them).await;
        assert_eq!(hold, rest);
        assert!(lock >= hold, "{lock:?} of {hold:?}");
    }

    reading.check().await.unwrap();
    assert_eq!(reading.lost().await, LostReason::Expired);
    assert!(them.core().now().since(granted) < s(100));
}

/// A script each 10 s for up to a hundred holds of a client, and nothing for a lease that is shorter than that.
#[tokio::test(start_paused = true)]
async fn fixed_read_leases_cost_one_call_in_ten_seconds_for_a_hundred_of_them() {
    let (client, lying, _) = insider();
    let mut readers = Vec::new();
    for number in 0..100 {
        let lock = client.rw_lock(format!("shelf/{number}")).lease(s(120));
        readers.push(lock.read().await.unwrap());
    }
    let short = client.rw_lock("short").lease(s(8)).read().await.unwrap();
    let writing = client.rw_lock("w").lease(s(120)).write().await.unwrap();

    tokio::time::sleep(s(62)).await;

    let calls = lying.log_of(RENEW);
    assert!((5..=7).contains(&calls.len()), "{}", calls.len());
    for call in calls {
        assert_eq!(call.args.len(), 200, "a field and a lease for each hold");
        assert!(
            call.args
                .iter()
                .skip(1)
                .step_by(2)
                .all(|arg| *arg == Arg::Int(1))
        );
    }
    assert_eq!(lying.log_of("rw_lock/write_renew").len(), 0);
    drop((short, writing));
}

/// A hold whose lock was forced open learns of it by the same call, and not only at its deadline.
#[tokio::test(start_paused = true)]
async fn a_fixed_read_lease_learns_that_it_was_removed_within_ten_seconds() {
    let Pair { us, them, .. } = pair("keeps_watch");
    let reading = us.rw_lock("x").lease(s(300)).read().await.unwrap();
    assert!(them.rw_lock("x").read_lock().force_unlock().await.unwrap());
    let begun = them.core().now();

    assert_eq!(reading.lost().await, LostReason::Removed);

    let waited = them.core().now().since(begun);
    assert!(waited <= s(10), "{waited:?}");
}

/// A call that fails is tried again soon: Redisson's cut leaves 30 s.
#[tokio::test(start_paused = true)]
async fn a_renewal_of_a_fixed_lease_that_fails_is_tried_again_in_a_second() {
    let Pair { lying, us, them } = pair("keeps_trying");
    let reading = us.rw_lock("x").lease(s(300)).read().await.unwrap();
    lying.next_of(Match::script(RENEW), Lie::Refuse("LOADING"));
    server(&them, JAVA_READS, &[]).await;
    server(&them, JAVA_RENEWS, &[]).await;

    tokio::time::sleep(s(12)).await;

    assert_eq!(renewals(&lying), 2);
    let (lock, hold) = left(&them).await;
    assert_eq!(lock, hold);
    reading.unlock().await.unwrap();
}
