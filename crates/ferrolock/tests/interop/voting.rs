//! A majority means the same to Redisson's red lock and to a quorum of ours: with a lock of one name on each of three servers,
//! neither side gets in while the other has two of them.

use ferrolock::{AnyGuard, AnyLock};
use testkit::java::JavaLock;

use crate::scene::Scene;
use crate::sort::{Ground, Sort};

stories!(
    a_majority_is_enough_for_either_side_and_keeps_the_other_out,
    neither_side_gets_in_without_a_majority_and_it_leaves_nothing,
    a_plain_lock_of_either_side_on_a_majority_of_servers_keeps_both_out,
);

/// A plain lock of ours on that server.
async fn alone(ground: &Ground, node: usize) -> AnyGuard {
    let lock: AnyLock = ground.ours[node].lock("vault").erase();
    lock.try_lock().await.unwrap().expect("it is free")
}

fn javas_alone(ground: &Ground, node: usize) -> JavaLock {
    let lock = ground.javas[node].thread("alone").lock("vault");
    assert!(lock.try_lock().unwrap(), "it is free");
    lock
}

async fn a_majority_is_enough_for_either_side_and_keeps_the_other_out(scene: &Scene) {
    let ground = Ground::of(scene, Sort::Red).await;
    let (java, ours) = (ground.java("a"), ground.our_lock());
    for busy in 0..3 {
        let held = alone(&ground, busy).await;

        assert!(java.try_lock().unwrap(), "two are enough for Java: {busy}");
        assert!(ours.try_lock().await.unwrap().is_none(), "{busy}");
        java.unlock().unwrap();
        let guard = ours.try_lock().await.unwrap();
        let guard = guard.unwrap_or_else(|| panic!("two are enough for ours: {busy}"));
        assert!(!java.try_lock().unwrap(), "{busy}");
        guard.unlock().await.unwrap();

        held.unlock().await.unwrap();
    }
}

async fn neither_side_gets_in_without_a_majority_and_it_leaves_nothing(scene: &Scene) {
    let ground = Ground::of(scene, Sort::Red).await;
    let (java, ours) = (ground.java("a"), ground.our_lock());
    for free in 0..3 {
        let mut held = Vec::new();
        for node in (0..3).filter(|node| *node != free) {
            held.push(alone(&ground, node).await);
        }

        assert!(!java.try_lock().unwrap(), "{free}");
        assert!(ours.try_lock().await.unwrap().is_none(), "{free}");

        let rest = ground.ours[free].lock("vault");
        let is_free = async || !rest.is_locked().await.unwrap();
        testkit::eventually_async(testkit::LIMIT, "nothing is left", is_free).await;
        for guard in held {
            guard.unlock().await.unwrap();
        }
    }
}

async fn a_plain_lock_of_either_side_on_a_majority_of_servers_keeps_both_out(scene: &Scene) {
    let ground = Ground::of(scene, Sort::Red).await;
    let (java, ours) = (ground.java("a"), ground.our_lock());
    let one = javas_alone(&ground, 0);
    let other = alone(&ground, 1).await;

    assert!(!java.try_lock().unwrap());
    assert!(ours.try_lock().await.unwrap().is_none());

    one.unlock().unwrap();
    let guard = ours.try_lock().await.unwrap().expect("two are free");
    assert!(!java.try_lock().unwrap());
    guard.unlock().await.unwrap();
    other.unlock().await.unwrap();
    assert!(java.try_lock().unwrap());
    java.unlock().unwrap();
}
