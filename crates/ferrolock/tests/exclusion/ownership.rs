//! Only the owner releases; fresh owners never share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrolock::{ErrorKind, HoldState, LostReason, Owner, Unlocked};
use testkit::{LIMIT, eventually_async};

use crate::stage::Stage;

stories!(
    a_guard_whose_lease_ran_out_cannot_release_the_next_holder,
    a_lost_guard_that_is_dropped_does_not_release_the_next_holder,
    check_reports_that_the_lock_was_taken_over,
    tasks_with_fresh_owners_never_share,
    a_scope_makes_one_owner_of_all_its_acquisitions,
    a_scope_does_not_reach_into_spawned_tasks,
    owners_of_different_clients_are_different_holders,
);

stories_of_every_kind!(
    a_guard_whose_lease_ran_out_cannot_release_the_next_holder,
    tasks_with_fresh_owners_never_share,
);

const SHORT: Duration = Duration::from_millis(300);

async fn a_guard_whose_lease_ran_out_cannot_release_the_next_holder(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let late = ours.lock("x").lease(SHORT).lock().await.unwrap();

    let next = theirs.lock("x").lock().await.unwrap();

    assert_eq!(late.state(), HoldState::Lost(LostReason::Expired));
    assert_eq!(late.lost().await, LostReason::Expired);
    let before = stage.look("x").await.unwrap();
    let error = late.unlock().await.unwrap_err();
    assert_eq!(
        (error.kind(), error.lost_reason()),
        (ErrorKind::Lost, Some(LostReason::Expired))
    );
    let after = stage.look("x").await.unwrap();
    let spare = stage.kind().spare();
    assert!(after.still_has(&before, spare), "{after:?} {before:?}");
    assert_eq!(after.count_of(&next), Some(1));
    assert!(after.ttl <= before.ttl, "{after:?} {before:?}");
    next.check().await.unwrap();
    assert_eq!(next.unlock().await.unwrap(), Unlocked::Released);
}

async fn a_lost_guard_that_is_dropped_does_not_release_the_next_holder(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let late = ours.lock("x").lease(SHORT).lock().await.unwrap();
    let next = theirs.lock("x").lock().await.unwrap();

    drop(late);
    // The shutdown waits for what the drop sends.
    ours.shutdown(LIMIT).await.unwrap();

    next.check().await.unwrap();
    assert_eq!(stage.counts("x").await, [1]);
    assert_eq!(next.unlock().await.unwrap(), Unlocked::Released);
}

async fn check_reports_that_the_lock_was_taken_over(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let robbed = ours.lock("x").lock().await.unwrap();
    stage.vanish("x").await;
    let robber = theirs.lock("x").try_lock().await.unwrap().unwrap();

    assert!(robbed.is_held(), "nobody has told it yet");
    let error = robbed.check().await.unwrap_err();

    assert_eq!(error.lost_reason(), Some(LostReason::TakenOver));
    assert_eq!(robbed.state(), HoldState::Lost(LostReason::TakenOver));
    assert_eq!(robbed.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    let look = stage.look("x").await.unwrap();
    assert_eq!(look.count_of(&robber), Some(1));
    assert_eq!(robber.unlock().await.unwrap(), Unlocked::Released);
}

async fn tasks_with_fresh_owners_never_share(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x");
    let inside = Arc::new(AtomicBool::new(false));
    let worker = || {
        let (lock, inside) = (lock.clone(), inside.clone());
        async move {
            for _ in 0..100 {
                let guard = lock.lock().await.unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "somebody is inside");
                guard.assert_holds(1);
                assert!(lock.try_lock().await.unwrap().is_none());
                assert!(inside.swap(false, Ordering::SeqCst));
                guard.unlock().await.unwrap();
            }
        }
    };

    let tasks = [tokio::spawn(worker()), tokio::spawn(worker())];

    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(stage.look("x").await, None);
}

async fn a_scope_makes_one_owner_of_all_its_acquisitions(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let owner = Owner::new();

    owner
        .scope(async {
            let outer = ours.lock("x").lock().await.unwrap();
            let inner = ours.lock("x").try_lock().await.unwrap().unwrap();
            let third = outer.relock().await.unwrap();
            assert!(outer.owner().is_none_or(|it| *it == owner));
            assert_eq!(inner.owner_id(), outer.owner_id());
            third.assert_holds(3);
            assert_eq!(stage.counts("x").await, [3]);
            assert!(theirs.lock("x").try_lock().await.unwrap().is_none());
            assert_eq!(third.unlock().await.unwrap(), Unlocked::StillHeld(2));
            assert_eq!(outer.unlock().await.unwrap(), Unlocked::StillHeld(1));
            assert_eq!(inner.unlock().await.unwrap(), Unlocked::Released);
        })
        .await;
}

async fn a_scope_does_not_reach_into_spawned_tasks(stage: &Stage) {
    let client = stage.client().await;
    let owner = Owner::new();

    owner
        .scope(async {
            let guard = client.lock("x").lock().await.unwrap();
            let lock = client.lock("x");
            let spawned = tokio::spawn({
                let lock = lock.clone();
                async move { lock.try_lock().await.unwrap().is_none() }
            });
            assert!(spawned.await.unwrap(), "a task of its own is somebody new");
            let current = Owner::current().unwrap();
            let carried = tokio::spawn(async move {
                let inside = current.scope(lock.try_lock()).await.unwrap().unwrap();
                inside.assert_holds(2);
            });
            carried.await.unwrap();
            // The carried guard was dropped: its release needs no call.
            eventually_async(LIMIT, "one hold is left", async || {
                stage.counts("x").await == [1]
            })
            .await;
            assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
        })
        .await;
}

async fn owners_of_different_clients_are_different_holders(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let owner = Owner::new();

    let guard = ours.lock("x").owned_by(&owner).lock().await.unwrap();

    let other = theirs.lock("x").owned_by(&owner);
    assert!(other.try_lock().await.unwrap().is_none());
    assert!(!other.is_held_by(&owner).await.unwrap());
    assert!(ours.lock("x").is_held_by(&owner).await.unwrap());
    guard.unlock().await.unwrap();
}
