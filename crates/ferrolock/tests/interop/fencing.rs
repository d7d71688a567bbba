//! The fences of both sides: one row of numbers, whoever takes the lock.

use ferrolock::{Client, Fence, FenceGate, Owner};
use testkit::java::{JavaLock, json};

use crate::scene::Scene;

stories!(newest:
    fences_grow_while_both_sides_take_turns,
    after_a_loss_of_all_data_java_begins_at_1_and_is_refused_until_one_of_ours_was_granted,
    a_reentry_of_java_has_the_next_fence_and_one_of_ours_keeps_its_own,
    a_late_holder_of_either_side_is_refused_by_the_gate,
);

async fn of_ours(client: &Client) -> Fence {
    let guard = client.fenced_lock("ledger").lock().await.unwrap();
    let fence = guard.fence();
    guard.unlock().await.unwrap();
    fence
}

/// Takes it; the caller unlocks.
fn taken(java: &JavaLock) -> Fence {
    fence(java.call("lockAndGetToken", json!([])).unwrap())
}

fn of_java(java: &JavaLock) -> Fence {
    let token = taken(java);
    java.unlock().unwrap();
    token
}

fn last(java: &JavaLock) -> Fence {
    fence(java.call("getToken", json!([])).unwrap())
}

fn fence(token: i64) -> Fence {
    token.to_string().parse().unwrap()
}

async fn fences_grow_while_both_sides_take_turns(scene: &Scene) {
    let java = scene.java.thread("a").fenced("ledger");
    let mut fences = Vec::new();

    for round in 0..20 {
        // A client that has seen no fence, and one that has seen many.
        let other = Client::connect(scene.server.url()).await.unwrap();
        let client = if round % 3 == 0 { &other } else { &scene.ours };
        fences.push(of_ours(client).await);
        assert_eq!(last(&java), *fences.last().unwrap());
        fences.push(of_java(&java));
        if round % 2 == 0 {
            fences.push(of_java(&java));
        }
    }

    assert_growing(&fences);
}

fn assert_growing(fences: &[Fence]) {
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

async fn after_a_loss_of_all_data_java_begins_at_1_and_is_refused_until_one_of_ours_was_granted(
    scene: &Scene,
) {
    let java = scene.java.thread("a").fenced("ledger");
    let gate = FenceGate::new();
    let mut admitted = vec![of_java(&java), of_ours(&scene.ours).await, of_java(&java)];
    admitted
        .iter()
        .for_each(|fence| gate.admit(*fence).unwrap());

    scene.server.command(&["FLUSHALL"]);
    for number in 1..=3 {
        let alone = of_java(&java);
        assert_eq!(alone.get(), number);
        assert!(gate.admit(alone).is_err(), "{alone}");
    }
    // It knows no fence but that of the server.
    let fresh = Client::connect(scene.server.url()).await.unwrap();
    for fence in [
        of_ours(&fresh).await,
        of_java(&java),
        of_ours(&scene.ours).await,
    ] {
        gate.admit(fence).unwrap();
        admitted.push(fence);
    }

    assert_growing(&admitted);
}

/// W16.
async fn a_reentry_of_java_has_the_next_fence_and_one_of_ours_keeps_its_own(scene: &Scene) {
    let java = scene.java.thread("a").fenced("ledger");
    let (outer, inner) = (taken(&java), taken(&java));
    assert_eq!(inner.get(), outer.get() + 1);
    java.unlock().unwrap();
    java.unlock().unwrap();

    let lock = scene.ours.fenced_lock("ledger").owned_by(&Owner::new());
    let first = lock.lock().await.unwrap();
    let again = lock.lock().await.unwrap();

    assert!(first.fence() > inner);
    assert_eq!(again.fence(), first.fence());
    assert_eq!(last(&java), first.fence());
    again.unlock().await.unwrap();
    let ours = first.fence();
    first.unlock().await.unwrap();
    assert_eq!(of_java(&java).get(), ours.get() + 1);
}

async fn a_late_holder_of_either_side_is_refused_by_the_gate(scene: &Scene) {
    let java = scene.java.thread("a").fenced("ledger");
    let gate = FenceGate::new();
    let late = scene.ours.fenced_lock("ledger").lock().await.unwrap();

    assert!(java.force_unlock().unwrap());
    let javas = taken(&java);
    gate.admit(javas).unwrap();
    assert!(gate.admit(late.fence()).is_err());
    assert!(late.check().await.is_err());

    let lock = scene.ours.fenced_lock("ledger");
    assert!(lock.force_unlock().await.unwrap());
    let next = lock.lock().await.unwrap();
    gate.admit(next.fence()).unwrap();
    assert!(gate.admit(javas).is_err());
    assert!(java.unlock().is_err());
    next.unlock().await.unwrap();
}
