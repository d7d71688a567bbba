//! An owner who comes again with a guard in hand that is lost.

use std::time::Duration;

use ferrolock::{Client, ErrorKind, LostReason, Owner, Unlocked};

const LEASE: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_re_entry_under_a_hold_that_ran_out_is_told_so_and_the_next_acquisition_is_a_new_one() {
    let client = Client::memory();
    let me = Owner::new();
    let lock = client.lock("orders").owned_by(&me);
    let outer = lock.clone().lease(LEASE).lock().await.unwrap();
    outer.lost().await;
    tokio::time::sleep(LEASE).await;

    // Whoever is inside believes in the outer hold: a silent new one would hide its loss.
    let error = lock.lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");

    let next = lock.lock().await.unwrap();
    assert_eq!(
        outer.ensure_held().unwrap_err().lost_reason(),
        Some(LostReason::Expired)
    );
    assert!(next.is_held());
    drop(outer);
    tokio::time::sleep(LEASE).await;
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

    // There is nothing to wait for itself for: it gets the lock when the server has ended the lease.
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
