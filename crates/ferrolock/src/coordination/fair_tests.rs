//! The fair lock through the machinery, over an engine that lies: places, wakes that come late or to no waiter, and leaving.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::engine::Lane;
use crate::kind::Fair;
use crate::protocol::call::{Arg, Call, Form, Script, Value};
use crate::testing::lying::{Lie, Lying, Match, Reach, Silence};
use crate::testing::scenes::{Pair, insider, ms, pair};
use crate::{Client, ErrorKind, Guard, Owner};

pub(super) const ACQUIRE: &str = "fair_lock/acquire";
const LEAVE: &str = "fair_lock/leave";
pub(super) const JAVA: &str = "cccccccc-cccc-4ccc-cccc-cccccccccccc";

pub(super) type Waiter = tokio::task::JoinHandle<Guard<Fair>>;

pub(super) fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Starts a task that waits for it.
pub(super) fn waits(client: &Client) -> Waiter {
    let lock = client.fair_lock("x").lock();
    tokio::spawn(async move { lock.await.unwrap() })
}

/// The same; returns when it is in the queue.
pub(super) async fn queues(client: &Client) -> Waiter {
    let before = queue(client).await.len();
    let waiter = waits(client);
    while queue(client).await.len() == before {
        tokio::time::sleep(ms(1)).await;
    }
    waiter
}

/// Runs a script on the server under that client.
pub(super) async fn server(client: &Client, source: &'static str, args: &[&str]) -> Value {
    let script = Box::leak(Box::new(Script::new("test", source)));
    let call = Call {
        script,
        keys: smallvec::smallvec!["x".into()],
        args: args
            .iter()
            .map(|arg| Arg::Bytes(arg.as_bytes().into()))
            .collect(),
        form: Form::default(),
    };
    client.core().engine.call(Lane::Keeper, call).await.unwrap()
}

pub(super) async fn queue(client: &Client) -> Vec<String> {
    let source = "return redis.call('LRANGE', 'redisson_lock_queue:{x}', 0, -1)";
    let Value::List(items) = server(client, source, &[]).await else {
        panic!("no list");
    };
    let text = |item| match item {
        Value::Bytes(bytes) => String::from_utf8(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    items.into_iter().map(text).collect()
}

/// Nothing is left of any waiter or holder.
pub(super) async fn assert_nothing_left(client: &Client) {
    let source = "return redis.call('EXISTS', 'x', 'redisson_lock_queue:{x}', 'redisson_lock_timeout:{x}', 'ferrolock_fair_waiters:{x}')";
    assert_eq!(server(client, source, &[]).await, Value::Int(0));
}

async fn publish(client: &Client, number: u64) {
    let inbox = format!("ferrolock_fair_inbox:{{x}}:{}", client.id());
    let source = "return redis.call('PUBLISH', ARGV[1], ARGV[2])";
    server(client, source, &[&inbox, &number.to_string()]).await;
}

pub(super) fn attempts(lying: &Lying) -> usize {
    lying.log_of(ACQUIRE).len()
}

#[tokio::test(start_paused = true)]
async fn waiters_of_all_clients_are_served_in_the_order_in_which_they_came() {
    let Pair { us, them, .. } = pair("fair_order");
    let mut held = us.fair_lock("x").lock().await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut waiters = Vec::new();
    for number in 0..20 {
        let client = if number % 3 == 0 { &us } else { &them };
        waiters.push(queues(client).await);
    }
    let begun = client_now(&us);
    for (number, waiter) in (0..).zip(waiters) {
        held.unlock().await.unwrap();
        held = waiter.await.unwrap();
        served.lock().unwrap().push(number);
    }
    assert_eq!(*served.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert!(
        client_now(&us).since(begun) < ms(20),
        "by messages, not by polls"
    );
    held.unlock().await.unwrap();
    tokio::time::sleep(s(1)).await;
    assert_nothing_left(&us).await;
}

pub(super) fn client_now(client: &Client) -> crate::engine::Tick {
    client.core().now()
}

/// Enqueue, take, release: a message to the first in the queue, and no attempt of any other.
#[tokio::test(start_paused = true)]
async fn a_contended_acquisition_costs_three_scripts() {
    let Pair { lying, us, them } = pair("fair_cost");
    let mut held = them.fair_lock("x").lock().await.unwrap();
    let mut waiters = Vec::new();
    for number in 0..40 {
        let client = if number % 2 == 0 { &us } else { &them };
        waiters.push(queues(client).await);
    }
    for waiter in waiters {
        held.unlock().await.unwrap();
        held = waiter.await.unwrap();
    }
    held.unlock().await.unwrap();

    let ours = lying.log().into_iter();
    let scripts = ours.filter(|seen| seen.script.starts_with("fair_lock/"));
    let scripts = scripts.count();
    // Twenty of ours; one more attempt after the subscription.
    assert!(scripts <= 62, "{scripts}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_dropped_at_any_point_leaves_no_entry() {
    for is_held in [false, true] {
        for polls in 0..30 {
            let Pair { us, them, .. } = pair("fair_drop");
            let held = them.fair_lock("x").lock().await.unwrap();
            let held = is_held.then_some(held);
            let dropped = testkit::drop_after_polls(polls, us.fair_lock("x").lock());
            let outcome = tokio::time::timeout(s(3), dropped).await;
            drop(outcome);
            drop(held);
            tokio::time::sleep(s(2)).await;

            assert_nothing_left(&us).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_aborted_or_runs_out_of_time_leaves_no_entry_and_the_next_is_served() {
    let Pair { us, them, .. } = pair("fair_abort");
    let held = them.fair_lock("x").lock().await.unwrap();
    let aborted = queues(&us).await;
    let timed = us.fair_lock("x").try_lock_for(s(3));
    let timed = tokio::spawn(timed);
    let last = queues(&them).await;
    assert_eq!(queue(&us).await.len(), 3);

    aborted.abort();
    assert!(timed.await.unwrap().unwrap().is_none());
    tokio::time::sleep(ms(100)).await;
    assert_eq!(queue(&us).await.len(), 1);
    held.unlock().await.unwrap();
    last.await.unwrap().unlock().await.unwrap();
    assert_nothing_left(&us).await;
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_its_attempts_a_waiter_has_one_place_and_gets_the_lock() {
    for lie in [
        Lie::NotSent,
        Lie::DropCall,
        Lie::DropReply,
        Lie::Late(ms(700)),
        Lie::DelayReply(ms(700)),
        Lie::Repeat,
        Lie::Refuse("LOADING"),
    ] {
        for nth in 0..3 {
            let Pair { lying, us, them } = pair("fair_lies");
            let held = them.fair_lock("x").lock().await.unwrap();
            for _ in 0..nth {
                lying.next_of(Match::script(ACQUIRE), Lie::DelayReply(ms(1)));
            }
            lying.next_of(Match::script(ACQUIRE), lie.clone());
            let waiter = waits(&us);
            tokio::time::sleep(s(3)).await;
            assert_eq!(queue(&us).await.len(), 1, "{lie:?} {nth}");

            held.unlock().await.unwrap();
            waiter.await.unwrap().unlock().await.unwrap();
            tokio::time::sleep(s(90)).await;
            assert_nothing_left(&us).await;
        }
    }
}

/// F7: a late duplicate of its wake, answered by leaving, would release the lock of the holder.
#[tokio::test(start_paused = true)]
async fn a_late_wake_for_a_waiter_that_holds_is_ignored() {
    let (client, lying, _) = insider();
    let first = client.fair_lock("x").lock().await.unwrap();
    let second = queues(&client).await;
    let third = queues(&client).await;
    first.unlock().await.unwrap();
    let second = second.await.unwrap();
    let before = (attempts(&lying), lying.log_of(LEAVE).len());

    publish(&client, second.owner_id().number()).await;
    tokio::time::sleep(ms(100)).await;

    assert_eq!((attempts(&lying), lying.log_of(LEAVE).len()), before);
    second.check().await.unwrap();
    assert!(!third.is_finished());
}

/// F10: a cancelled waiter whose leave was lost is kept alive by its process.
#[tokio::test(start_paused = true)]
async fn an_entry_of_this_client_that_no_call_knows_is_left_when_it_is_woken_or_at_the_head() {
    let put = "redis.call('RPUSH', 'redisson_lock_queue:{x}', ARGV[1]) redis.call('ZADD', 'redisson_lock_timeout:{x}', 9e15, ARGV[1])";
    let (client, lying, _) = insider();
    let orphan = |number| format!("{}:{number}", client.id());
    let held = client.fair_lock("x").lock().await.unwrap();
    server(&client, put, &[&orphan(998)]).await;
    let waiter = waits(&client);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(queue(&client).await.len(), 1, "the one at the head is left");

    server(&client, put, &[&orphan(999)]).await;
    assert_eq!(queue(&client).await.len(), 2);
    publish(&client, 999).await;
    tokio::time::sleep(ms(100)).await;

    assert_eq!(queue(&client).await.len(), 1);
    // Two attempts may have found the same one before it was left.
    assert!((2..=4).contains(&lying.log_of(LEAVE).len()));
    held.unlock().await.unwrap();
    waiter.await.unwrap().unlock().await.unwrap();
    assert_nothing_left(&client).await;
}

/// Redisson tells a head of ours on the waiter's own channel.
#[tokio::test(start_paused = true)]
async fn a_foreign_holder_wakes_the_first_waiter_on_its_own_channel() {
    let (client, _, core) = insider();
    let java = format!("{JAVA}:1");
    server(
        &client,
        "redis.call('HSET', 'x', ARGV[1], 1) redis.call('PEXPIRE', 'x', 300000)",
        &[&java],
    )
    .await;
    let waiter = queues(&client).await;
    tokio::time::sleep(ms(900)).await;
    let head = queue(&client).await.remove(0);
    let begun = core.now();

    let channel = format!("redisson_lock__channel:{{x}}:{head}");
    let heard = server(
        &client,
        "redis.call('DEL', 'x') return redis.call('PUBLISH', ARGV[1], '0')",
        &[&channel],
    )
    .await;

    assert_eq!(heard, Value::Int(1));
    let guard = waiter.await.unwrap();
    assert!(core.now().since(begun) < ms(5));
    // It listens no longer when it holds.
    tokio::time::sleep(ms(5)).await;
    let heard = server(
        &client,
        "return redis.call('PUBLISH', ARGV[1], '0')",
        &[&channel],
    )
    .await;
    assert_eq!(heard, Value::Int(0));
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn waiters_of_a_silent_process_are_skipped_and_have_their_places_again_when_it_is_back() {
    let Pair { lying, us, them } = pair("fair_silent");
    let held = them.fair_lock("x").lock().await.unwrap();
    let ours = [queues(&us).await, queues(&us).await];
    let theirs = [queues(&them).await, queues(&them).await];
    tokio::time::sleep(s(10)).await;
    lying.partition(Reach::All, Silence::NotSent);
    held.unlock().await.unwrap();
    let begun = client_now(&them);

    let [third, fourth] = theirs;
    let third = third.await.unwrap();
    let waited = client_now(&them).since(begun);
    assert!(waited <= ms(6_300), "dead time and one beat: {waited:?}");
    assert_eq!(queue(&them).await.len(), 1);

    lying.heal();
    tokio::time::sleep(s(1)).await;
    // Both are before the one that came after them.
    assert_eq!(queue(&them).await.len(), 3);
    third.unlock().await.unwrap();
    for waiter in ours {
        waiter.await.unwrap().unlock().await.unwrap();
    }
    fourth.await.unwrap().unlock().await.unwrap();
    tokio::time::sleep(s(1)).await;
    assert_nothing_left(&them).await;
}

#[tokio::test(start_paused = true)]
async fn after_lost_data_the_waiters_of_a_client_keep_their_order() {
    let (client, lying, _) = insider();
    let held = client.fair_lock("x").lock().await.unwrap();
    let waiters = [
        queues(&client).await,
        queues(&client).await,
        queues(&client).await,
    ];
    let before = queue(&client).await;
    drop(held);
    lying.forget();
    server(
        &client,
        "redis.call('HSET', 'x', ARGV[1], 1) redis.call('PEXPIRE', 'x', 5000)",
        &["other:1"],
    )
    .await;
    tokio::time::sleep(s(2)).await;

    assert_eq!(queue(&client).await, before);
    for waiter in waiters {
        waiter.await.unwrap().unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_offer_that_is_not_taken_goes_to_the_next_and_its_caller_to_the_end() {
    let Pair { us, them, .. } = pair("fair_withdrawn");
    let held = them.fair_lock("x").lock().await.unwrap();
    let mut sleepy = Box::pin(us.fair_lock("x").lock());
    assert!(testkit::poll_once(sleepy.as_mut()).is_pending());
    tokio::time::sleep(ms(100)).await;
    assert!(testkit::poll_once(sleepy.as_mut()).is_pending());
    tokio::time::sleep(ms(100)).await;
    let next = queues(&them).await;

    held.unlock().await.unwrap();
    let next = next.await.unwrap();
    let sleepy = tokio::spawn(sleepy);
    tokio::time::sleep(ms(100)).await;
    assert_eq!(queue(&us).await.len(), 1);
    next.unlock().await.unwrap();
    sleepy.await.unwrap().unwrap().unlock().await.unwrap();
    tokio::time::sleep(s(1)).await;
    assert_nothing_left(&us).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_enters_again_and_a_second_waiter_of_it_leaves_its_place() {
    let Pair { us, them, .. } = pair("fair_owner");
    let (owner, held) = (Owner::new(), them.fair_lock("x").lock().await.unwrap());
    let lock = us.fair_lock("x").owned_by(&owner);
    let two = [tokio::spawn(lock.lock()), tokio::spawn(lock.lock())];
    while queue(&us).await.len() < 2 {
        tokio::time::sleep(ms(1)).await;
    }
    held.unlock().await.unwrap();
    for waiter in two {
        std::mem::forget(waiter.await.unwrap().unwrap());
    }
    tokio::time::sleep(ms(10)).await;

    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    assert_eq!(queue(&us).await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_non_reentrant_fair_lock_refuses_the_same_owner() {
    let (client, _, _) = insider();
    let lock = client
        .fair_lock("x")
        .non_reentrant()
        .owned_by(&Owner::new());
    let guard = lock.lock().await.unwrap();

    let error = lock.lock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
    guard.unlock().await.unwrap();
    assert_nothing_left(&client).await;
}

#[tokio::test(start_paused = true)]
async fn a_try_takes_no_place_and_overtakes_no_waiter() {
    let Pair { us, them, .. } = pair("fair_try");
    let held = them.fair_lock("x").lock().await.unwrap();
    let waiter = queues(&them).await;
    assert!(us.fair_lock("x").try_lock().await.unwrap().is_none());
    assert_eq!(queue(&us).await.len(), 1);
    held.unlock().await.unwrap();
    let held = waiter.await.unwrap();
    held.unlock().await.unwrap();

    assert!(us.fair_lock("x").try_lock().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_last_handle_of_a_client_leaves_no_place_behind() {
    let Pair { us, them, .. } = pair("fair_last");
    let held = them.fair_lock("x").lock().await.unwrap();
    let waiter = queues(&us).await;
    waiter.abort();
    drop(us);
    tokio::time::sleep(s(1)).await;

    assert_eq!(queue(&them).await.len(), 0);
    held.unlock().await.unwrap();
    assert_nothing_left(&them).await;
}
