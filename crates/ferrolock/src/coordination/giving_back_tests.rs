//! Holds that are given back while the network is in trouble: what is still owed, for how long, and what is left of it.
#![allow(clippy::panic, reason = "test code: a failure ends the test")]

use std::time::Duration;

use crate::coordination::unpoisoned;
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::protocol::lock::PlainScheme;
use crate::protocol::scheme::Scheme;
use crate::testing::lying::{Lie, Lying, Match, Reach, Silence};
use crate::testing::scenes::{core, insider, ms};
use crate::{Client, ErrorKind, Owner, Remaining, Unlocked};

const RELEASE: &str = "lock/release";

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn left(client: &Client, name: &str) -> Duration {
    match client.lock(name).remaining().await {
        Ok(Remaining::Left(left)) => left,
        other => panic!("{name}: {other:?}"),
    }
}

/// With the last hold, whatever becomes of the release of another one just before.
#[tokio::test(start_paused = true)]
async fn a_name_stays_taken_though_an_inner_hold_was_just_dropped() {
    let lies = [
        None,
        Some(Lie::DelayCall(ms(100))),
        Some(Lie::DelayReply(ms(100))),
        Some(Lie::DropCall),
        Some(Lie::DropReply),
        Some(Lie::Refuse("LOADING")),
    ];
    for lie in lies {
        let (client, engine, _) = insider();
        let outer = client.lock("x").lock().await.unwrap();
        let inner = outer.relock().await.unwrap();
        if let Some(lie) = &lie {
            engine.next_of(Match::script(RELEASE), lie.clone());
        }
        drop(inner);

        outer.unlock_after(s(300)).await.unwrap();

        assert!(left(&client, "x").await > s(299), "{lie:?}");
        tokio::time::sleep(s(298)).await;
        assert!(client.lock("x").try_lock().await.unwrap().is_none());
        tokio::time::sleep(s(3)).await;
        assert!(client.lock("x").try_lock().await.unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_after_that_is_dropped_while_it_settles_gives_back() {
    let (client, engine, _) = insider();
    let outer = client.lock("x").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    engine.next_of(Match::script(RELEASE), Lie::Hang);
    drop(inner);
    engine.seen(RELEASE, 1).await;

    assert!(
        testkit::drop_after_polls(1, outer.unlock_after(s(300)))
            .await
            .finished()
            .is_none()
    );

    engine.release();
    tokio::time::sleep(s(1)).await;
    assert!(!client.lock("x").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn an_unlock_after_without_an_answer_says_so_and_gives_back() {
    let (client, engine, _) = insider();
    let outer = client.lock("x").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    engine.partition(Reach::All, Silence::NotSent);
    drop(inner);

    let error = outer.unlock_after(s(300)).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Unreachable);
    engine.heal();
    tokio::time::sleep(s(1)).await;
    assert!(!client.lock("x").is_locked().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_has_the_margin_of_the_lease_it_asks_for() {
    let (client, _, _) = insider();
    let short = client.lock("short").lease(ms(200)).lock().await.unwrap();
    short.renew(s(3600)).await.unwrap();
    assert_eq!(short.remaining(), s(3600 - 180));
    assert_eq!(left(&client, "short").await, s(3600));

    let long = client.lock("long").lease(s(3600)).lock().await.unwrap();
    tokio::time::sleep(s(3600 - 181)).await;
    long.renew(s(60)).await.unwrap();
    assert_eq!(long.remaining(), s(57));
}

/// After another hold has gone, the server keeps the lock for the time that was promised to this one.
#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_outlives_a_partial_release() {
    let (client, _, _) = insider();
    let outer = client.lock("x").lease(s(3600)).lock().await.unwrap();
    tokio::time::sleep(s(3600 - 181)).await;
    outer.renew(s(600)).await.unwrap();
    let inner = outer.relock().await.unwrap();

    assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));

    assert!(left(&client, "x").await >= outer.remaining() + s(30));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_by_hand_that_leaves_no_room_for_the_margin_is_invalid() {
    let engine = Lying::over_memory(MemoryEngine::open(None));
    let settings = Settings {
        safety_margin: Some(s(15)),
        ..Settings::default()
    };
    let client = Client::of(core(engine.clone(), settings));
    let guard = client.lock("x").lock().await.unwrap();

    let error = guard.renew(s(20)).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(engine.log_of("lock/renew").len(), 0);
}

/// The longest lease that the server was asked for counts, by any hold and whether it was answered or not.
#[tokio::test(start_paused = true)]
async fn a_release_is_owed_until_the_server_ends_it() {
    for case in ["inner lease", "renewal by hand", "inner lease, unknown"] {
        let (client, engine, _) = insider();
        let owner = Owner::new();
        let lock = client.lock("x").owned_by(&owner);
        let outer = lock.clone().lease(s(2)).lock().await.unwrap();
        match case {
            "renewal by hand" => outer.renew(s(60)).await.unwrap(),
            "inner lease" => {
                let inner = lock.clone().lease(s(60)).lock().await.unwrap();
                inner.unlock().await.unwrap();
            }
            _ => {
                engine.next_of(Match::script("lock/reenter"), Lie::DropReply);
                let inner = lock.clone().lease(s(60));
                let polled = testkit::drop_after_polls(1, inner.lock()).await;
                assert!(polled.finished().is_none());
                tokio::time::sleep(ms(200)).await;
            }
        }
        engine.partition(Reach::All, Silence::NotSent);
        drop(outer);
        tokio::time::sleep(s(40)).await;

        engine.heal();
        tokio::time::sleep(ms(1)).await;

        assert!(!client.lock("x").is_locked().await.unwrap(), "{case}");
    }
}
/// The server answered, and said no.
#[tokio::test(start_paused = true)]
async fn an_unlock_that_is_refused_again_and_again_says_so() {
    for code in ["OOM", "MISCONF", "READONLY", "LOADING"] {
        let (client, engine, _) = insider();
        let guard = client.lock("x").lock().await.unwrap();
        engine.always(Match::script(RELEASE), Lie::Refuse(code));

        let error = guard.unlock().await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert_eq!(error.code(), Some(code), "{error}");
        engine.honest();
        tokio::time::sleep(s(10)).await;
        assert!(!client.lock("x").is_locked().await.unwrap(), "{code}");
    }
}

/// An unlock marks its hold first and its tenure after that. Another thread of the owner that came in between found no hold,
/// neither held nor leaving: a `try_lock` returned busy because of its own owner, and a `lock` waited for its own owner.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_unlock_has_just_begun_can_still_enter_again() {
    let (client, owner) = (Client::memory(), Owner::new());
    let lock = client.lock("x").owned_by(&owner);
    let guard = lock.lock().await.unwrap();
    let subject = PlainScheme::new("x".into()).subject().clone();
    let tenure = unpoisoned(&client.core().names).live_tenure(&subject, &owner);
    let hold = tenure.unwrap().first_hold().unwrap();

    hold.release(client.core().now());
    let second = lock.try_lock().await.unwrap();

    assert!(second.is_some());
    drop(guard);
    assert!(second.unwrap().check().await.is_ok());
}
