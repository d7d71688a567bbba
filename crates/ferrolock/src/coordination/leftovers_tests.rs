//! What is left of holds and of clients when all is over: nothing, also when the server never answered again.
#![allow(clippy::panic, reason = "test code: a failure ends the test")]

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::coordination::Core;
use crate::testing::census::Census;
use crate::testing::lying::{Lie, Match, Reach, Silence};
use crate::testing::scenes::liar;
use crate::{Client, ErrorKind, Guard, Owner};

const RELEASE: &str = "lock/release";

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Nothing of the client is left, and after its last handle not the client itself.
async fn leaves_nothing(client: Client, what: &str) {
    let core: Weak<Core> = Arc::downgrade(client.core());
    assert_eq!(client.core().census(), Census::default(), "{what}");
    drop(client);
    tokio::time::sleep(s(1)).await;
    assert_eq!(core.strong_count(), 0, "{what}");
}

#[tokio::test(start_paused = true)]
async fn guards_given_back_in_an_outage_longer_than_their_lease_leave_nothing() {
    for silence in [Silence::NotSent, Silence::Hang] {
        let (client, engine) = liar();
        let mut guards: Vec<Guard> = Vec::new();
        for name in ["dropped", "unlocked", "left", "inner"] {
            guards.push(client.lock(name).lease(s(20)).lock().await.unwrap());
        }
        let inner = guards[3].relock().await.unwrap();
        engine.partition(Reach::All, silence);
        drop(inner);
        drop(guards.remove(0));
        let error = guards.remove(0).unlock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        let error = guards.remove(0).unlock_after(s(20)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        drop(guards);

        tokio::time::sleep(s(60)).await;

        leaves_nothing(client, &format!("{silence:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lock_future_dropped_in_an_outage_leaves_nothing() {
    let (client, engine) = liar();
    engine.next_of(Match::script("lock/acquire"), Lie::DropReply);
    engine.always(Match::script(RELEASE), Lie::DropCall);
    let error = client.lock("x").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);

    tokio::time::sleep(s(70)).await;

    leaves_nothing(client, "two leases later").await;
}

#[tokio::test(start_paused = true)]
async fn a_guard_dropped_after_the_shutdown_leaves_nothing() {
    let (client, _engine) = liar();
    let guard = client.lock("x").lease(s(3600)).lock().await.unwrap();
    let error = client.shutdown(s(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Closed);
    tokio::time::sleep(s(10)).await;

    drop(guard);
    tokio::time::sleep(s(1)).await;

    leaves_nothing(client, "after the shutdown").await;
}

/// Debts are retried after the last handle of their client is dropped, but not for hours.
#[tokio::test(start_paused = true)]
async fn debts_are_retried_for_a_minute_after_the_last_handle_is_dropped() {
    let (client, engine) = liar();
    let core = Arc::downgrade(client.core());
    let guard = client.lock("x").lease(s(3600)).lock().await.unwrap();
    engine.partition(Reach::All, Silence::NotSent);
    drop(guard);
    drop(client);

    tokio::time::sleep(s(59)).await;
    assert_ne!(core.strong_count(), 0);
    tokio::time::sleep(s(2)).await;

    assert_eq!(core.strong_count(), 0);
}

/// A partial release that is refused for longer than the lease, while the outer hold is renewed.
#[tokio::test(start_paused = true)]
async fn a_release_is_owed_as_long_as_the_tenure_goes_on() {
    let (client, engine) = liar();
    let owner = Owner::new();
    let lock = client.lock("x").owned_by(&owner);
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    engine.always(Match::script(RELEASE), Lie::Refuse("OOM"));
    drop(inner);
    tokio::time::sleep(s(200)).await;
    assert!(outer.is_held());
    assert_eq!(lock.holders().await.unwrap()[0].count, 2);

    engine.honest();
    tokio::time::sleep(s(10)).await;

    assert_eq!(lock.holders().await.unwrap()[0].count, 1);
    outer.unlock().await.unwrap();
    drop(lock);
    leaves_nothing(client, "all is given back").await;
}

#[tokio::test(start_paused = true)]
async fn however_long_the_lease_a_refused_release_is_tried_every_ten_seconds() {
    let (client, engine) = liar();
    let guard = client.lock("x").lease(s(3600)).lock().await.unwrap();
    engine.always(Match::script(RELEASE), Lie::Refuse("OOM"));
    drop(guard);
    tokio::time::sleep(s(120)).await;

    engine.honest();
    tokio::time::sleep(s(10)).await;

    assert!(!client.lock("x").is_locked().await.unwrap());
}

/// Delivered after the first releases of its field, and long before the next one on the schedule.
#[tokio::test(start_paused = true)]
async fn a_new_connection_brings_the_release_of_a_late_acquire_forward() {
    let (client, engine) = liar();
    engine.next_of(Match::script("lock/acquire"), Lie::Late(s(15)));
    let lock = client.lock("x").lease(s(3600));
    assert!(lock.try_lock().await.is_err());
    tokio::time::sleep(s(16)).await;
    assert!(lock.is_locked().await.unwrap());

    engine.partition(Reach::All, Silence::NotSent);
    tokio::time::sleep(s(1)).await;
    engine.heal();
    tokio::time::sleep(Duration::from_millis(1)).await;

    assert!(!lock.is_locked().await.unwrap());
}

/// It has a copy of the guard, but the connections are the parent's.
#[tokio::test(start_paused = true)]
async fn a_forked_child_gives_nothing_back() {
    let (client, engine) = liar();
    let mut guards = Vec::new();
    for name in ["dropped", "unlocked", "left", "parent's"] {
        guards.push(client.lock(name).lock().await.unwrap());
    }
    let parents = guards.pop().unwrap();
    super::process::fork(Some(1));

    let left = guards.pop().unwrap().unlock_after(s(1)).await.unwrap_err();
    let unlocked = guards.pop().unwrap().unlock().await.unwrap_err();
    drop(guards);

    assert_eq!(left.kind(), ErrorKind::Closed, "{left}");
    assert_eq!(unlocked.kind(), ErrorKind::Closed, "{unlocked}");
    tokio::time::sleep(s(5)).await;
    assert_eq!(engine.log_of(RELEASE).len(), 0);
    super::process::fork(None);
    for name in ["dropped", "unlocked", "left"] {
        assert!(client.lock(name).is_locked().await.unwrap(), "{name}");
    }
    parents.unlock().await.unwrap();
}
