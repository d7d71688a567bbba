//! Whatever fails with one member, none is left held.

use tokio_util::sync::CancellationToken;

use super::{Two, failures_of_a_call, is_free, s};
use crate::ErrorKind;
use crate::testing::lying::{Lie, Match, Reach, Silence};
use crate::testing::scenes::ms;

const ACQUIRE: &str = "lock/acquire";
const RELEASE: &str = "lock/release";

/// Whatever happens to one member, none is left held.
#[tokio::test(start_paused = true)]
async fn each_failure_of_one_member_leaves_none_held() {
    for lie in failures_of_a_call() {
        for patience in ["try", "for", "lock"] {
            let two = Two::new();
            two.lying.always(Match::script(ACQUIRE), lie.clone());
            let what = format!("{lie:?}, {patience}");
            let taken = match patience {
                "try" => two.both().try_lock().await,
                "for" => two.both().try_lock_for(ms(1500)).await,
                _ => two.both().max_wait(ms(1500)).lock().await.map(Some),
            };
            if let Err(error) = &taken {
                assert_eq!(error.nodes().len(), 1, "{what}");
            }
            drop(taken);
            two.nothing_left(&what).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_down_for_a_while_is_waited_for_as_by_one_lock() {
    let two = Two::new();
    two.lying.partition(Reach::All, Silence::NotSent);
    let waiting = tokio::spawn(two.both().lock());
    tokio::time::sleep(s(3)).await;

    two.lying.heal();

    let guard = waiting.await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    two.lying.partition(Reach::All, Silence::NotSent);
    let error = two.both().lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    two.nothing_left("down").await;
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_leaves_none_held() {
    let two = Two::new();
    let other = two.liar.lock("b").lock().await.unwrap();
    let token = CancellationToken::new();
    let waiting = tokio::spawn(two.both().cancelled_by(&token).lock());
    tokio::time::sleep(s(2)).await;

    token.cancel();

    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    drop(other);
    two.nothing_left("cancelled").await;
}

/// A call dropped at each of its await points, on free and on busy members, in rounds and in order.
#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_none_held() {
    for busy_for in [None, Some(ms(300)), Some(s(3))] {
        for polls in 0..200 {
            let two = Two::new();
            let busy = match busy_for {
                Some(time) => Some(two.liar.lock("b").lease(time).lock().await.unwrap()),
                None => None,
            };
            let call = two.both().lease(s(1)).lock();
            let finished = testkit::drop_after_polls(polls, call).await.finished();
            let is_finished = finished.is_some();
            drop((finished, busy));
            two.nothing_left(&format!("{busy_for:?}, {polls} polls"))
                .await;
            if is_finished {
                assert!(polls > 0);
                break;
            }
            assert!(polls < 199, "{busy_for:?}: it does not finish");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_dropped_unlock_gives_all_back() {
    for polls in 0..20 {
        let two = Two::new();
        two.lying
            .next_of(Match::script(RELEASE), Lie::DelayReply(ms(100)));
        let guard = two.both().lock().await.unwrap();
        let unlocked = testkit::drop_after_polls(polls, guard.unlock()).await;
        let is_finished = unlocked.finished().is_some();
        two.nothing_left(&format!("{polls} polls")).await;
        if is_finished {
            return;
        }
    }
    panic!("it does not finish");
}

#[tokio::test(start_paused = true)]
async fn all_are_released_also_when_one_release_fails() {
    let two = Two::new();
    let guard = two.both().lock().await.unwrap();
    two.lying
        .always(Match::script(RELEASE), Lie::Refuse("NOPERM"));

    let error = guard.unlock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Refused);
    assert_eq!(error.nodes().len(), 1);
    assert_eq!(error.nodes()[0].node(), "memory:");
    assert_eq!(error.nodes()[0].error().lock_name(), Some("b"));
    assert!(is_free(&two.honest, "a").await);
    two.nothing_left("refused").await;
}
