//! Members of one client, taken in one call.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use super::{failures_of_a_call, is_free, s};
use crate::coordination::Core;
use crate::kind::Multi;
use crate::testing::census::Census;
use crate::testing::lying::{Lie, Lying, Match};
use crate::testing::scenes::{insider, ms, pair};
use crate::{Client, ErrorKind, Guard, LostReason, MultiLock, Unlocked};

const TOGETHER: &str = "multi_lock/acquire";
const RELEASE: &str = "multi_lock/release";

fn four(client: &Client) -> MultiLock {
    let fenced = client.fenced_lock("c").and(client.fenced_lock("d"));
    client.lock("a").and(client.lock("b")).and(fenced)
}

async fn all_free(client: &Client) -> bool {
    let mut is_all_free = true;
    for name in ["a", "b", "c", "d"] {
        is_all_free &= is_free(client, name).await;
    }
    is_all_free
}

#[tokio::test(start_paused = true)]
async fn four_locks_of_one_client_cost_two_commands() {
    let (client, lying, core) = insider();
    let lock = four(&client).label("move").lease(s(10));

    let guard = lock.lock().await.unwrap();
    assert_eq!(lying.log().len(), 1);
    let fences: Vec<bool> = guard
        .members()
        .iter()
        .map(|member| member.fence().is_some())
        .collect();
    assert_eq!(fences, [false, false, true, true]);
    assert_eq!(guard.remaining(), ms(9500));
    for name in ["a", "d"] {
        let holders = client.lock(name).holders().await.unwrap();
        assert_eq!(holders[0].label.as_deref(), Some("move"), "{name}");
    }
    let before = lying.log().len();
    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
    assert_eq!(lying.log().len() - before, 1);
    assert!(all_free(&client).await);

    let first = client.fenced_lock("c").lock().await.unwrap().fence();
    tokio::time::sleep(s(10)).await;
    let guard = four(&client).lock().await.unwrap();
    assert!(guard.members()[2].fence() > Some(first));
    drop(guard);
    tokio::time::sleep(s(10)).await;
    assert_eq!(core.census(), Census::default());
}

#[tokio::test(start_paused = true)]
async fn one_busy_lock_leaves_the_others_untouched() {
    let pair = pair("multi-together");
    let theirs = pair.them.fenced_lock("c").lock().await.unwrap();

    assert!(four(&pair.us).try_lock().await.unwrap().is_none());
    let waiting = tokio::spawn(four(&pair.us).lock());
    tokio::time::sleep(s(5)).await;
    for name in ["a", "b", "d"] {
        assert!(is_free(&pair.them, name).await, "{name}");
    }
    theirs.unlock().await.unwrap();

    let guard = waiting.await.unwrap().unwrap();
    assert_eq!(guard.members().len(), 4);
    pair.them.lock("b").force_unlock().await.unwrap();
    assert_eq!(guard.lost().await, LostReason::Removed);
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_the_call_leaves_none_held() {
    let of_an_acquire = [Lie::Repeat, Lie::Refuse("NOSCRIPT")];
    for lie in failures_of_a_call().into_iter().chain(of_an_acquire) {
        let (client, lying, core) = insider();
        lying.always(Match::script(TOGETHER), lie.clone());
        let guard = four(&client).lock().await.unwrap();
        assert!(guard.is_held(), "{lie:?}");
        drop(guard);
        tokio::time::sleep(s(10)).await;
        // Never busy because of the call itself.
        match four(&client).try_lock().await {
            Ok(taken) => assert!(taken.is_some(), "{lie:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unreachable, "{lie:?}"),
        }
        lying.honest();
        lying.heal();
        tokio::time::sleep(s(120)).await;
        assert!(all_free(&client).await, "{lie:?}");
        assert_eq!(core.census(), Census::default(), "{lie:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_dropped_at_any_point_leaves_none_held() {
    for lie in [None, Some(Lie::DelayReply(ms(100))), Some(Lie::DropReply)] {
        for polls in 0..50 {
            let (client, lying, core) = insider();
            if let Some(lie) = &lie {
                lying.next_of(Match::script(TOGETHER), lie.clone());
            }
            let call = four(&client).lock();
            let finished = testkit::drop_after_polls(polls, call).await.finished();
            let is_finished = finished.is_some();
            drop(finished);
            tokio::time::sleep(s(120)).await;
            assert!(all_free(&client).await, "{lie:?}, {polls} polls");
            assert_eq!(core.census(), Census::default(), "{lie:?}, {polls} polls");
            if is_finished {
                break;
            }
        }
    }
}

/// A lock that is granted to a future that is not polled must not stay taken.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_not_polled_gives_its_grant_back() {
    let (client, lying, _) = insider();
    lying.next_of(Match::script(TOGETHER), Lie::DelayReply(ms(10)));
    let mut call = pin!(four(&client).lock());
    let polled = call.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending());
    tokio::time::sleep(ms(500)).await;
    assert!(!all_free(&client).await);

    tokio::time::sleep(s(2)).await;
    assert!(all_free(&client).await);

    let guard = call.await.unwrap();
    assert!(guard.is_held());
}

/// The names that a client knows are acquired one by one.
#[tokio::test(start_paused = true)]
async fn a_name_that_is_waited_for_here_is_not_taken_past_its_line() {
    let (client, lying, _) = insider();
    let holder = client.lock("b").lock().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..3 {
        let lock = client.lock("b");
        waiters.push(tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            tokio::time::sleep(ms(5)).await;
            guard.unlock().await.unwrap();
        }));
    }
    tokio::time::sleep(ms(10)).await;
    let all = tokio::spawn(four(&client).lock());
    tokio::time::sleep(ms(10)).await;
    holder.unlock().await.unwrap();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    all.await.unwrap().unwrap().unlock().await.unwrap();
    assert!(!lying.log_of("lock/acquire").is_empty());
}

/// A guard of four, whose release is answered by that lie from now on.
async fn held(lie: Option<Lie>) -> (Client, Arc<Lying>, Arc<Core>, Guard<Multi>) {
    let (client, lying, core) = insider();
    let guard = four(&client).lock().await.unwrap();
    if let Some(lie) = lie {
        lying.next_of(Match::script(RELEASE), lie);
    }
    (client, lying, core, guard)
}

#[tokio::test(start_paused = true)]
async fn each_failure_of_the_common_release_leaves_none_held() {
    for lie in failures_of_a_call() {
        let (client, _, core, guard) = held(Some(lie.clone())).await;

        match guard.unlock().await {
            Ok(left) => assert_eq!(left, Unlocked::Released, "{lie:?}"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unreachable, "{lie:?}"),
        }

        tokio::time::sleep(s(120)).await;
        assert!(all_free(&client).await, "{lie:?}");
        assert_eq!(core.census(), Census::default(), "{lie:?}");
    }
}

/// The call may be refused because of one name only.
#[tokio::test(start_paused = true)]
async fn a_common_release_that_is_refused_is_followed_by_one_for_each_name() {
    let (client, lying, _, guard) = held(Some(Lie::Refuse("NOPERM"))).await;

    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);

    assert_eq!(lying.log_of("lock/release").len(), 4);
    assert!(all_free(&client).await);
}

/// What ran is not known: a hold that another client has by then must not be touched, and a field that is gone was released.
#[tokio::test(start_paused = true)]
async fn a_common_release_without_an_answer_is_owed_for_each_name() {
    let (client, lying, core, guard) = held(Some(Lie::DropReply)).await;

    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);

    assert_eq!(lying.log_of("lock/release").len(), 4);
    assert!(all_free(&client).await);
    tokio::time::sleep(s(1)).await;
    assert_eq!(core.census(), Census::default());
}

#[tokio::test(start_paused = true)]
async fn a_common_release_dropped_at_any_point_leaves_none_held() {
    for lie in [
        None,
        Some(Lie::DelayReply(ms(100))),
        Some(Lie::DropReply),
        Some(Lie::Hang),
    ] {
        for polls in 0..50 {
            let (client, _, core, guard) = held(lie.clone()).await;
            let unlocked = testkit::drop_after_polls(polls, guard.unlock()).await;
            let is_finished = unlocked.finished().is_some();
            tokio::time::sleep(s(120)).await;
            assert!(all_free(&client).await, "{lie:?}, {polls} polls");
            assert_eq!(core.census(), Census::default(), "{lie:?}, {polls} polls");
            if is_finished {
                break;
            }
            assert!(polls < 49, "{lie:?}: it does not finish");
        }
    }
}

/// The name of one member has become something else: the others are free at once, and it alone is reported.
#[tokio::test(start_paused = true)]
async fn one_name_that_is_lost_does_not_keep_the_others_held() {
    let (client, lying, _, guard) = held(None).await;
    client.lock("b").force_unlock().await.unwrap();
    let theirs = client.lock("b").lock().await.unwrap();

    let error = guard.unlock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost);
    assert_eq!(lying.log_of(RELEASE).len(), 1);
    assert!(theirs.is_held());
    for name in ["a", "c", "d"] {
        assert!(is_free(&client, name).await, "{name}");
    }
    assert!(!is_free(&client, "b").await);
}

/// Holds that go on are counted by a release of their own.
#[tokio::test(start_paused = true)]
async fn a_member_that_its_owner_holds_once_more_is_kept() {
    let (client, lying, _, guard) = held(None).await;
    let again = guard.members()[0].relock().await.unwrap();

    assert_eq!(guard.unlock().await.unwrap(), Unlocked::StillHeld(1));

    assert_eq!(lying.log_of(RELEASE).len(), 1);
    assert!(again.is_held());
    assert!(!is_free(&client, "a").await);
    for name in ["b", "c", "d"] {
        assert!(is_free(&client, name).await, "{name}");
    }
    again.unlock().await.unwrap();
    assert!(all_free(&client).await);
}

/// Each name has its own message.
#[tokio::test(start_paused = true)]
async fn a_common_release_wakes_the_waiters_of_each_name() {
    let pair = pair("multi-release");
    let guard = four(&pair.us).lock().await.unwrap();
    let waiters = ["a", "b", "c", "d"].map(|name| {
        let lock = match name {
            "a" | "b" => pair.them.lock(name).erase(),
            _ => pair.them.fenced_lock(name).erase(),
        };
        tokio::spawn(lock.max_wait(s(100)).lock())
    });
    tokio::time::sleep(ms(5500)).await;
    let begun = tokio::time::Instant::now();

    guard.unlock().await.unwrap();

    let mut granted = Vec::new();
    for waiter in waiters {
        granted.push(waiter.await.unwrap().unwrap());
    }
    // Long before their next safety poll.
    assert!(begun.elapsed() < ms(50), "{:?}", begun.elapsed());
}
