//! The same owner enters again.

use std::time::Duration;

use ferrolock::{ErrorKind, HoldState, LostReason, Owner, Unlocked};
use testkit::LIMIT;
use tokio::sync::oneshot;

use crate::stage::{Party, Stage, TestGuard, assert_led_to, joins, unique, waits};

stories!(
    five_holds_and_four_unlocks_leave_it_held_with_the_lease_refreshed,
    the_last_of_many_unlocks_wakes_a_waiter,
    holds_of_one_owner_may_be_released_in_any_order,
    a_shorter_lease_inside_does_not_shorten_the_outer,
    a_shorter_lease_inside_does_not_shorten_a_renewed_one,
    a_longer_lease_inside_keeps_the_lock_for_the_inner_hold_only,
    two_waiters_of_one_owner_get_in_if_one_awaits_the_other,
    all_waiters_of_an_owner_go_in_with_its_first_grant,
    a_reentry_after_the_key_was_deleted_marks_the_outer_guard_lost,
    a_reentry_after_a_take_over_marks_the_outer_guard_lost,
    relock_adds_a_hold_and_revives_nothing,
    a_lock_call_gets_in_while_its_owner_is_just_unlocking,
    a_third_call_gets_in_while_the_second_is_on_its_way,
    a_second_acquisition_of_a_non_reentrant_owner_changes_nothing,
    non_reentrant_excludes_other_owners,
    a_non_reentrant_waiter_fails_when_another_call_of_its_owner_gets_in,
);

stories_of_every_kind!(relock_adds_a_hold_and_revives_nothing);

/// The client's default lease.
const LEASE: Duration = Duration::from_secs(30);

async fn enter(client: &Party, owner: &Owner, times: usize) -> Vec<TestGuard> {
    enter_by_name(client, "x", owner, times).await
}

async fn enter_by_name(client: &Party, name: &str, owner: &Owner, times: usize) -> Vec<TestGuard> {
    let lock = client.lock(name).owned_by(owner);
    let mut guards = Vec::new();
    for _ in 0..times {
        guards.push(lock.lock().await.unwrap());
    }
    guards
}

async fn five_holds_and_four_unlocks_leave_it_held_with_the_lease_refreshed(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let mut guards = enter(&ours, &Owner::new(), 5).await;
    assert_eq!(stage.counts("x").await, [5]);

    for left in (1..5).rev() {
        // Four times, and no renewal comes in between.
        stage.run_down("x", Duration::from_secs(2)).await;
        let before = stage.ttl("x").await;
        let unlocked = guards.pop().unwrap().unlock().await.unwrap();

        assert_eq!(unlocked, Unlocked::StillHeld(left));
        assert_eq!(stage.counts("x").await, [left]);
        let after = stage.ttl("x").await;
        assert!(before <= LEASE - Duration::from_secs(2), "{before:?}");
        assert!(after > LEASE - Duration::from_secs(1), "{after:?}");
        assert!(theirs.lock("x").try_lock().await.unwrap().is_none());
    }

    assert!(guards[0].is_held());
    let fifth = guards.pop().unwrap().unlock().await.unwrap();
    assert_eq!(fifth, Unlocked::Released);
    assert_eq!(stage.look("x").await, None);
}

async fn the_last_of_many_unlocks_wakes_a_waiter(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let guards = enter_by_name(&ours, &name, &Owner::new(), 5).await;
    let waiter = waits(&theirs, &name);
    stage.rests(&theirs, &name).await;

    let mut left = 5;
    for guard in guards {
        assert!(!waiter.is_finished(), "{left} holds are left");
        left -= 1;
        let unlocked = guard.unlock().await.unwrap();
        assert_eq!(unlocked == Unlocked::Released, left == 0);
    }
    let released = tokio::time::Instant::now();
    let guard = waiter.await.unwrap();

    assert_led_to("message", &guard);
    stage.took_no_time("the last of many unlocks", released);
    guard.unlock().await.unwrap();
}

async fn holds_of_one_owner_may_be_released_in_any_order(stage: &Stage) {
    let client = stage.client().await;
    let mut guards = enter(&client, &Owner::new(), 3).await;
    let (third, second, first) = (guards.pop(), guards.pop(), guards.pop());

    for (guard, left) in [(first, 2), (third, 1)] {
        assert_eq!(
            guard.unwrap().unlock().await.unwrap(),
            Unlocked::StillHeld(left)
        );
        assert_eq!(stage.counts("x").await, [left]);
    }

    assert!(second.as_ref().unwrap().is_held());
    assert_eq!(second.unwrap().unlock().await.unwrap(), Unlocked::Released);
}

async fn a_shorter_lease_inside_does_not_shorten_the_outer(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let ten = Duration::from_secs(10);
    let outer = lock.clone().lease(ten).lock().await.unwrap();

    let inner = lock.lease(Duration::from_millis(300)).lock().await.unwrap();

    assert!(stage.ttl("x").await > ten / 2);
    assert!(inner.remaining() < Duration::from_millis(300));
    assert_eq!(inner.lost().await, LostReason::Expired);
    assert!(outer.is_held());
    assert!(stage.ttl("x").await > ten / 2);
    // Although the inner hold is lost, its unlock removes it from the count.
    assert_eq!(
        inner.unlock().await.unwrap_err().lost_reason(),
        Some(LostReason::Expired)
    );
    assert!(stage.ttl("x").await > ten / 2);
    assert_eq!(stage.counts("x").await, [1]);
    outer.check().await.unwrap();
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
}

async fn a_shorter_lease_inside_does_not_shorten_a_renewed_one(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();

    let inner = lock.lease(Duration::from_millis(300)).lock().await.unwrap();
    assert!(stage.ttl("x").await > LEASE / 2);
    assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));

    assert!(stage.ttl("x").await > LEASE / 2);
    assert!(outer.remaining() > LEASE / 2);
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);
}

async fn a_longer_lease_inside_keeps_the_lock_for_the_inner_hold_only(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let lock = ours.lock("x").owned_by(&Owner::new());
    let short = Duration::from_millis(300);
    let outer = lock.clone().lease(short).lock().await.unwrap();
    let inner = lock.lease(Duration::from_secs(10)).lock().await.unwrap();

    assert_eq!(outer.lost().await, LostReason::Expired);
    tokio::time::sleep(short).await;

    assert!(inner.is_held());
    inner.check().await.unwrap();
    assert!(theirs.lock("x").try_lock().await.unwrap().is_none());
    assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));
    drop(outer);
    theirs
        .lock("x")
        .lock()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

async fn two_waiters_of_one_owner_get_in_if_one_awaits_the_other(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let held = theirs.lock(&name).lock().await.unwrap();
    let lock = ours.lock(&name).owned_by(&Owner::new());
    let (second_is_in, wait_for_second) = oneshot::channel();
    let first = tokio::spawn(lock.lock());
    stage.rests(&ours, &name).await;
    // Both wait before the lock is free.
    let second = joins(&lock);
    stage.placed(&ours, &name, 1).await;
    let first = tokio::spawn(async move {
        let guard = first.await.unwrap().unwrap();
        assert_led_to("message", &guard);
        wait_for_second.await.unwrap();
        guard.unlock().await.unwrap()
    });
    let second = tokio::spawn(async move {
        let guard = second.await.unwrap().unwrap();
        second_is_in.send(()).unwrap();
        guard.unlock().await.unwrap()
    });

    held.unlock().await.unwrap();

    let unlocked = (first.await.unwrap(), second.await.unwrap());
    // Both are, if one command released both.
    assert!(
        unlocked.0 == Unlocked::Released || unlocked.1 == Unlocked::Released,
        "{unlocked:?}"
    );
    assert_eq!(stage.look(&name).await, None);
}

async fn all_waiters_of_an_owner_go_in_with_its_first_grant(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let held = theirs.lock(&name).lock().await.unwrap();
    let lock = ours.lock(&name).owned_by(&Owner::new());
    let mut waiters = vec![tokio::spawn(lock.lock())];
    stage.rests(&ours, &name).await;
    waiters.extend((1..8).map(|_| joins(&lock)));
    let stranger = joins(&ours.lock(&name));
    stage.placed(&ours, &name, 8).await;
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));

    held.unlock().await.unwrap();
    let mut guards = Vec::new();
    for waiter in waiters {
        guards.push(waiter.await.unwrap().unwrap());
    }

    // Waiters are served in the order in which they came: the eight of one owner are inside together, and without the stranger.
    assert_led_to("message", &guards[0]);
    assert_eq!(stage.counts(&name).await, [8]);
    assert!(!stranger.is_finished());
    drop(guards);
    stranger.await.unwrap().unwrap().unlock().await.unwrap();
    assert_eq!(stage.look(&name).await, None);
}

async fn a_reentry_after_the_key_was_deleted_marks_the_outer_guard_lost(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    stage.vanish("x").await;

    let error = lock.lock().await.unwrap_err();

    assert_eq!(
        (error.kind(), error.lost_reason()),
        (ErrorKind::Lost, Some(LostReason::Removed))
    );
    assert_eq!(outer.state(), HoldState::Lost(LostReason::Removed));
    assert_eq!(outer.lost().await, LostReason::Removed);
    assert_eq!(stage.look("x").await, None, "nothing is revived");
    // Of several locks, each tells its loss once.
    for _ in 1..stage.kind().names("x").len() {
        let error = lock.lock().await.unwrap_err();
        assert_eq!(error.lost_reason(), Some(LostReason::Removed));
    }
    // The owner acquires the lock anew, and the old guard stays lost.
    let fresh = lock.lock().await.unwrap();
    assert!(fresh.owner_id().is_none() || fresh.owner_id() != outer.owner_id());
    fresh.assert_holds(1);
    assert_eq!(outer.state(), HoldState::Lost(LostReason::Removed));
    assert_eq!(
        outer.unlock().await.unwrap_err().lost_reason(),
        Some(LostReason::Removed)
    );
    fresh.check().await.unwrap();
    assert_eq!(stage.counts("x").await, [1]);
    assert_eq!(fresh.unlock().await.unwrap(), Unlocked::Released);
}

async fn a_reentry_after_a_take_over_marks_the_outer_guard_lost(stage: &Stage) {
    let (ours, theirs) = stage.clients().await;
    let lock = ours.lock("x").owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    stage.vanish("x").await;
    let robber = theirs.lock("x").lock().await.unwrap();

    let error = lock.try_lock().await.unwrap_err();

    assert_eq!(error.lost_reason(), Some(LostReason::TakenOver));
    assert_eq!(outer.state(), HoldState::Lost(LostReason::TakenOver));
    let look = stage.look("x").await.unwrap();
    assert_eq!(look.holds.len(), 1);
    assert_eq!(look.count_of(&robber), Some(1));
    assert!(lock.try_lock().await.unwrap().is_none(), "now it is busy");
    robber.unlock().await.unwrap();
}

async fn relock_adds_a_hold_and_revives_nothing(stage: &Stage) {
    let client = stage.client().await;
    let outer = client.lock("x").lock().await.unwrap();

    let inner = outer.relock().await.unwrap();
    inner.assert_same_owner(&outer);
    assert_eq!(stage.counts("x").await, [2]);
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::StillHeld(1));
    let third = inner.relock().await.unwrap();
    inner.assert_holds(2);
    third.assert_holds(2);
    third.unlock().await.unwrap();

    stage.vanish("x").await;
    let error = inner.relock().await.unwrap_err();
    assert_eq!(error.lost_reason(), Some(LostReason::Removed));
    assert_eq!(inner.state(), HoldState::Lost(LostReason::Removed));
    assert_eq!(stage.look("x").await, None);
    let again = inner.relock().await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Lost);
}

/// Whether the call comes before, during or after the release of the last hold: it does not fail with a loss, because the
/// owner has lost nothing.
async fn a_lock_call_gets_in_while_its_owner_is_just_unlocking(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());

    for round in 0..300 {
        let last = lock.lock().await.unwrap();
        let unlocking = tokio::spawn(last.unlock());
        let next = match round % 3 {
            0 => lock.lock().await.unwrap(),
            1 => lock
                .try_lock()
                .await
                .unwrap()
                .expect("never busy with itself"),
            _ => {
                let waited = lock.try_lock_for(LIMIT).await.unwrap();
                waited.expect("it becomes free")
            }
        };
        unlocking.await.unwrap().unwrap();
        assert_eq!(stage.counts("x").await, [1]);
        next.unlock().await.unwrap();
    }

    assert_eq!(stage.look("x").await, None);
}

async fn a_second_acquisition_of_a_non_reentrant_owner_changes_nothing(stage: &Stage) {
    let client = stage.client().await;
    let owner = Owner::new();
    let lock = client.lock("x").owned_by(&owner).non_reentrant();
    let guard = lock.lock().await.unwrap();
    stage.run_down("x", Duration::from_secs(5)).await;
    let before = stage.look("x").await.unwrap();

    let errors = [
        lock.lock().await.unwrap_err(),
        lock.try_lock().await.unwrap_err(),
        lock.try_lock_for(LIMIT).await.unwrap_err(),
        lock.run(async |_| ()).await.unwrap_err(),
    ];

    for error in errors {
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
        assert_eq!(error.lock_name(), Some("x"));
    }
    let after = stage.look("x").await.unwrap();
    assert_eq!(after.holds, before.holds);
    assert!(after.ttl <= before.ttl, "the lease is not refreshed");
    guard.assert_holds(1);
    assert!(guard.is_held());
    // Only this handle is not reentrant: another handle of that owner may enter again.
    let inner = client.lock("x").owned_by(&owner).lock().await.unwrap();
    assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));
    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
    lock.lock().await.unwrap().unlock().await.unwrap();
}

async fn non_reentrant_excludes_other_owners(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let lock = |client: &Party| client.lock(&name).non_reentrant();
    let guard = lock(&ours).lock().await.unwrap();

    assert!(lock(&ours).try_lock().await.unwrap().is_none());
    assert!(lock(&theirs).try_lock().await.unwrap().is_none());
    let waiter = tokio::spawn(lock(&theirs).lock());
    stage.rests(&theirs, &name).await;
    guard.unlock().await.unwrap();

    let next = waiter.await.unwrap().unwrap();
    assert_led_to("message", &next);
    next.unlock().await.unwrap();
}

async fn a_non_reentrant_waiter_fails_when_another_call_of_its_owner_gets_in(stage: &Stage) {
    let ((ours, theirs), name) = (stage.clients().await, unique("x"));
    let held = theirs.lock(&name).lock().await.unwrap();
    let lock = ours.lock(&name).owned_by(&Owner::new());
    let first = tokio::spawn(lock.lock());
    stage.rests(&ours, &name).await;
    let second = joins(&lock.non_reentrant());
    stage.placed(&ours, &name, 1).await;

    held.unlock().await.unwrap();

    let error = second.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldDeadlock);
    let guard = first.await.unwrap().unwrap();
    assert_led_to("message", &guard);
    assert_eq!(stage.counts(&name).await, [1]);
    drop(guard);
    stage.freed(&name).await;
}

/// The second call keeps the tenure alive when the first hold leaves; the third must not queue behind it.
async fn a_third_call_gets_in_while_the_second_is_on_its_way(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.lock("x").owned_by(&Owner::new());

    for round in 0..200 {
        let first = lock.lock().await.unwrap();
        let second = tokio::spawn(lock.lock());
        for _ in 0..round % 5 {
            tokio::task::yield_now().await;
        }
        let unlocking = tokio::spawn(first.unlock());
        for _ in 0..round / 5 % 5 {
            tokio::task::yield_now().await;
        }
        let third = lock.lock().await.unwrap();
        let second = second.await.unwrap().unwrap();
        unlocking.await.unwrap().unwrap();
        assert_eq!(stage.counts("x").await, [2]);
        drop(second);
        third.unlock().await.unwrap();
    }
}
