//! What a free fair lock costs behind a head that does not come, and what no call of a fair lock has.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use crate::Client;
use crate::coordination::fair_tests::{
    ACQUIRE, JAVA, assert_nothing_left, attempts, client_now, queues, s, server, waits,
};
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::protocol::call::{Arg, Value};
use crate::testing::lying::{Lying, Reach, Silence};
use crate::testing::scenes::{core, insider, ms};

/// W11: Redisson's waiters spin behind such a head.
#[tokio::test(start_paused = true)]
async fn behind_a_foreign_head_a_free_lock_is_asked_for_no_more_than_three_times_a_second() {
    let (client, lying, _) = insider();
    let java = format!("{JAVA}:1");
    server(
        &client,
        "redis.call('RPUSH', 'redisson_lock_queue:{x}', ARGV[1])",
        &[&java],
    )
    .await;
    let waiters = [waits(&client), waits(&client), waits(&client)];
    tokio::time::sleep(s(1)).await;
    let before = attempts(&lying);

    tokio::time::sleep(s(60)).await;

    let asked = attempts(&lying) - before;
    assert!((60..=180).contains(&asked), "{asked}");
    // It goes: the next one has the lock within half a second.
    server(
        &client,
        "redis.call('DEL', 'redisson_lock_queue:{x}', 'redisson_lock_timeout:{x}')",
        &[],
    )
    .await;
    tokio::time::sleep(ms(600)).await;
    assert!(waiters.iter().any(|waiter| waiter.is_finished()));
}

/// The same behind a waiter of ours whose process has died.
#[tokio::test(start_paused = true)]
async fn behind_a_dead_head_a_free_lock_is_asked_for_no_more_than_three_times_a_second() {
    let client = || {
        let memory = MemoryEngine::open(Some("fair_dead_head"));
        let lying = Lying::over_memory(memory);
        (Client::of(core(lying.clone(), Settings::default())), lying)
    };
    let ((dying, its_network), (us, lying)) = (client(), client());
    let held = us.fair_lock("x").lock().await.unwrap();
    let dead = queues(&dying).await;
    let waiters = [queues(&us).await, queues(&us).await, queues(&us).await];
    tokio::time::sleep(s(3)).await;
    its_network.partition(Reach::All, Silence::NotSent);
    dead.abort();
    held.unlock().await.unwrap();
    let (begun, before) = (client_now(&us), attempts(&lying));

    let [first, second, third] = waiters;
    let first = first.await.unwrap();

    let waited = client_now(&us).since(begun);
    assert!(
        waited > s(1) && waited <= ms(6_250),
        "dead time and one beat: {waited:?}"
    );
    let asked = attempts(&lying) - before;
    let most = 3 * usize::try_from(waited.as_secs()).unwrap();
    assert!((2..=most).contains(&asked), "{asked} in {waited:?}");
    let begun = client_now(&us);
    first.unlock().await.unwrap();
    second.await.unwrap().unlock().await.unwrap();
    third.await.unwrap().unlock().await.unwrap();
    assert!(client_now(&us).since(begun) < ms(10), "full speed");
}

/// The server has sent the message, so no attempt follows the client's own release. If the message is lost all the same,
/// without a gap in the subscription, the next beat finds the lock free.
#[tokio::test(start_paused = true)]
async fn a_message_of_an_own_release_that_is_lost_costs_one_beat_at_most() {
    let (client, lying, _) = insider();
    let held = client.fair_lock("x").lock().await.unwrap();
    let waiter = queues(&client).await;
    tokio::time::sleep(s(2)).await;
    lying.drop_messages(1);
    let (begun, before) = (client_now(&client), attempts(&lying));

    held.unlock().await.unwrap();
    let guard = waiter.await.unwrap();

    let waited = client_now(&client).since(begun);
    assert!(waited > ms(0) && waited <= ms(1_250), "{waited:?}");
    assert_eq!(attempts(&lying) - before, 1);
    guard.unlock().await.unwrap();
    assert_nothing_left(&client).await;
}

fn number(arg: &Arg) -> Option<i64> {
    match arg {
        Arg::Int(number) => Some(*number),
        Arg::Bytes(text) => std::str::from_utf8(text).ok()?.parse().ok(),
    }
}

/// F13: clocks of clients differ. The only time of day in a call is a ticket, which the server gave.
#[tokio::test(start_paused = true)]
async fn no_call_of_a_waiting_and_holding_client_has_its_own_time() {
    let (client, lying, _) = insider();
    let micros = "local t = redis.call('TIME') return t[1] * 1000000 + t[2]";
    let Value::Int(begun) = server(&client, micros, &[]).await else {
        panic!("no number");
    };
    let held = client.fair_lock("x").label("import").lock().await.unwrap();
    let waiters = [queues(&client).await, queues(&client).await];
    let gone = queues(&client).await;
    tokio::time::sleep(s(250)).await;
    gone.abort();
    let again = held.relock().await.unwrap();
    assert_eq!(client.fair_lock("x").holders().await.unwrap().len(), 1);
    again.unlock().await.unwrap();
    held.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap().unlock().await.unwrap();
    }
    let last = client.fair_lock("x").lock().await.unwrap();
    client.fair_lock("x").force_unlock().await.unwrap();
    drop(last);
    let Value::Int(ended) = server(&client, micros, &[]).await else {
        panic!("no number");
    };

    let (mut tickets, mut scripts) = (0, std::collections::BTreeSet::new());
    for call in lying.log() {
        scripts.insert(call.script);
        for (nth, arg) in call.args.iter().enumerate() {
            let Some(number) = number(arg).filter(|number| *number > 100_000_000_000) else {
                continue;
            };
            let is_ticket = call.script == ACQUIRE && nth == 3;
            assert!(is_ticket, "argument {nth} of {}: {number}", call.script);
            assert!((begun..=ended).contains(&number), "{number}");
            tickets += 1;
        }
    }
    assert!(tickets > 100, "{tickets}");
    for script in [
        "fair_lock/acquire",
        "fair_lock/release",
        "fair_lock/leave",
        "fair_lock/force_unlock",
        "lock/renew",
        "lock/reenter",
        "lock/inspect",
    ] {
        assert!(scripts.contains(script), "{script} of {scripts:?}");
    }
}
