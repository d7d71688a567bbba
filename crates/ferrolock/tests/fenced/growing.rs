//! Fences grow: over holders, clients, processes that lose their lock, and servers that lose their data.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrolock::{Client, Fence, FenceGate, LostReason, Owner};
use testkit::{Kind, Server};

use crate::stage::Stage;

stories_of_one_kind!(
    each_holder_has_a_larger_fence_than_the_one_before,
    holders_of_two_clients_in_a_crowd_have_growing_fences,
    a_reentry_has_the_fence_of_the_first_entry,
    a_holder_whose_lease_ran_out_is_refused_by_the_gate,
    a_name_that_stays_taken_and_is_freed_by_force_has_growing_fences,
);

on_each_server!(fences_grow_although_the_server_loses_its_data_again_and_again);

async fn fence_of(client: &Client, name: &str) -> Fence {
    let guard = client.fenced_lock(name).lock().await.unwrap();
    let fence = guard.fence();
    guard.unlock().await.unwrap();
    fence
}

fn assert_growing(fences: &[Fence]) {
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

async fn each_holder_has_a_larger_fence_than_the_one_before(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let mut fences = Vec::new();

    for client in [&us, &them, &us, &us, &them, &them] {
        fences.push(fence_of(client, "x").await);
    }

    assert_growing(&fences);
}

/// Each holder notes its fence while it holds: the notes are in the order of the grants.
async fn holders_of_two_clients_in_a_crowd_have_growing_fences(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let notes = Arc::new(Mutex::new(Vec::new()));

    let mut crowd = tokio::task::JoinSet::new();
    for client in [us, them] {
        for _ in 0..8 {
            let (lock, notes) = (client.fenced_lock("x"), notes.clone());
            crowd.spawn(async move {
                for _ in 0..5 {
                    let guard = lock.lock().await.unwrap();
                    notes.lock().unwrap().push(guard.fence());
                    guard.unlock().await.unwrap();
                }
            });
        }
    }
    crowd.join_all().await;

    let notes = notes.lock().unwrap();
    assert_eq!(notes.len(), 80);
    assert_growing(&notes);
}

async fn a_reentry_has_the_fence_of_the_first_entry(stage: &Stage) {
    let client = stage.client().await;
    let (owner, other) = (Owner::new(), client.fenced_lock("y"));
    let lock = client.fenced_lock("x").owned_by(&owner);
    let first = lock.lock().await.unwrap();
    other.lock().await.unwrap().unlock().await.unwrap();

    let (again, relocked) = (lock.lock().await.unwrap(), first.relock().await.unwrap());

    assert_eq!(again.fence(), first.fence());
    assert_eq!(relocked.fence(), first.fence());
}

async fn a_holder_whose_lease_ran_out_is_refused_by_the_gate(stage: &Stage) {
    let (us, them) = stage.clients().await;
    let gate = FenceGate::new();
    let short = us.fenced_lock("x").lease(Duration::from_millis(300));
    let paused = short.lock().await.unwrap();
    gate.admit(paused.fence()).unwrap();

    let next = them.fenced_lock("x").lock().await.unwrap();
    gate.admit(next.fence()).unwrap();

    let refused = gate.admit(paused.fence()).unwrap_err();
    assert_eq!(
        (refused.presented(), refused.highest()),
        (paused.fence(), next.fence())
    );
    assert_eq!(paused.lost().await, LostReason::Expired);
}

async fn a_name_that_stays_taken_and_is_freed_by_force_has_growing_fences(stage: &Stage) {
    let client = stage.client().await;
    let lock = client.fenced_lock("x");
    let first = lock.lock().await.unwrap();
    let mut fences = vec![first.fence()];

    first.unlock_after(Duration::from_secs(600)).await.unwrap();
    assert!(lock.force_unlock().await.unwrap());
    fences.push(fence_of(&client, "x").await);

    assert_growing(&fences);
}

/// Each grant is to a client that has seen no fence before.
async fn fences_grow_although_the_server_loses_its_data_again_and_again(kind: Kind) {
    let server = Server::start(kind);
    let mut fences = Vec::new();

    for round in 0..40 {
        let client = Client::connect(server.url()).await.unwrap();
        fences.push(fence_of(&client, "x").await);
        match round % 4 {
            0 => drop(server.command(&["FLUSHALL"])),
            1 => drop(server.command(&["DEL", "redisson_lock_token:{x}"])),
            2 if round % 8 == 2 => {
                server.kill();
                server.restart();
            }
            _ => {}
        }
    }

    assert_growing(&fences);
}
