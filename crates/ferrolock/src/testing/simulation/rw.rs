//! The same for the read-write lock: while one owner writes, nobody else reads or writes, and nothing is left in the end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{LEASE, NAMES, ShowsSeed, client, in_time, kept, seeds};
use crate::coordination::unpoisoned;
use crate::testing::census::Census;
use crate::{Client, ErrorKind, Owner, ReadGuard, RwLock, WriteGuard};

/// A guard of either side.
#[derive(Clone)]
enum Hold {
    Read(Arc<ReadGuard>),
    Write(Arc<WriteGuard>),
}

impl Hold {
    /// Its owner and whether it writes, if it is held by the clock.
    fn standing(&self) -> Option<(Owner, bool)> {
        match self {
            Hold::Read(guard) => guard.is_held().then(|| (guard.owner().clone(), false)),
            Hold::Write(guard) => guard.is_held().then(|| (guard.owner().clone(), true)),
        }
    }

    fn is(&self, other: &Hold) -> bool {
        match (self, other) {
            (Hold::Read(a), Hold::Read(b)) => Arc::ptr_eq(a, b),
            (Hold::Write(a), Hold::Write(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

struct World {
    held: Mutex<Vec<(&'static str, Hold)>>,
    seed: u64,
}

impl World {
    /// By the clock, nobody holds a name beside another owner that writes.
    fn check(&self) {
        let held = unpoisoned(&self.held);
        for name in NAMES {
            let holds = held.iter().filter(|(of, _)| *of == name);
            let holds: Vec<_> = holds.filter_map(|(_, hold)| hold.standing()).collect();
            let writer = holds.iter().find(|(_, writes)| *writes);
            if let Some((writer, _)) = writer {
                let is_alone = holds.iter().all(|(owner, _)| owner == writer);
                assert!(is_alone, "seed {}: {holds:?} hold {name}", self.seed);
            }
        }
    }

    fn enter(&self, name: &'static str, hold: Hold) -> Hold {
        unpoisoned(&self.held).push((name, hold.clone()));
        self.check();
        hold
    }

    fn leave(&self, hold: &Hold) {
        unpoisoned(&self.held).retain(|(_, other)| !other.is(hold));
    }

    fn allows(&self, error: &crate::Error) {
        let kinds = [
            ErrorKind::Unreachable,
            ErrorKind::Lost,
            ErrorKind::Refused,
            ErrorKind::TimedOut,
            ErrorKind::WouldDeadlock,
        ];
        assert!(kinds.contains(&error.kind()), "seed {}: {error}", self.seed);
    }
}

async fn worker(world: Arc<World>, client: Client, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let owner = Owner::new();
    for _ in 0..25 {
        let name = NAMES[random.usize(..NAMES.len())];
        let mut lock = client.rw_lock(name).owned_by(&Owner::new());
        if random.bool() {
            lock = lock.owned_by(&owner);
        }
        if random.bool() {
            lock = lock.prefer_writers();
        }
        if random.u8(..4) == 0 {
            lock = lock.lease(Duration::from_millis(300 + random.u64(..1000)));
        }
        let Some(hold) = take(&world, &mut random, &lock).await else {
            continue;
        };
        let hold = world.enter(name, hold);
        let nested = match random.u8(..4) {
            0 => take(&world, &mut random, &lock).await,
            _ => None,
        };
        let nested = nested.map(|nested| world.enter(name, nested));
        for _ in 0..random.u8(..4) {
            tokio::time::sleep(Duration::from_millis(random.u64(..900))).await;
            world.check();
        }
        for hold in [Some(hold), nested].into_iter().flatten() {
            give_back(&world, &mut random, name, hold).await;
        }
    }
}

/// Reads or writes, in one of several ways.
async fn take(world: &World, random: &mut fastrand::Rng, lock: &RwLock) -> Option<Hold> {
    let wait = Duration::from_millis(random.u64(..2000));
    let insists = lock.clone().max_wait(LEASE);
    let read = |guard| Hold::Read(Arc::new(guard));
    let write = |guard| Hold::Write(Arc::new(guard));
    let got = match random.u8(..10) {
        0 => in_time("try_read", lock.try_read())
            .await
            .map(|got| got.map(read)),
        1 => in_time("try_read_for", lock.try_read_for(wait))
            .await
            .map(|got| got.map(read)),
        2..=4 => in_time("read", insists.read())
            .await
            .map(|got| Some(read(got))),
        5 => in_time("read", kept(random, insists.read()))
            .await
            .map(|got| Some(read(got))),
        6 => in_time("try_write", lock.try_write())
            .await
            .map(|got| got.map(write)),
        7 => in_time("try_write_for", lock.try_write_for(wait))
            .await
            .map(|got| got.map(write)),
        8 => in_time("write", kept(random, insists.write()))
            .await
            .map(|got| Some(write(got))),
        _ => match tokio::time::timeout(wait, lock.write()).await {
            Ok(got) => got.map(|got| Some(write(got))),
            Err(_) => Ok(None),
        },
    };
    got.unwrap_or_else(|error| {
        world.allows(&error);
        None
    })
}

async fn give_back(world: &World, random: &mut fastrand::Rng, name: &'static str, hold: Hold) {
    world.leave(&hold);
    match hold {
        Hold::Read(guard) => {
            let Ok(guard) = Arc::try_unwrap(guard) else {
                return;
            };
            match random.u8(..3) {
                0 => drop(guard),
                1 => drop(in_time("unlock", guard.unlock()).await),
                _ => drop(testkit::drop_after_polls(1, guard.unlock()).await),
            }
        }
        Hold::Write(guard) => {
            let Ok(guard) = Arc::try_unwrap(guard) else {
                return;
            };
            match random.u8(..6) {
                0 => drop(guard),
                1 => drop(in_time("unlock", guard.unlock()).await),
                2 => drop(testkit::drop_after_polls(1, guard.unlock()).await),
                3 => {
                    let polls = random.usize(1..4);
                    drop(testkit::drop_after_polls(polls, guard.downgrade()).await);
                }
                _ => match in_time("downgrade", guard.downgrade()).await {
                    Ok(reading) => {
                        let reading = world.enter(name, Hold::Read(Arc::new(reading)));
                        tokio::time::sleep(Duration::from_millis(random.u64(..900))).await;
                        world.check();
                        world.leave(&reading);
                    }
                    Err(error) if error.kind() == ErrorKind::Invalid => {}
                    Err(error) => world.allows(&error),
                },
            }
        }
    }
}

async fn life(seed: u64, per_mille: u32) {
    static LIVES: AtomicU64 = AtomicU64::new(0);
    let space = format!("rw-simulation-{}", LIVES.fetch_add(1, Ordering::Relaxed));
    let held = Mutex::default();
    let world = Arc::new(World { held, seed });
    let clients: Vec<_> = (0..3)
        .map(|nth| client(&space, seed * 10 + nth, per_mille))
        .collect();
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
        let lock = clients[0].0.rw_lock(name).prefer_writers();
        let readers = lock.read_lock().holders().await.unwrap();
        assert_eq!(readers, [], "seed {seed}: readers of {name} are left");
        let writers = lock.write_lock().holders().await.unwrap();
        assert_eq!(writers, [], "seed {seed}: a writer of {name} is left");
        let reading = lock.try_read().await.unwrap();
        let reading = reading.unwrap_or_else(|| panic!("seed {seed}: an intent of {name} is left"));
        reading.unlock().await.unwrap();
    }
    unpoisoned(&world.held).clear();
    tokio::time::sleep(LEASE * 8).await;
    for (client, _) in clients {
        let core = Arc::downgrade(client.core());
        let census = client.core().census();
        assert_eq!(
            census,
            Census::default(),
            "seed {seed}, {per_mille} per mille"
        );
        drop(client);
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(core.strong_count(), 0, "seed {seed}: the client is left");
    }
}

#[test]
fn a_writer_is_alone_and_nothing_is_left_whatever_the_network_does() {
    for seed in seeds() {
        for per_mille in [0, 60, 250] {
            let _shows = ShowsSeed { seed, per_mille };
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(life(seed, per_mille));
        }
    }
}
