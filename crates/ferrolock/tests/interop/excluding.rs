//! Fenced, spin and multi locks, and a majority of servers: each side keeps the other out, and lets it in when it leaves.

use std::time::Duration;

use ferrolock::{AnyLock, Owner, Unlocked};
use testkit::java::{Place, now};
use testkit::{Counter, LIMIT, eventually};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::scene::{Scene, assert_at_once};
use crate::sort::{Ground, Sort};

/// Lists the stories of each sort; the oldest Redisson has no fenced lock.
macro_rules! of_each_sort {
    ($($story:ident),+ $(,)?) => {
        of_each_sort!(@ fenced Fenced newest: $($story)+);
        of_each_sort!(@ spin Spin all: $($story)+);
        of_each_sort!(@ multi Multi all: $($story)+);
        of_each_sort!(@ red Red all: $($story)+);
    };
    (@ $module:ident $sort:ident $versions:ident: $($story:ident)+) => {
        mod $module {
            use crate::scene::Scene;
            $(async fn $story(scene: &Scene) {
                super::$story(scene, crate::sort::Sort::$sort).await;
            })+
            stories!($versions: $($story),+);
        }
    };
}

of_each_sort!(
    while_one_side_holds_the_other_finds_it_busy,
    each_side_gets_it_when_the_other_leaves,
    a_holder_of_either_side_enters_again_and_leaves_by_the_last_unlock,
    both_sides_count_exactly,
);

async fn while_one_side_holds_the_other_finds_it_busy(scene: &Scene, sort: Sort) {
    let ground = Ground::of(scene, sort).await;
    let (java, ours) = (ground.java("a"), ground.our_lock());

    for _ in 0..2 {
        java.lock().unwrap();
        assert!(ours.try_lock().await.unwrap().is_none());
        java.unlock().unwrap();

        let guard = ours.try_lock().await.unwrap().expect("it is free");
        assert!(!java.try_lock().unwrap());
        assert!(!java.try_lock_within(Duration::from_millis(100)).unwrap());
        guard.check().await.unwrap();
        guard.unlock().await.unwrap();

        assert!(java.try_lock().unwrap());
        java.unlock().unwrap();
    }
}

async fn each_side_gets_it_when_the_other_leaves(scene: &Scene, sort: Sort) {
    let ground = Ground::of(scene, sort).await;
    let (java, ours) = (ground.java("a"), ground.our_lock());
    let until_refused = |before: u64| {
        let asked = || ground.refused(scene) >= before + 2;
        eventually(LIMIT, "the waiter was refused", asked);
    };

    for _ in 0..3 {
        java.lock().unwrap();
        let before = ground.refused(scene);
        let waiting = tokio::spawn(ours.lock());
        until_refused(before);
        let leaving = now();
        java.unlock().unwrap();
        let guard = waiting.await.unwrap().unwrap();
        assert_soon(sort, "ours after Java's unlock", leaving, now());

        let before = ground.refused(scene);
        let waiting = java.begin_lock();
        until_refused(before);
        assert!(!waiting.is_done());
        let leaving = now();
        guard.unlock().await.unwrap();
        let granted = waiting.answer(LIMIT);
        granted.result.unwrap();
        assert_soon(sort, "Java's after our unlock", leaving, granted.ended);
        java.unlock().unwrap();
    }
}

/// Not by the end of a lease. A red lock takes one server after the other, and waits for each by itself.
fn assert_soon(sort: Sort, what: &str, from: Duration, to: Duration) {
    match sort {
        Sort::Red => {
            let took = to.saturating_sub(from);
            eprintln!("{what}: {took:.1?}");
            assert!(took < Duration::from_secs(10), "{what}: {took:?}");
        }
        _ => assert_at_once(what, from, to),
    }
}

async fn a_holder_of_either_side_enters_again_and_leaves_by_the_last_unlock(
    scene: &Scene,
    sort: Sort,
) {
    let ground = Ground::of(scene, sort).await;
    let (java, ours) = (ground.java("a"), ground.our_lock());
    java.lock().unwrap();
    java.lock().unwrap();
    java.unlock().unwrap();
    assert!(ours.try_lock().await.unwrap().is_none());
    java.unlock().unwrap();

    let lock = ours.owned_by(&Owner::new());
    let outer = lock.lock().await.unwrap();
    let inner = lock.lock().await.unwrap();
    assert_eq!(inner.unlock().await.unwrap(), Unlocked::StillHeld(1));
    assert!(!java.try_lock().unwrap());
    outer.check().await.unwrap();
    assert_eq!(outer.unlock().await.unwrap(), Unlocked::Released);

    assert!(java.try_lock().unwrap());
    java.unlock().unwrap();
}

/// Two threads of Java and four tasks of ours, each so many times: how they share it is not promised. Java takes the members of
/// several locks in our order: in another one it may keep itself and ours out for minutes (W20).
async fn both_sides_count_exactly(scene: &Scene, sort: Sort) {
    let times = match sort {
        Sort::Red => testkit::count(8, 80),
        _ => testkit::count(40, 400),
    };
    let ground = Ground::of(scene, sort).await;
    let folder = testkit::store_folder();
    let file = folder.path().join("count");
    let counter = Counter::file(&file);
    let javas = ["one", "two"].map(|thread| {
        let rounds = ground.java(thread).rounds(Place::File(&file));
        rounds.times(times.into()).begin()
    });
    let mut workers = JoinSet::new();
    for _ in 0..4 {
        let (lock, counter) = (ground.our_lock(), counter.clone());
        workers.spawn(async move {
            for _ in 0..times {
                counted(&lock, &counter).await;
            }
        });
    }

    workers.join_all().await;
    let javas = javas.map(|each| {
        let answer = tokio::task::block_in_place(|| each.answer(4 * LIMIT));
        answer.result.unwrap().done
    });

    assert_eq!(javas, [u64::from(times); 2]);
    assert_eq!(
        counter.read(),
        u64::from(6 * times),
        "two were inside at a time"
    );
}

async fn counted(lock: &AnyLock, counter: &Counter) {
    let guard = lock.lock().await.unwrap();
    counter.bump_async().await;
    guard.unlock().await.unwrap();
}

/// Counts until it is stopped; returns how often.
pub(crate) async fn count(lock: AnyLock, counter: Counter, stop: CancellationToken) -> u64 {
    let mut done = 0;
    while !stop.is_cancelled() {
        counted(&lock, &counter).await;
        done += 1;
    }
    done
}
