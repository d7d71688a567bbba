//! One side forces a lock of the other open: the holder finds out, its late unlock does no harm, and all waiters get the lock.

use std::time::{Duration, Instant};

use ferrolock::{ErrorKind, LostReason};
use testkit::java::now;
use testkit::{LIMIT, eventually};

use crate::crowd::Crowd;
use crate::record::Record;
use crate::scene::{Scene, is_what_is_left, left, told};

stories!(
    our_next_renewal_reports_that_java_forced_the_lock_open,
    our_next_call_reports_that_java_forced_the_lock_open,
    our_late_unlock_does_not_affect_the_hold_of_java,
    javas_unlock_reports_that_ours_forced_the_lock_open,
    javas_late_unlock_does_not_affect_our_hold,
    waiters_of_both_sides_get_a_lock_that_java_forced_open_one_by_one,
    waiters_of_both_sides_get_a_lock_that_ours_forced_open_one_by_one,
    forcing_a_free_lock_returns_false_and_sends_no_message,
);

/// Renewed every third of it, so that a loss is noticed soon.
const WATCHDOG: Duration = Duration::from_secs(9);
const INTERVAL: Duration = Duration::from_secs(3);
const LEASE: Duration = Duration::from_secs(20);

async fn our_next_renewal_reports_that_java_forced_the_lock_open(scene: &Scene) {
    let java = scene.java.thread("a");
    let lock = |name: &str| scene.ours.lock(name).watchdog_lease(WATCHDOG);
    let forced = lock("forced").lock().await.unwrap();
    let taken = lock("taken").lock().await.unwrap();

    let forcing = now();
    assert!(java.lock("forced").force_unlock().unwrap());
    assert!(java.lock("taken").force_unlock().unwrap());
    java.lock("taken").lock().unwrap();

    assert_eq!(told(&forced).await, LostReason::Removed);
    assert_eq!(told(&taken).await, LostReason::TakenOver);
    let took = now() - forcing;
    eprintln!("told after {took:.1?}, renewed every {INTERVAL:.1?}");
    assert!(took < INTERVAL * 10, "{took:?}");
    assert!(!forced.is_held() && !taken.is_held());
    assert!(java.lock("taken").is_held().unwrap());
    assert!(!java.lock("forced").is_locked().unwrap(), "not revived");
}

async fn our_next_call_reports_that_java_forced_the_lock_open(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let lock = scene.ours.lock("orders").lease(LEASE);
    for call in ["check", "renew", "relock", "unlock"] {
        let guard = lock.lock().await.unwrap();
        assert!(java.force_unlock().unwrap());
        assert!(guard.is_held(), "there is no message for holders");

        let late = match call {
            "check" => guard.check().await.unwrap_err(),
            "renew" => guard.renew(LEASE).await.unwrap_err(),
            "relock" => guard.relock().await.map(drop).unwrap_err(),
            _ => guard.unlock().await.map(drop).unwrap_err(),
        };

        assert_eq!(late.kind(), ErrorKind::Lost, "{call}: {late}");
        assert_eq!(late.lost_reason(), Some(LostReason::Removed), "{call}");
        assert!(!java.is_locked().unwrap(), "{call}: not revived");
    }
}

async fn our_late_unlock_does_not_affect_the_hold_of_java(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    for way in ["unlock", "drop"] {
        let guard = scene.ours.lock("orders").lock().await.unwrap();
        let ours = guard.owner_id().clone();
        assert!(java.force_unlock().unwrap());
        let begun = Instant::now();
        java.lock_for(LEASE).unwrap();
        let record = Record::of(&scene.server);

        match way {
            "unlock" => {
                let late = guard.unlock().await.unwrap_err();
                assert_eq!(late.lost_reason(), Some(LostReason::TakenOver), "{late}");
            }
            _ => drop(guard),
        }
        let tried = || record.steps_of(ours.as_str()) > 0;
        eventually(LIMIT, "the late release of ours", tried);

        assert_eq!(scene.holders("orders"), [(java.thread().owner(), 1)]);
        let rest = left(&scene.ours.lock("orders")).await;
        assert!(is_what_is_left(rest, LEASE, begun), "{way}: {rest:?}");
        assert_eq!(record.messages("orders"), 0, "{way}");
        java.unlock().unwrap();
    }
}

async fn javas_unlock_reports_that_ours_forced_the_lock_open(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    java.lock().unwrap();
    java.lock().unwrap();

    assert!(scene.ours.lock("orders").force_unlock().await.unwrap());

    assert!(!java.is_held().unwrap());
    assert_eq!(java.hold_count().unwrap(), 0);
    for _ in 0..2 {
        let late = java.unlock().unwrap_err();
        assert!(late.is("IllegalMonitorStateException"), "{late}");
    }
    assert!(java.try_lock().unwrap());
    java.unlock().unwrap();
}

async fn javas_late_unlock_does_not_affect_our_hold(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    java.lock().unwrap();
    assert!(scene.ours.lock("orders").force_unlock().await.unwrap());
    let begun = Instant::now();
    let guard = scene.ours.lock("orders").lease(LEASE).lock().await.unwrap();
    let record = Record::of(&scene.server);

    let late = java.unlock().unwrap_err();

    assert!(late.is("IllegalMonitorStateException"), "{late}");
    let ours = guard.owner_id().as_str().to_owned();
    assert_eq!(scene.holders("orders"), [(ours, 1)]);
    let rest = left(&scene.ours.lock("orders")).await;
    assert!(is_what_is_left(rest, LEASE, begun), "{rest:?}");
    assert_eq!(record.messages("orders"), 0);
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
}

async fn waiters_of_both_sides_get_a_lock_that_java_forced_open_one_by_one(scene: &Scene) {
    let _guard = scene.ours.lock("orders").lock().await.unwrap();
    let crowd = Crowd::gather(scene, 0).await;
    let record = Record::of(&scene.server);

    let forcing = now();
    let by = scene.java.thread("by").lock("orders");
    assert!(by.force_unlock().unwrap());
    assert_eq!(record.messages("orders"), 1);

    crowd.get_it_one_by_one(scene, forcing).await;
}

async fn waiters_of_both_sides_get_a_lock_that_ours_forced_open_one_by_one(scene: &Scene) {
    scene.java.thread("holder").lock("orders").lock().unwrap();
    let crowd = Crowd::gather(scene, 0).await;
    let record = Record::of(&scene.server);

    let forcing = now();
    assert!(scene.ours.lock("orders").force_unlock().await.unwrap());
    assert_eq!(record.messages("orders"), 1);

    crowd.get_it_one_by_one(scene, forcing).await;
}

async fn forcing_a_free_lock_returns_false_and_sends_no_message(scene: &Scene) {
    let record = Record::of(&scene.server);

    assert!(
        !scene
            .java
            .thread("a")
            .lock("orders")
            .force_unlock()
            .unwrap()
    );
    assert!(!scene.ours.lock("orders").force_unlock().await.unwrap());

    assert_eq!(record.messages("orders"), 0);
}
