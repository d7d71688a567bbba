//! The ways in which the holder or another client ends a hold, or the holder prolongs it.

use std::time::Duration;

use ferrolock::{ErrorKind, HoldState, LostReason, Owner, Remaining, Unlocked};
use testkit::{LIMIT, eventually_async};

use crate::stage::{Stage, assert_led_to, ms, unique, waits};

stories!(
    a_dropped_guard_frees_the_lock_and_wakes_a_waiter,
    a_dropped_inner_guard_leaves_the_outer,
    force_unlock_releases_the_lock_of_another_client,
    force_unlock_of_a_lock_held_many_times_wakes_a_waiter,
    unlock_after_keeps_the_name_taken_until_the_delay_is_over,
    unlock_after_with_other_holds_releases_only_this_one,
    unlock_after_does_not_harm_a_reentry_made_meanwhile,
    unlock_after_of_a_lost_guard_changes_nothing,
    renew_prolongs_a_fixed_lease,
    a_renewal_never_shortens_a_lease,
    a_lost_guard_cannot_be_renewed,
);

stories_of_every_kind!(
    a_dropped_guard_frees_the_lock_and_wakes_a_waiter,
    force_unlock_releases_the_lock_of_another_client,
);

async fn a_dropped_guard_frees_the_lock_and_wakes_a_waiter(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let guard = ours.lock(&name).lock().await.unwrap();
    let waiter = waits(&theirs, &name);
    stage.rests(&theirs, &name).await;

    drop(guard);

    let next = waiter.await.unwrap();
    assert_led_to("message", &next);
    drop(next);
    stage.freed(&name).await;
}

async fn a_dropped_inner_guard_leaves_the_outer(stage: &Stage) {
    let client = stage.client().await;
    let outer = client.lock("x").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();

    drop(inner);

    eventually_async(LIMIT, "one hold is left", async || {
        stage.counts("x").await == [1]
    })
    .await;
    assert!(outer.is_held());
    outer.assert_holds(1);
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
}

async fn force_unlock_releases_the_lock_of_another_client(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let lock = theirs.lock("x");
    assert!(!lock.force_unlock().await.unwrap(), "nothing to free");
    let guard = ours.lock("x").label("import").lock().await.unwrap();

    assert!(lock.force_unlock().await.unwrap());

    assert_eq!(stage.look("x").await, None);
    stage.no_keys("details go too").await;
    assert!(!lock.force_unlock().await.unwrap());
    let error = guard.check().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::Removed));
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Removed));
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
}

async fn force_unlock_of_a_lock_held_many_times_wakes_a_waiter(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let outer = ours.lock(&name).lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    let waiter = waits(&theirs, &name);
    stage.rests(&theirs, &name).await;

    assert!(ours.lock(&name).force_unlock().await.unwrap());

    let next = waiter.await.unwrap();
    assert_led_to("message", &next);
    let error = inner.unlock().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::TakenOver));
    assert_eq!(outer.state(), HoldState::Lost(LostReason::TakenOver));
    drop(outer);
    next.check().await.unwrap();
    next.unlock().await.unwrap();
}

async fn unlock_after_keeps_the_name_taken_until_the_delay_is_over(stage: &Stage) {
    /// It ends while no safety poll is near: the first ones come after 0.75 to 1 s and after 2.25 to 3 s.
    const DELAY: Duration = Duration::from_secs(2);
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let owner = Owner::new();
    let lock = ours.lock(&name).owned_by(&owner);
    let guard = lock.lock().await.unwrap();
    let begun = tokio::time::Instant::now();

    guard.unlock_after(DELAY).await.unwrap();

    assert!(lock.is_locked().await.unwrap());
    let remaining = lock.remaining().await.unwrap();
    assert!(
        matches!(remaining, Remaining::Left(left) if left <= DELAY),
        "{remaining:?}"
    );
    assert!(!lock.is_held_by(&owner).await.unwrap(), "nobody is inside");
    assert!(
        lock.try_lock().await.unwrap().is_none(),
        "not even by its owner"
    );
    assert!(theirs.lock(&name).try_lock().await.unwrap().is_none());
    let next = theirs.lock(&name).lock().await.unwrap();
    let waited = begun.elapsed();
    assert_led_to("lease_end", &next);
    assert!(waited >= DELAY, "{waited:?}");
    stage.took("after unlock_after(2 s)", begun, DELAY + ms(2));
    next.unlock().await.unwrap();
    assert_eq!(stage.look(&name).await, None);
}

async fn unlock_after_with_other_holds_releases_only_this_one(stage: &Stage) {
    let client = stage.client().await;
    let outer = client.lock("x").lock().await.unwrap();
    let inner = outer.relock().await.unwrap();

    inner
        .unlock_after(Duration::from_millis(300))
        .await
        .unwrap();

    let look = stage.look("x").await.unwrap();
    assert_eq!(look.count_of(&outer), Some(1));
    assert!(look.ttl > Duration::from_secs(15), "{look:?}");
    assert!(outer.is_held());
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
}

/// The owner enters again during `unlock_after`: it gets a full hold or none.
async fn unlock_after_does_not_harm_a_reentry_made_meanwhile(stage: &Stage) {
    let client = stage.client().await;
    let delay = Duration::from_millis(200);

    for round in 0..40 {
        let name = format!("x{round}");
        let lock = client.lock(&name).owned_by(&Owner::new());
        let guard = lock.lock().await.unwrap();
        let (left, entered) =
            tokio::join!(guard.unlock_after(delay), tokio::spawn(lock.try_lock()),);
        left.unwrap();
        if let Ok(Some(inner)) = entered.unwrap() {
            let look = stage.look(&name).await.unwrap();
            assert_eq!(look.count_of(&inner), Some(1), "{look:?}");
            assert!(look.ttl > delay, "a live hold has its lease: {look:?}");
            inner.check().await.unwrap();
            assert_eq!(inner.unlock().await.unwrap(), Unlocked::Released);
            assert_eq!(stage.look(&name).await, None);
        }
    }
}

async fn unlock_after_of_a_lost_guard_changes_nothing(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let late = ours
        .lock("x")
        .lease(Duration::from_millis(300))
        .lock()
        .await
        .unwrap();
    let next = theirs.lock("x").lock().await.unwrap();
    let before = stage.ttl("x").await;

    let error = late
        .unlock_after(Duration::from_secs(600))
        .await
        .unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(stage.ttl("x").await <= before);
    next.check().await.unwrap();
    next.unlock().await.unwrap();
}

async fn renew_prolongs_a_fixed_lease(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let short = Duration::from_millis(600);
    let guard = ours
        .lock("x")
        .lease(short)
        .label("import")
        .lock()
        .await
        .unwrap();

    guard.renew(Duration::from_secs(20)).await.unwrap();

    assert!(guard.remaining() > Duration::from_secs(10));
    assert!(stage.ttl("x").await > Duration::from_secs(10));
    tokio::time::sleep(short * 2).await;
    assert!(guard.is_held());
    guard.check().await.unwrap();
    assert!(theirs.lock("x").try_lock().await.unwrap().is_none());
    if let Some(server) = stage.server() {
        let ttls: Vec<_> = server.dump().into_iter().map(|entry| entry.ttl).collect();
        assert_eq!(ttls.len(), 2, "the lock and its details");
        assert!(
            ttls.iter().all(|ttl| *ttl > Some(Duration::from_secs(10))),
            "{ttls:?}"
        );
    }
    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
}

async fn a_renewal_never_shortens_a_lease(stage: &Stage) {
    let client = stage.client().await;
    let guard = client
        .lock("x")
        .lease(Duration::from_secs(20))
        .lock()
        .await
        .unwrap();

    guard.renew(Duration::from_millis(200)).await.unwrap();
    let error = guard.renew(Duration::from_millis(199)).await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(guard.remaining() > Duration::from_secs(10));
    assert!(stage.ttl("x").await > Duration::from_secs(10));
    guard.unlock().await.unwrap();
}

async fn a_lost_guard_cannot_be_renewed(stage: &Stage) {
    let client = stage.client().await;
    let late = client
        .lock("x")
        .lease(Duration::from_millis(300))
        .lock()
        .await
        .unwrap();
    let removed = client
        .lock("y")
        .lease(Duration::from_secs(20))
        .lock()
        .await
        .unwrap();
    stage.vanish("y").await;

    late.lost().await;
    let errors = (
        late.renew(Duration::from_secs(20)).await.unwrap_err(),
        removed.renew(Duration::from_secs(20)).await.unwrap_err(),
    );

    assert_eq!(errors.0.lost_reason(), Some(LostReason::Expired));
    assert_eq!(errors.1.lost_reason(), Some(LostReason::Removed));
    assert_eq!(removed.state(), HoldState::Lost(LostReason::Removed));
    assert_eq!(stage.look("y").await, None);
    eventually_async(LIMIT, "the lease is over", async || {
        stage.look("x").await.is_none()
    })
    .await;
    assert!(!late.is_held());
}
