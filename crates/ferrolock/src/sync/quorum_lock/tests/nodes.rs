//! Nodes that join late, are lost, and come back.

use super::{ACQUIRE, Nodes, s};
use crate::testing::lying::{Lie, Match, Reach, Silence};
use crate::testing::scenes::ms;
use crate::{ErrorKind, HoldState, LostReason};

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_late_joins() {
    let nodes = Nodes::new(3);
    nodes.lying[2].next_of(Match::script(ACQUIRE), Lie::DelayReply(ms(50)));
    let guard = nodes.lock().lock().await.unwrap();
    tokio::time::sleep(ms(60)).await;
    assert_eq!(nodes.held_on().await, 3);

    nodes
        .client(0)
        .fenced_lock("x")
        .force_unlock()
        .await
        .unwrap();
    tokio::time::sleep(s(60)).await;

    assert!(guard.is_held());
    guard.unlock().await.unwrap();
    nodes.nothing_left("joined").await;
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_after_the_end_is_given_back() {
    let nodes = Nodes::new(3);
    nodes.lying[2].next_of(Match::script(ACQUIRE), Lie::DelayReply(ms(50)));
    let guard = nodes.lock().lock().await.unwrap();
    guard.unlock().await.unwrap();
    nodes.nothing_left("given back").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_hold_is_taken_again() {
    let nodes = Nodes::new(5);
    let guard = nodes.lock().lock().await.unwrap();
    for lost in [[0, 4], [1, 2]] {
        for node in lost {
            let lock = nodes.client(node).fenced_lock("x");
            assert!(lock.force_unlock().await.unwrap());
        }
        tokio::time::sleep(s(30)).await;
        assert_eq!(guard.state(), HoldState::Held, "{lost:?}");
        assert_eq!(nodes.held_on().await, 5, "{lost:?}");
    }
    let again = guard.relock().await.unwrap();
    assert_eq!(again.fence(), guard.fence());
    again.unlock().await.unwrap();
    guard.unlock().await.unwrap();
    nodes.nothing_left("taken again").await;
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_removed_from_all_nodes_is_not_taken_again() {
    let nodes = Nodes::new(3);
    let guard = nodes.lock().lock().await.unwrap();

    assert!(nodes.lock().force_unlock().await.unwrap());

    assert_eq!(guard.lost().await, LostReason::Removed);
    drop(guard);
    nodes.nothing_left("removed").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_down_joins_when_it_is_back() {
    let nodes = Nodes::new(3);
    nodes.lying[0].partition(Reach::All, Silence::NotSent);
    let guard = nodes.lock().lock().await.unwrap();
    tokio::time::sleep(s(60)).await;
    nodes.lying[0].heal();
    tokio::time::sleep(s(20)).await;
    assert_eq!(nodes.held_on().await, 3);

    nodes.lying[1].partition(Reach::All, Silence::Hang);
    tokio::time::sleep(s(60)).await;

    assert!(guard.is_held());
    drop(guard);
    nodes.nothing_left("joined").await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_lost_their_data_are_kept_out() {
    let nodes = Nodes::new(3);
    let quorum = nodes.quorum.clone().rejoin_after(s(60));
    let error = quorum.lock("x").lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert_eq!(error.nodes()[0].error().code(), Some("FRESH"), "{error}");

    quorum.initialise().await.unwrap();
    let guard = quorum.lock("x").lock().await.unwrap();
    nodes.lying[0].forget();
    nodes.lying[1].forget();
    // Two of three have forgotten the holder: without the age of their data there would be a second one.
    let error = quorum.lock("x").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert!(guard.is_held());
    drop(guard);
    tokio::time::sleep(s(61)).await;
    quorum
        .lock("x")
        .lock()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}
