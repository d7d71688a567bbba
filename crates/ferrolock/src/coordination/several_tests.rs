//! A kind that is very different from the plain lock, through every part of the machinery: nothing outside its own files
//! knows it, except its row in `scheme_of`.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::kind::Plain;
use crate::protocol::several::Several;
use crate::testing::lying::{Lie, Lying, Match, Reach, Silence};
use crate::testing::scenes::{Pair, insider, ms, pair};
use crate::{Client, Guard, Lock, LostReason, Unlocked};

const ACQUIRE: &str = "several/acquire";
const RELEASE: &str = "several/release";

fn several(client: &Client) -> Lock {
    Lock::of_scheme(client.alive().clone(), "x", |name| {
        Ok(Arc::new(Several::new(name)))
    })
}

/// Starts a task that waits for it; returns when it is in the server's queue.
async fn waiter(client: &Client, lying: &Lying) -> tokio::task::JoinHandle<Guard<Plain>> {
    let before = lying.log_of(ACQUIRE).len();
    let lock = several(client);
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    // Its first attempt, and the one after its subscription.
    let attempts = if before < 3 { 2 } else { 1 };
    lying.seen(ACQUIRE, before + attempts).await;
    // The answer comes with the next step of this runtime.
    tokio::time::sleep(ms(1)).await;
    waiting
}

async fn queue(client: &Client) -> usize {
    let keys = client.core().engine.clone();
    let call = crate::protocol::several::queue_length("x".into());
    match keys.call(crate::engine::Lane::Commands, call).await {
        Ok(crate::protocol::call::Value::Int(length)) => usize::try_from(length).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn another_kind_is_acquired_waited_for_renewed_lost_and_released() {
    let (client, lying, core) = insider();
    let first = several(&client).lock().await.unwrap();
    let second = several(&client).lock().await.unwrap();
    assert_eq!(second.granted_fence().unwrap().get(), 2);
    assert!(several(&client).try_lock().await.unwrap().is_none());
    let third = waiter(&client, &lying).await;

    // No poll comes within the first minute: the message does.
    let before = core.now();
    assert_eq!(first.unlock().await.unwrap(), Unlocked::Released);
    let third = third.await.unwrap();
    assert!(core.now().since(before) < ms(10));

    // Ten leases later both are held.
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(second.is_held() && third.is_held());
    third.check().await.unwrap();

    assert!(several(&client).force_unlock().await.unwrap());
    assert_eq!(third.lost().await, LostReason::Removed);
    assert_eq!(second.lost().await, LostReason::Removed);
    drop((second, third));
    assert!(several(&client).lock().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn two_kinds_on_one_name_and_one_channel_both_wake() {
    let (client, lying, core) = insider();
    let (one, two) = (several(&client), several(&client));
    let (one, two) = (one.lock().await.unwrap(), two.lock().await.unwrap());
    let other_kind = waiter(&client, &lying).await;
    let plain = client.lock("x");
    let plain = tokio::spawn(async move { plain.lock().await.unwrap() });
    lying.seen("lock/acquire", 2).await;
    tokio::time::sleep(ms(1)).await;

    let before = core.now();
    one.unlock().await.unwrap();
    two.unlock().await.unwrap();
    let other_kind = other_kind.await.unwrap();
    other_kind.unlock().await.unwrap();
    let plain = plain.await.unwrap();

    assert!(plain.is_held());
    assert!(core.now().since(before) < ms(20), "a poll, not a message");
}

#[tokio::test(start_paused = true)]
async fn waiters_of_all_clients_are_served_in_the_servers_order() {
    let Pair { lying, us, them } = pair("several_order");
    let held = [
        several(&them).lock().await.unwrap(),
        several(&them).lock().await.unwrap(),
    ];
    let ours = waiter(&us, &lying).await;
    let lock = several(&them);
    let theirs = tokio::spawn(async move { lock.lock().await.unwrap() });
    while queue(&them).await < 2 {
        tokio::time::sleep(ms(1)).await;
    }
    let ours_too = waiter(&us, &lying).await;
    assert_eq!(queue(&us).await, 3);

    let [one, two] = held;
    one.unlock().await.unwrap();
    let ours = ours.await.unwrap();
    assert!(!theirs.is_finished() && !ours_too.is_finished());
    two.unlock().await.unwrap();
    let theirs = theirs.await.unwrap();
    assert!(!ours_too.is_finished());
    ours.unlock().await.unwrap();
    ours_too.await.unwrap().unlock().await.unwrap();
    theirs.unlock().await.unwrap();
    assert_eq!(queue(&us).await, 0);
}

/// One release frees both places of a client whose connection was away: the second waiter does not wait for a poll.
#[tokio::test(start_paused = true)]
async fn with_room_for_more_the_next_waiter_gets_in_at_once() {
    let (client, lying, core) = insider();
    let held = [
        several(&client).lock().await.unwrap(),
        several(&client).lock().await.unwrap(),
    ];
    let waiters = [waiter(&client, &lying).await, waiter(&client, &lying).await];

    // The message of the second release is lost.
    let before = core.now();
    let [one, two] = held;
    lying.next_of(Match::script(ACQUIRE), Lie::DelayCall(ms(50)));
    one.unlock().await.unwrap();
    lying.drop_messages(1);
    two.unlock().await.unwrap();

    for waiter in waiters {
        assert!(waiter.await.unwrap().is_held());
    }
    assert!(core.now().since(before) < ms(200));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_leaves_no_place_behind() {
    let (client, lying, _) = insider();
    let held = [
        several(&client).lock().await.unwrap(),
        several(&client).lock().await.unwrap(),
    ];
    let waiting = waiter(&client, &lying).await;
    assert_eq!(queue(&client).await, 1);

    waiting.abort();
    lying.seen(RELEASE, 1).await;

    tokio::time::sleep(ms(10)).await;
    assert_eq!(queue(&client).await, 0);
    assert!(held.iter().all(Guard::is_held));
    // Every attempt was answered: one release is enough.
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(lying.log_of(RELEASE).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_is_repeated_under_the_same_field() {
    let (client, lying, _) = insider();
    let held = [
        several(&client).lock().await.unwrap(),
        several(&client).lock().await.unwrap(),
    ];
    lying.next_of(Match::script(ACQUIRE), Lie::DropReply);
    let waiting = waiter(&client, &lying).await;
    while lying.log_of(ACQUIRE).len() < 5 {
        tokio::time::sleep(ms(10)).await;
    }

    assert_eq!(queue(&client).await, 1);
    let [one, two] = held;
    one.unlock().await.unwrap();
    two.unlock().await.unwrap();
    waiting.await.unwrap().unlock().await.unwrap();
    // The two holds and the third, and then its field again: the attempt without an answer may still run, for two leases.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(lying.log_of(RELEASE).len() > 3);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let released = lying.log_of(RELEASE).len();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(lying.log_of(RELEASE).len(), released);
}

/// Its field was released, and then the attempt without an answer ran after all.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_after_the_release_of_its_tenure_leaves_nothing() {
    let (client, lying, _) = insider();
    lying.next_of(Match::script(ACQUIRE), Lie::Late(Duration::from_secs(20)));
    let guard = several(&client).lock().await.unwrap();
    guard.unlock().await.unwrap();

    tokio::time::sleep(Duration::from_secs(31)).await;

    let held = several(&client).holders().await.unwrap();
    assert!(held.is_empty(), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_goes_while_its_attempt_has_no_answer_is_released_for_two_leases() {
    let (client, lying, _) = insider();
    let held = [
        several(&client).lock().await.unwrap(),
        several(&client).lock().await.unwrap(),
    ];
    lying.next_of(
        Match::script(ACQUIRE),
        Lie::DelayCall(Duration::from_secs(2)),
    );
    let lock = several(&client);
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap() });
    lying.seen(ACQUIRE, 3).await;

    waiting.abort();

    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(queue(&client).await, 0);
    assert!(held.iter().all(Guard::is_held));
}

/// The reply to the first attempt is lost; the second one, under the same field, is granted two thirds of a lease later.
#[tokio::test(start_paused = true)]
async fn a_repeated_attempt_has_the_lease_that_its_guard_shows() {
    let Pair { lying, us, them } = pair("several_lease");
    lying.next_of(Match::script(ACQUIRE), Lie::DropReply);
    let lock = several(&us).lease(Duration::from_secs(3));
    let waits = tokio::spawn(async move { lock.lock().await.unwrap() });
    lying.seen(ACQUIRE, 1).await;
    lying.partition(Reach::All, Silence::NotSent);
    tokio::time::sleep(Duration::from_secs(2)).await;
    lying.heal();
    let guard = waits.await.unwrap();

    tokio::time::sleep(ms(1500)).await;

    let others = [
        several(&them).try_lock().await.unwrap(),
        several(&them).try_lock().await.unwrap(),
    ];
    assert!(guard.is_held());
    assert_eq!(others.iter().flatten().count(), 1, "there is room for two");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_after_the_release_of_a_later_one_is_released_too() {
    let Pair { lying, us, them } = pair("several_late_hold");
    lying.next_of(Match::script(ACQUIRE), Lie::Late(Duration::from_secs(2)));
    let guard = several(&us).lock().await.unwrap();

    guard.unlock().await.unwrap();
    tokio::time::sleep(Duration::from_secs(12)).await;

    assert!(!several(&them).is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_runs_after_its_waiter_has_left_leaves_no_place() {
    let Pair { lying, us, them } = pair("several_late_place");
    let _held = [
        several(&them).lock().await.unwrap(),
        several(&them).lock().await.unwrap(),
    ];
    lying.next_of(Match::script(ACQUIRE), Lie::Late(Duration::from_secs(2)));
    let lock = several(&us);
    let waits = tokio::spawn(async move { lock.lock().await.unwrap() });
    lying.seen(ACQUIRE, 2).await;
    tokio::time::sleep(ms(100)).await;
    assert_eq!(queue(&them).await, 1);

    waits.abort();

    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(queue(&them).await, 0);
}

/// The answer, busy with a place, comes when the last handle has handed the attempt over.
#[tokio::test(start_paused = true)]
async fn the_place_of_a_client_that_has_gone_is_given_back() {
    let Pair { lying, us, them } = pair("several_gone");
    let _held = [
        several(&them).lock().await.unwrap(),
        several(&them).lock().await.unwrap(),
    ];
    lying.next_of(Match::script(ACQUIRE), Lie::DelayCall(ms(55)));
    let mut waits = Box::pin(several(&us).lock());
    assert!(testkit::poll_once(waits.as_mut()).is_pending());

    drop(waits);
    drop(us);

    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(queue(&them).await, 0);
}
