//! Real code, virtual time, engines that lie by a seed: whatever is lost or late, two owners never hold a lock at once, and
//! nothing is left in the end.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test code"
)]

mod rw;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::coordination::{Core, unpoisoned};
use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::testing::census::Census;
use crate::testing::lying::Lying;
use crate::{Client, ErrorKind, Guard, Owner};

const NAMES: [&str; 2] = ["a", "b"];
const LEASE: Duration = Duration::from_secs(2);

/// Every guard that a worker has, with the lock's name.
type Held = Arc<Mutex<Vec<(&'static str, Arc<Guard>)>>>;

struct World {
    held: Held,
    seed: u64,
}

impl World {
    /// By the clock, at most one tenure holds a name.
    fn check(&self) {
        let held = unpoisoned(&self.held);
        for name in NAMES {
            let mut ids: Vec<_> = held
                .iter()
                .filter(|(of, guard)| *of == name && guard.is_held())
                .map(|(_, guard)| guard.owner_id().clone())
                .collect();
            ids.dedup();
            assert!(
                ids.len() <= 1,
                "seed {}: {ids:?} hold {name} at once",
                self.seed
            );
        }
    }

    fn enter(&self, name: &'static str, guard: Guard) -> Arc<Guard> {
        let guard = Arc::new(guard);
        unpoisoned(&self.held).push((name, guard.clone()));
        self.check();
        guard
    }

    fn leave(&self, guard: Arc<Guard>) -> Option<Guard> {
        unpoisoned(&self.held).retain(|(_, other)| !Arc::ptr_eq(other, &guard));
        Arc::try_unwrap(guard).ok()
    }
}

fn client(space: &str, seed: u64, per_mille: u32) -> (Client, Arc<Lying>) {
    let lying = Lying::new(MemoryEngine::open(Some(space)));
    lying.random(seed, per_mille);
    let settings = Settings {
        watchdog_lease: LEASE,
        command_limit: Duration::from_millis(500),
        unreachable_after: Duration::from_secs(3),
        ..Settings::default()
    };
    (Client::of(Core::new(lying.clone(), settings, None)), lying)
}

async fn worker(world: Arc<World>, client: Client, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let owner = Owner::new();
    for _ in 0..25 {
        let name = NAMES[random.usize(..NAMES.len())];
        let mut lock = client.lock(name);
        if random.bool() {
            lock = lock.owned_by(&owner);
        }
        if random.u8(..4) == 0 {
            lock = lock.lease(Duration::from_millis(300 + random.u64(..1000)));
        }
        let got = match random.u8(..4) {
            3 => in_time("lock", kept(&mut random, lock.max_wait(LEASE).lock()))
                .await
                .map(Some),
            0 => in_time("try_lock", lock.try_lock()).await,
            1 => {
                let wait = Duration::from_millis(random.u64(..2000));
                in_time("try_lock_for", lock.try_lock_for(wait)).await
            }
            _ => match tokio::time::timeout(Duration::from_secs(5), lock.lock()).await {
                Ok(got) => got.map(Some),
                Err(_) => Ok(None),
            },
        };
        let guard = match got {
            Ok(Some(guard)) => world.enter(name, guard),
            Ok(None) => continue,
            Err(error) => {
                let kinds = [
                    ErrorKind::Unreachable,
                    ErrorKind::Lost,
                    ErrorKind::Refused,
                    ErrorKind::TimedOut,
                ];
                assert!(
                    kinds.contains(&error.kind()),
                    "seed {}: {error}",
                    world.seed
                );
                continue;
            }
        };
        work(&world, &mut random, name, guard).await;
    }
}

/// Holds for a while, perhaps enters again, and leaves in one of three ways.
async fn work(world: &World, random: &mut fastrand::Rng, name: &'static str, guard: Arc<Guard>) {
    let again = match random.u8(..4) {
        0 => guard
            .relock()
            .await
            .ok()
            .map(|again| world.enter(name, again)),
        _ => None,
    };
    for _ in 0..random.u8(..4) {
        tokio::time::sleep(Duration::from_millis(random.u64(..900))).await;
        world.check();
    }
    for guard in [Some(guard), again].into_iter().flatten() {
        let Some(guard) = world.leave(guard) else {
            continue;
        };
        match random.u8(..4) {
            0 => drop(guard),
            3 => drop(in_time("unlock", kept(random, guard.unlock())).await),
            1 => drop(in_time("unlock", guard.unlock()).await),
            _ => drop(testkit::drop_after_polls(1, guard.unlock()).await),
        }
    }
}

async fn life(seed: u64, per_mille: u32) -> Vec<String> {
    static LIVES: AtomicU64 = AtomicU64::new(0);
    let space = format!("simulation-{}", LIVES.fetch_add(1, Ordering::Relaxed));
    let world = Arc::new(World {
        held: Held::default(),
        seed,
    });
    let clients: Vec<_> = (0..3)
        .map(|nth| client(&space, seed * 10 + nth, per_mille))
        .collect();
    let begun = clients[0].0.core().now();
    let mut workers = Vec::new();
    for (nth, (client, _)) in clients.iter().enumerate() {
        for task in 0..3 {
            let seed = seed * 100 + nth as u64 * 10 + task;
            workers.push(tokio::spawn(worker(world.clone(), client.clone(), seed)));
        }
    }
    for worker in workers {
        worker.await.unwrap();
    }
    clients.iter().for_each(|(_, lying)| lying.honest());

    // Enough for two leases of debts, for what these left behind, and for idle subscriptions to end.
    tokio::time::sleep(LEASE * 8).await;
    for name in NAMES {
        let lock = clients[0].0.lock(name);
        assert_eq!(
            lock.holders().await.unwrap(),
            [],
            "seed {seed}: {name} is left"
        );
    }
    unpoisoned(&world.held).clear();
    let calls = clients.iter().enumerate().flat_map(|(nth, (_, lying))| {
        let calls = lying.log().into_iter();
        calls.map(move |seen| {
            let (at, lane, script) = (seen.at.since(begun), seen.lane, seen.script);
            format!(
                "{nth}: {at:?} {lane:?} {script} {:?} {:?}",
                seen.args, seen.lie
            )
        })
    });
    let calls = calls.collect();
    for (client, _) in clients {
        let core = Arc::downgrade(client.core());
        assert_eq!(
            client.core().census(),
            Census::default(),
            "seed {seed}, {per_mille} per mille"
        );
        drop(client);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(core.strong_count(), 0, "seed {seed}: the client is left");
    }
    calls
}

#[test]
fn two_never_hold_at_once_and_nothing_is_left_whatever_the_network_does() {
    for seed in RED.into_iter().chain(seeds()) {
        for per_mille in [0, 60, 250] {
            play(seed, per_mille);
        }
    }
}

/// A failure can be played again from its seed.
#[test]
fn a_seed_plays_the_same_calls_at_the_same_times_again() {
    for seed in [1, 2, 3] {
        for per_mille in [0, 250] {
            let (first, again) = (play(seed, per_mille), play(seed, per_mille));

            let differs = first.iter().zip(&again).position(|(a, b)| a != b);
            assert_eq!(
                differs.map(|at| (&first[at], &again[at])),
                None,
                "seed {seed}"
            );
            assert_eq!(first.len(), again.len(), "seed {seed}");
            assert!(first.len() > 300, "seed {seed}: {}", first.len());
        }
    }
}

/// Seeds that once failed; they are always played.
const RED: [u64; 0] = [];

/// Two hundred, or as many as `FERROLOCK_SEEDS` says: `1000`, or `200..400`.
fn seeds() -> std::ops::Range<u64> {
    let wanted = std::env::var("FERROLOCK_SEEDS").unwrap_or_else(|_| "200".to_owned());
    let (from, to) = wanted.split_once("..").unwrap_or(("0", &wanted));
    from.parse().unwrap()..to.parse().unwrap()
}

/// Plays one seed in a runtime of its own, whose time begins at zero; returns every call that was handed over, by client.
fn play(seed: u64, per_mille: u32) -> Vec<String> {
    let _shows = ShowsSeed { seed, per_mille };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(life(seed, per_mille))
}

/// Prints the seed when a play fails.
struct ShowsSeed {
    seed: u64,
    per_mille: u32,
}

impl Drop for ShowsSeed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ShowsSeed { seed, per_mille } = *self;
            eprintln!(
                "with {per_mille} lies per mille: FERROLOCK_SEEDS={seed}..{}",
                seed + 1
            );
        }
    }
}

/// Polls a future once and leaves it alone for a while.
async fn kept<F: Future>(random: &mut fastrand::Rng, future: F) -> F::Output {
    let mut future = Box::pin(future);
    if let std::task::Poll::Ready(output) = testkit::poll_once(future.as_mut()) {
        return output;
    }
    tokio::time::sleep(Duration::from_millis(random.u64(..4000))).await;
    future.await
}

/// Fails a call that takes a minute: every call has a shorter limit.
async fn in_time<T>(what: &str, call: impl Future<Output = T>) -> T {
    match tokio::time::timeout(Duration::from_secs(60), call).await {
        Ok(value) => value,
        Err(_) => panic!("{what} hangs"),
    }
}
