//! An owner acquires a lock again while it still has a lost guard of it.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, LostReason, Owner, Unlocked};

const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn an_owner_whose_hold_ran_out_gets_a_new_hold_and_the_old_one_stays_lost() {
    let client = Client::memory();
    let me = Owner::new();
    let lock = client.lock("orders").owned_by(&me);
    let outer = lock.clone().lease(LEASE).lock().await.unwrap();
    outer.lost().await;

    let next = lock.lock().await.unwrap();

    assert_ne!(next.owner_id(), outer.owner_id());
    let lost = outer.ensure_held().unwrap_err().lost_reason();
    assert_eq!(lost, Some(LostReason::Expired));
    drop(outer);
    tokio::time::sleep(LEASE).await;
    assert!(next.is_held());
    assert_eq!(next.hold_count(), 1);
    assert_eq!(next.unlock().await.unwrap(), Unlocked::Released);
}

#[tokio::test(start_paused = true)]
async fn a_non_reentrant_lock_whose_lease_ran_out_can_be_taken_again_by_its_owner() {
    let client = Client::memory();
    let me = Owner::new();
    let lock = client.lock("orders").owned_by(&me).non_reentrant();
    let outer = lock.clone().lease(LEASE).lock().await.unwrap();
    assert_eq!(
        lock.lock().await.unwrap_err().kind(),
        ErrorKind::WouldDeadlock
    );
    outer.lost().await;

    // It would not wait for itself: it gets the lock when the engine has ended the lease.
    let next = lock.lock().await.unwrap();

    assert!(next.is_held() && !outer.is_held());
    drop(outer);
    tokio::time::sleep(LEASE).await;
    assert!(next.is_held());
    assert_eq!(
        lock.lock().await.unwrap_err().kind(),
        ErrorKind::WouldDeadlock
    );
    assert_eq!(next.unlock().await.unwrap(), Unlocked::Released);
}
