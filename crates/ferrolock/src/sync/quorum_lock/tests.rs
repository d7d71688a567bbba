//! Quorum locks in paused time, over engines that lie.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a failure ends the test"
)]

mod majorities;
mod nodes;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::coordination::Core;
use crate::engine::Engine;
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::testing::census::Census;
use crate::testing::lying::{Lie, Lying, Match, Reach, Silence};
use crate::testing::scenes::{self, ms};
use crate::{
    AnyGuard, Client, ErrorKind, HoldState, LostReason, Owner, Quorum, QuorumLock, Remaining,
    Unlocked,
};

const ACQUIRE: &str = "fenced_lock/acquire";
const LEASE: Duration = Duration::from_secs(30);

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Servers that lie when a test orders it.
struct Nodes {
    quorum: Quorum,
    servers: Vec<Arc<MemoryEngine>>,
    lying: Vec<Arc<Lying>>,
    cores: Vec<Arc<Core>>,
}

impl Nodes {
    fn new(count: usize) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let set = NEXT.fetch_add(1, Ordering::Relaxed);
        let space = |node| format!("quorum-{set}-{node}");
        Self::of((0..count).map(|node| MemoryEngine::open(Some(&space(node)))))
    }

    /// The same servers as another process sees them.
    fn beside(&self) -> Self {
        let space = |server: &Arc<MemoryEngine>| {
            let address = server.address().trim_start_matches("memory:");
            MemoryEngine::open(Some(address))
        };
        Self::of(self.servers.iter().map(space))
    }

    fn of(servers: impl Iterator<Item = Arc<MemoryEngine>>) -> Self {
        let servers: Vec<_> = servers.collect();
        let lying: Vec<_> = servers.iter().cloned().map(Lying::over_memory).collect();
        let core = |lying: &Arc<Lying>| scenes::core(lying.clone(), Settings::default());
        let cores: Vec<_> = lying.iter().map(core).collect();
        Self {
            quorum: Quorum::new(cores.iter().cloned().map(Client::of)),
            servers,
            lying,
            cores,
        }
    }

    fn lock(&self) -> QuorumLock {
        self.quorum.lock("x")
    }

    fn client(&self, node: usize) -> &Client {
        &self.quorum.clients()[node]
    }

    async fn held_on(&self) -> usize {
        let mut held = 0;
        for client in self.quorum.clients() {
            held += usize::from(client.fenced_lock("x").is_locked().await.unwrap());
        }
        held
    }

    /// Asserts that no node is held, and that nothing is kept or owed for any of them.
    async fn nothing_left(&self, what: &str) {
        for lying in &self.lying {
            lying.honest();
            lying.heal();
        }
        tokio::time::sleep(s(120)).await;
        assert_eq!(self.held_on().await, 0, "{what}");
        for core in &self.cores {
            assert_eq!(core.census(), Census::default(), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_majority_is_the_lock_and_its_fence_grows() {
    let nodes = Nodes::new(5);
    let guard = nodes.lock().lock().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    assert_eq!(guard.name(), "x");
    assert_eq!(guard.owner_id().client(), nodes.client(0).id());
    assert_eq!(guard.hold_count(), 1);
    assert_eq!(nodes.held_on().await, 5);
    assert!(nodes.lock().try_lock().await.unwrap().is_none());
    let fence = guard.fence();

    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
    assert!(nodes.lock().lock().await.unwrap().fence() > fence);
    nodes.nothing_left("released").await;
}

#[tokio::test(start_paused = true)]
async fn fewer_than_three_nodes_are_no_quorum() {
    for count in 0..3 {
        let error = Nodes::new(count).lock().lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    let error = Quorum::connect(["memory:", "memory:"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    let drifting = Nodes::new(3).quorum.clock_drift(500).lock("x");
    assert_eq!(
        drifting.lock().await.unwrap_err().kind(),
        ErrorKind::Invalid
    );
}

/// A minority that is down, stopped or refuses costs no time.
#[tokio::test(start_paused = true)]
async fn a_bad_minority_costs_no_time() {
    let lies = [
        Lie::NotSent,
        Lie::Hang,
        Lie::HangReply,
        Lie::DropCall,
        Lie::DropReply,
        Lie::Late(ms(50)),
        Lie::Refuse("NOPERM"),
    ];
    for lie in lies {
        let nodes = Nodes::new(5);
        for node in [0, 3] {
            nodes.lying[node].always(Match::any(), lie.clone());
        }
        let begun = Instant::now();
        let guard = nodes.lock().lock().await.unwrap();
        assert!(begun.elapsed() < ms(10), "{lie:?}: {:?}", begun.elapsed());
        assert_eq!(guard.owner_id().client(), nodes.client(1).id());
        guard.unlock().await.unwrap();
        assert!(begun.elapsed() < ms(60), "{lie:?}: {:?}", begun.elapsed());
        nodes.nothing_left(&format!("{lie:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_bad_majority_is_a_clear_error_within_the_limit() {
    for lie in [Lie::NotSent, Lie::Hang, Lie::HangReply, Lie::DropReply] {
        let nodes = Nodes::new(5);
        for node in [0, 2, 3] {
            nodes.lying[node].always(Match::any(), lie.clone());
        }
        let begun = Instant::now();
        let error = nodes.lock().lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{lie:?}: {error}");
        assert!(error.is_transient());
        assert_eq!(error.nodes().len(), 3, "{error}");
        assert!(begun.elapsed() <= ms(160), "{lie:?}: {:?}", begun.elapsed());
        nodes.nothing_left(&format!("{lie:?}")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_served_when_the_holder_releases() {
    let nodes = Nodes::new(3);
    let guard = nodes.lock().lock().await.unwrap();
    let waiting = tokio::spawn(nodes.lock().lock());
    tokio::time::sleep(s(10)).await;
    let begun = Instant::now();

    guard.unlock().await.unwrap();

    waiting.await.unwrap().unwrap().unlock().await.unwrap();
    assert!(begun.elapsed() < ms(200), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiting_has_one_limit() {
    let nodes = Nodes::new(3);
    let _guard = nodes.lock().lock().await.unwrap();
    let begun = Instant::now();

    assert!(nodes.lock().try_lock_for(s(3)).await.unwrap().is_none());
    assert_eq!(begun.elapsed().as_secs(), 3);
    let error = nodes.lock().max_wait(s(3)).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(begun.elapsed().as_secs(), 6);

    let token = CancellationToken::new();
    let waiting = tokio::spawn(nodes.lock().cancelled_by(&token).lock());
    tokio::time::sleep(s(2)).await;
    token.cancel();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_is_that_of_the_majority_without_the_drift() {
    let nodes = Nodes::new(3);
    let guard = nodes.lock().lease(LEASE).lock().await.unwrap();
    // A twentieth is the margin, a hundredth and 2 ms the drift.
    assert_eq!(guard.remaining(), LEASE - ms(1500) - ms(302));
    guard.renew(s(100)).await.unwrap();
    assert_eq!(guard.remaining(), s(100) - s(5) - ms(1002));
    assert_eq!(guard.lost().await, LostReason::Expired);

    let quorum = nodes.quorum.clone().clock_drift(100);
    let guard = quorum.lock("y").lease(LEASE).lock().await.unwrap();
    assert_eq!(guard.remaining(), LEASE - ms(1500) - ms(3002));
}

#[tokio::test(start_paused = true)]
async fn it_is_held_while_a_majority_is_and_lost_with_it() {
    let nodes = Nodes::new(5);
    let guard = nodes.lock().lock().await.unwrap();
    let token = guard.cancellation_token();
    for node in [0, 4] {
        let lock = nodes.client(node).fenced_lock("x");
        assert!(lock.force_unlock().await.unwrap());
        // It cannot be taken again.
        nodes.lying[node].always(Match::script(ACQUIRE), Lie::Refuse("NOPERM"));
    }
    tokio::time::sleep(s(60)).await;
    assert!(guard.is_held() && !token.is_cancelled());
    guard.check().await.unwrap();

    nodes
        .client(2)
        .fenced_lock("x")
        .force_unlock()
        .await
        .unwrap();

    assert_eq!(guard.lost().await, LostReason::Removed);
    assert!(token.is_cancelled());
    assert_eq!(guard.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    nodes.nothing_left("lost").await;
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_cut_off_do_not_end_it_while_a_majority_renews() {
    let nodes = Nodes::new(5);
    let guard = nodes.lock().lock().await.unwrap();
    for node in [1, 2] {
        nodes.lying[node].partition(Reach::All, Silence::Hang);
    }
    tokio::time::sleep(s(300)).await;
    assert_eq!(guard.state(), HoldState::Held);

    nodes.lying[0].partition(Reach::All, Silence::NotSent);
    let begun = Instant::now();
    assert_eq!(guard.lost().await, LostReason::Expired);
    assert!(begun.elapsed() < LEASE);
    drop(guard);
    nodes.nothing_left("cut off").await;
}

#[tokio::test(start_paused = true)]
async fn a_fence_is_known_to_a_majority_before_its_guard_is_given_out() {
    let nodes = Nodes::new(3);
    // The fence of the first node is far ahead.
    let ahead = nodes.client(0).core().clone();
    let fenced = nodes.client(0).fenced_lock("x").lock().await.unwrap();
    let name: Arc<str> = "x".into();
    let far = fenced.fence().get() + 1_000_000_000_000;
    let call = crate::protocol::fenced_lock::raise(&name, &fenced.tenure().bearer, far);
    ahead
        .ask(crate::engine::Lane::Commands, None, call)
        .await
        .unwrap();
    fenced.unlock().await.unwrap();

    let first = nodes.lock().lock().await.unwrap();
    assert!(first.fence().get() > far);
    let fence = first.fence();
    first.unlock().await.unwrap();
    nodes.lying[0].partition(Reach::All, Silence::NotSent);

    assert!(nodes.lock().lock().await.unwrap().fence() > fence);
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_leaves_no_node_held() {
    for is_busy in [false, true] {
        for polls in 0..200 {
            let nodes = Nodes::new(3);
            let busy = match is_busy {
                true => {
                    let fenced = nodes.client(0).fenced_lock("x");
                    let other = nodes.client(1).fenced_lock("x");
                    let both = fenced.and(other).lease(ms(300));
                    Some(both.lock().await.unwrap())
                }
                false => None,
            };
            let dropped = testkit::drop_after_polls(polls, nodes.lock().lock()).await;
            let finished = dropped.finished();
            let is_finished = finished.is_some();
            drop((finished, busy));
            nodes
                .nothing_left(&format!("{is_busy}, {polls} polls"))
                .await;
            if is_finished {
                assert!(polls > 0);
                break;
            }
            assert!(polls < 199, "it does not finish");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn contenders_never_hold_at_once() {
    let nodes = Nodes::new(5);
    let inside = Arc::new(AtomicU32::new(0));
    let mut tasks = Vec::new();
    for _ in 0..5 {
        let (lock, inside) = (nodes.lock(), inside.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = lock.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                tokio::time::sleep(ms(3)).await;
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
                guard.unlock().await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    nodes.nothing_left("contenders").await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_enters_again_with_its_fence() {
    let nodes = Nodes::new(3);
    let owner = Owner::new();
    let outer = nodes.lock().owned_by(&owner).lock().await.unwrap();
    let inner = nodes.lock().owned_by(&owner).lock().await.unwrap();
    let third = inner.relock().await.unwrap();
    assert_eq!(
        (inner.fence(), third.fence()),
        (outer.fence(), outer.fence())
    );
    assert_eq!(third.hold_count(), 3);
    assert!(nodes.lock().is_held_by(&owner).await.unwrap());
    assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(2));
    drop(third);
    assert_eq!(outer.owner(), &owner);
    drop(outer);
    nodes.nothing_left("entered").await;
}

#[tokio::test(start_paused = true)]
async fn questions_are_answered_by_a_majority() {
    let nodes = Nodes::new(3);
    let lock = nodes.lock();
    assert!(!lock.is_locked().await.unwrap());
    let guard = lock.clone().label("import").lock().await.unwrap();
    assert!(lock.is_locked().await.unwrap());
    assert!(matches!(
        lock.remaining().await.unwrap(),
        Remaining::Left(_)
    ));
    let holders = lock.holders().await.unwrap();
    assert!(holders.len() >= 2);
    assert_eq!(holders[0].label.as_deref(), Some("import"));
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(guard.lost().await, LostReason::Removed);

    for node in [0, 1] {
        nodes.lying[node].partition(Reach::All, Silence::NotSent);
    }
    let error = lock.is_locked().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
}

#[tokio::test(start_paused = true)]
async fn a_name_stays_taken_on_the_nodes_after_unlock_after() {
    let nodes = Nodes::new(3);
    let guard = nodes.lock().lock().await.unwrap();
    guard.unlock_after(s(60)).await.unwrap();
    tokio::time::sleep(s(58)).await;
    assert!(nodes.lock().try_lock().await.unwrap().is_none());
    tokio::time::sleep(s(3)).await;
    assert_eq!(nodes.lock().run(async |_| 7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_quorum_lock_can_be_a_member_of_a_multi_lock() {
    let nodes = Nodes::new(3);
    let client = Client::memory();
    let both = nodes.lock().and(client.lock("a")).and(nodes.lock());
    assert_eq!(both.members().len(), 2);
    let guard = both.lock().await.unwrap();
    let token = guard.cancellation_token();
    assert!(guard.members()[1].fence().is_some());
    nodes
        .client(0)
        .fenced_lock("x")
        .force_unlock()
        .await
        .unwrap();
    nodes.lying[0].always(Match::script(ACQUIRE), Lie::Refuse("NOPERM"));
    tokio::time::sleep(s(30)).await;
    assert!(guard.is_held() && !token.is_cancelled());
    nodes
        .client(1)
        .fenced_lock("x")
        .force_unlock()
        .await
        .unwrap();
    assert_eq!(guard.lost().await, LostReason::Removed);
    assert!(token.is_cancelled());
    drop(guard);
    nodes.lying[0].honest();
    let any: AnyGuard = nodes.lock().lock().await.unwrap().into();
    assert!(any.fence().is_some());
}

#[tokio::test(start_paused = true)]
async fn connecting_is_content_with_a_majority() {
    let urls = ["memory:a", "redis://127.0.0.1:1", "memory:b"];
    let quorum = Quorum::connect(urls).await.unwrap();
    quorum
        .lock("x")
        .lock()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    assert_eq!(quorum.clients().len(), 3);

    let urls = ["memory:a", "redis://127.0.0.1:1", "redis://127.0.0.1:1"];
    let error = Quorum::connect(urls).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert_eq!(error.nodes().len(), 2, "{error}");
}

/// It took the nodes that came back, renewed them, and kept all other callers out, as long as its guard was not dropped.
#[tokio::test(start_paused = true)]
async fn a_lost_guard_takes_no_more_nodes() {
    let nodes = Nodes::new(3);
    nodes.lying[2].partition(Reach::All, Silence::NotSent);
    let guard = nodes.lock().lock().await.unwrap();
    nodes.lying[0].partition(Reach::All, Silence::Hang);
    nodes.lying[1].partition(Reach::All, Silence::Hang);
    guard.lost().await;
    tokio::time::sleep(LEASE).await;

    nodes.lying.iter().for_each(|lying| lying.heal());
    tokio::time::sleep(s(120)).await;

    assert_eq!(nodes.held_on().await, 0);
    assert!(nodes.beside().lock().try_lock().await.unwrap().is_some());
    drop(guard);
    nodes.nothing_left("lost").await;
}
