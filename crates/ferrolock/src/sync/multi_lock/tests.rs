//! Multi locks in paused time, over engines that lie.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "test code: a failure ends the test"
)]

mod failures;
mod together;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::options::Settings;
use crate::testing::census::Census;
use crate::testing::lying::{Lie, Lying, Reach, Silence};
use crate::testing::scenes::{insider, insider_with, ms, pair};
use crate::{
    AnyGuard, AnyLock, Client, ErrorKind, HoldState, LostReason, MultiLock, Owner, Unlocked,
};

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn is_free(client: &Client, name: &str) -> bool {
    !client.lock(name).is_locked().await.unwrap()
}

/// What may happen to any call.
fn failures_of_a_call() -> [Lie; 10] {
    [
        Lie::NotSent,
        Lie::DropCall,
        Lie::DropReply,
        Lie::Late(s(2)),
        Lie::DelayCall(s(2)),
        Lie::DelayReply(s(2)),
        Lie::Hang,
        Lie::HangReply,
        Lie::Refuse("NOPERM"),
        Lie::Refuse("LOADING"),
    ]
}

/// Two servers; that of the second lies when a test orders it.
struct Two {
    honest: Client,
    liar: Client,
    lying: Arc<Lying>,
    cores: [Arc<crate::coordination::Core>; 2],
}

impl Two {
    fn new() -> Self {
        let (honest, _, first) = insider();
        let short = Settings {
            command_limit: s(1),
            unreachable_after: s(5),
            ..Settings::default()
        };
        let (liar, lying, second) = insider_with(short);
        let cores = [first, second];
        Self {
            honest,
            liar,
            lying,
            cores,
        }
    }

    /// One lock on each; that of the lying one comes second.
    fn both(&self) -> MultiLock {
        self.liar.lock("b").and(self.honest.lock("a"))
    }

    /// Asserts that neither is held, and that nothing is kept or owed for either.
    async fn nothing_left(&self, what: &str) {
        self.lying.honest();
        self.lying.heal();
        tokio::time::sleep(s(120)).await;
        assert!(is_free(&self.honest, "a").await, "{what}");
        assert!(is_free(&self.liar, "b").await, "{what}");
        for core in &self.cores {
            assert_eq!(core.census(), Census::default(), "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_are_taken_or_none() {
    let Pair { us, them } = two_clients("multi-all-or-none");
    let all: MultiLock = ["c", "a", "b"]
        .map(|name| us.lock(name))
        .into_iter()
        .collect();
    let theirs = them.lock("b").lock().await.unwrap();

    assert!(all.try_lock().await.unwrap().is_none());
    // What it had is given back in the background.
    tokio::time::sleep(ms(1)).await;
    assert!(is_free(&them, "a").await && is_free(&them, "c").await);

    theirs.unlock().await.unwrap();
    let guard = all.try_lock().await.unwrap().unwrap();
    for name in ["a", "b", "c"] {
        assert!(!is_free(&them, name).await);
    }
    assert_eq!(guard.name(), "a, b, c");
    assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
    for name in ["a", "b", "c"] {
        assert!(is_free(&them, name).await);
    }
}

struct Pair {
    us: Client,
    them: Client,
}

fn two_clients(space: &str) -> Pair {
    let pair = pair(space);
    let (us, them) = (pair.us, pair.them);
    Pair { us, them }
}

#[tokio::test(start_paused = true)]
async fn members_are_sorted_and_each_counts_once() {
    let (one, other) = (Client::memory(), Client::memory());
    let inner = one.lock("b").and(one.lock("a"));
    let all = inner.and(one.lock("b")).and(other.lock("a"));

    let names: Vec<String> = all
        .members()
        .iter()
        .map(|lock| lock.target.name().to_owned())
        .collect();
    // Two private spaces have one address, and are two places.
    assert_eq!(names, ["a", "a", "b"]);
    let guard = all.lock().await.unwrap();
    assert_eq!(guard.members().len(), 3);
    guard.unlock().await.unwrap();

    let empty = MultiLock::new(Vec::<AnyLock>::new()).lock().await;
    assert_eq!(empty.unwrap_err().kind(), ErrorKind::Invalid);
    let two_kinds = one.lock("a").and(one.fenced_lock("a")).lock().await;
    assert_eq!(two_kinds.unwrap_err().kind(), ErrorKind::Invalid);
    let bad_name = one.lock("a").and(one.lock("")).lock().await;
    assert_eq!(bad_name.unwrap_err().kind(), ErrorKind::Invalid);
    assert!(is_free(&one, "a").await);
}

#[tokio::test(start_paused = true)]
async fn two_clients_of_one_space_give_one_member() {
    let Pair { us, them } = two_clients("multi-one-member");

    let guard = us.lock("a").and(them.lock("a")).lock().await.unwrap();

    assert_eq!(guard.members().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_while_it_waits() {
    let Pair { us, them } = two_clients("multi-waits");
    let theirs = them.lock("b").lock().await.unwrap();
    let both = us.lock("a").and(us.lock("b"));
    let waiting = tokio::spawn(both.lock());
    tokio::time::sleep(s(5)).await;

    assert!(is_free(&them, "a").await);

    theirs.unlock().await.unwrap();
    let guard = waiting.await.unwrap().unwrap();
    assert!(!is_free(&them, "a").await && !is_free(&them, "b").await);
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_is_one_for_all() {
    let Pair { us, them } = two_clients("multi-limit");
    let first = them.lock("a").lease(s(2)).lock().await.unwrap();
    let _second = them.lock("b").lock().await.unwrap();
    let both = us.lock("a").and(us.lock("b"));
    let begun = tokio::time::Instant::now();

    assert!(both.try_lock_for(s(3)).await.unwrap().is_none());
    assert_eq!(begun.elapsed().as_secs(), 3);

    let error = both.clone().max_wait(s(3)).lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(error.waited().unwrap().as_secs(), 3);
    assert_eq!(error.lock_name(), Some("b"));
    assert!(error.holder_remaining().is_some());
    assert_eq!(error.nodes().len(), 1);
    assert_eq!(begun.elapsed().as_secs(), 6);
    tokio::time::sleep(s(1)).await;
    assert!(is_free(&them, "a").await);
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn the_shortest_max_wait_of_a_member_counts() {
    let Pair { us, them } = two_clients("multi-max-wait");
    let _theirs = them.lock("b").lock().await.unwrap();
    let both = us.lock("a").max_wait(s(7)).and(us.lock("b").max_wait(s(9)));

    let error = both.lock().await.unwrap_err();

    assert_eq!(error.waited().unwrap().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_counts_from_the_last_member() {
    let Pair { us, them } = two_clients("multi-lease");
    std::mem::forget(them.lock("b").lease(s(3)).lock().await.unwrap());
    // In order, so that the first is held while the second is waited for.
    for name in ["w", "x", "y", "z"] {
        std::mem::forget(them.lock(name).lease(s(2)).lock().await.unwrap());
    }
    let all: MultiLock = ["a", "b", "w", "x", "y", "z"]
        .map(|name| us.lock(name))
        .into_iter()
        .collect();

    let guard = all.lease(s(1)).lock().await.unwrap();

    assert!(guard.remaining() > ms(900));
    assert!(
        guard
            .members()
            .iter()
            .all(|member| member.remaining() > ms(900))
    );
    assert_eq!(guard.lost().await, LostReason::Expired);
}

/// A set that two others always have a part of is taken in order in the end.
#[tokio::test(start_paused = true)]
async fn a_large_set_is_not_starved_by_single_locks() {
    let Pair { us, them } = two_clients("multi-starved");
    let stop = CancellationToken::new();
    let mut others = Vec::new();
    for name in ["a", "b", "c", "d"] {
        for _ in 0..2 {
            let (lock, stop) = (them.lock(name), stop.clone());
            others.push(tokio::spawn(async move {
                while !stop.is_cancelled() {
                    let guard = lock.lock().await.unwrap();
                    tokio::time::sleep(ms(20)).await;
                    guard.unlock().await.unwrap();
                }
            }));
        }
    }
    tokio::time::sleep(ms(50)).await;
    let all: MultiLock = ["a", "b", "c", "d"]
        .map(|name| us.lock(name))
        .into_iter()
        .collect();

    let taken = tokio::time::timeout(s(30), all.lock()).await;

    taken
        .expect("it is served")
        .unwrap()
        .unlock()
        .await
        .unwrap();
    stop.cancel();
    for other in others {
        other.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_lost_as_soon_as_one_member_is() {
    let two = Two::new();
    let guard = two.both().lock().await.unwrap();
    let token = guard.cancellation_token();
    assert_eq!(guard.state(), HoldState::Held);

    two.liar.lock("b").force_unlock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::Removed);
    assert!(token.is_cancelled());
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Removed));
    assert!(guard.ensure_held().is_err());
    assert_eq!(guard.remaining(), Duration::ZERO);
    assert!(guard.relock().await.is_err());
    let error = guard.unlock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Lost);
    two.nothing_left("lost").await;
}

#[tokio::test(start_paused = true)]
async fn its_state_and_time_are_those_of_the_weakest_member() {
    let two = Two::new();
    let both = two
        .honest
        .lock("a")
        .lease(s(20))
        .and(two.liar.lock("b").lease(s(10)));
    let guard = both.lock().await.unwrap();
    assert_eq!(guard.remaining(), ms(9500));
    guard.unlock().await.unwrap();

    let guard = two.both().lock().await.unwrap();
    two.lying.partition(Reach::All, Silence::NotSent);
    tokio::time::sleep(s(15)).await;
    assert_eq!(guard.state(), HoldState::Uncertain);
    assert!(guard.is_held());
    two.lying.heal();
    tokio::time::sleep(s(10)).await;
    assert_eq!(guard.state(), HoldState::Held);
    guard.check().await.unwrap();
    guard.renew(s(60)).await.unwrap();
    assert!(guard.remaining() > s(55));
}

#[tokio::test(start_paused = true)]
async fn an_owner_enters_single_members_again() {
    let client = Client::memory();
    let (a, b) = (client.lock("a"), client.lock("b"));
    let owner = Owner::new();
    owner
        .scope(async {
            let both = a.clone().and(b.clone()).lock().await.unwrap();
            let single = b.lock().await.unwrap();
            assert_eq!(single.hold_count(), 2);
            assert_eq!(both.unlock().await.unwrap(), Unlocked::StillHeld(1));
            assert!(!is_free(&client, "b").await && is_free(&client, "a").await);
            single.unlock().await.unwrap();
        })
        .await;
    let outer = a.clone().owned_by(&owner).and(b.clone());
    let outer = outer.owned_by(&owner).lock().await.unwrap();
    let inner = outer.relock().await.unwrap();
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::StillHeld(1));
    assert_eq!(inner.unlock().await.unwrap(), Unlocked::Released);
    assert!(is_free(&client, "a").await && is_free(&client, "b").await);
}

#[tokio::test(start_paused = true)]
async fn unlock_after_leaves_all_names_taken_for_a_while() {
    let client = Client::memory();
    let both = client.lock("a").and(client.lock("b"));

    let guard = both.lock().await.unwrap();
    guard.unlock_after(s(60)).await.unwrap();

    tokio::time::sleep(s(58)).await;
    assert!(!is_free(&client, "a").await && !is_free(&client, "b").await);
    tokio::time::sleep(s(3)).await;
    assert!(is_free(&client, "a").await && is_free(&client, "b").await);
    assert_eq!(both.run(async |_| 7).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_one_client_fires_the_token() {
    let two = Two::new();
    let guard = two.both().lock().await.unwrap();
    let token = guard.cancellation_token();

    let ending = tokio::spawn(two.liar.shutdown(s(10)));
    token.cancelled().await;

    assert!(guard.is_held());
    guard.unlock().await.unwrap();
    ending.await.unwrap().unwrap();
    assert!(is_free(&two.honest, "a").await);
}

#[tokio::test(start_paused = true)]
async fn a_token_fires_when_all_is_given_back() {
    let client = Client::memory();
    let both = client.lock("a").and(client.lock("b"));
    for way in ["drop", "unlock"] {
        let guard = both.lock().await.unwrap();
        let token = guard.cancellation_token();
        match way {
            "drop" => drop(guard),
            _ => drop(guard.unlock().await.unwrap()),
        }
        assert!(token.is_cancelled(), "{way}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_erased_guard_keeps_what_its_kind_can_do() {
    let client = Client::memory();
    let fenced: AnyLock = client.fenced_lock("f").into();
    let plain: AnyLock = client.lock("p").erase();

    let guard = fenced.lock().await.unwrap();
    assert!(guard.fence().is_some());
    guard.unlock().await.unwrap();
    let guard = plain.lock().await.unwrap();
    assert_eq!(guard.fence(), None);
    guard.unlock().await.unwrap();

    let all = fenced.and(plain).lock().await.unwrap();
    let fences: Vec<bool> = all
        .members()
        .iter()
        .map(|member| member.fence().is_some())
        .collect();
    assert_eq!(fences, [true, false]);
    let any: AnyGuard = all.into();
    assert_eq!(any.fence(), None);
    assert_eq!(any.unlock().await.unwrap(), Unlocked::Released);
}

#[tokio::test(start_paused = true)]
async fn options_of_the_whole_are_those_of_each_member() {
    let client = Client::memory();
    let both = client.lock("a").and(client.lock("b")).label("move");

    let guard = both.max_hold(s(2)).lock().await.unwrap();

    for name in ["a", "b"] {
        let holders = client.lock(name).holders().await.unwrap();
        assert_eq!(holders[0].label.as_deref(), Some("move"));
    }
    assert_eq!(guard.lost().await, LostReason::MaxHold);
}

/// Once it takes its members in order, it keeps those that it has while it waits for the next. It kept them without an end:
/// a client that held the next one and wanted the first waited for it, and it for that client, for ever.
#[tokio::test(start_paused = true)]
async fn what_it_keeps_in_order_is_given_back_in_the_end() {
    let Pair { us, them } = two_clients("multi-keeps-not-for-ever");
    let theirs_b = them.lock("b").lock().await.unwrap();
    let all = us.lock("a").and(us.lock("b"));
    let waiting = tokio::spawn(async move { all.lock().await.unwrap() });
    tokio::time::sleep(s(2)).await;
    // Its first round fails after more than a second: from then on it goes in order, and waits for the first.
    let theirs_a = them.lock("a").lock().await.unwrap();
    theirs_b.unlock().await.unwrap();
    tokio::time::sleep(s(1)).await;
    let theirs_b = them.lock("b").lock().await.unwrap();
    theirs_a.unlock().await.unwrap();
    tokio::time::sleep(s(1)).await;
    assert!(!is_free(&them, "a").await, "it has the first and waits");

    let theirs_a = them.lock("a").try_lock_for(s(10)).await.unwrap();

    let theirs_a = theirs_a.expect("the first is given back");
    assert!(!waiting.is_finished());
    theirs_a.unlock().await.unwrap();
    theirs_b.unlock().await.unwrap();
    assert!(waiting.await.unwrap().is_held());
}
