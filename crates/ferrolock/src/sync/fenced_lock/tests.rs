//! Fences over everything that may happen to a server and to its clients, in paused time.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "test code: a failure ends the test"
)]

use std::sync::Arc;
use std::time::Duration;

use crate::engine::embedded::MemoryEngine;
use crate::options::Settings;
use crate::testing::lying::{Lying, Reach, Silence};
use crate::testing::scenes::{core, ms};
use crate::{Client, Fence, FenceGate, FencedGuard};

const PROCESSES: usize = 3;
/// What the clock is set back by at most; some leases of a holder that is gone.
const BACK: u64 = 60_000;

/// A client on a connection of its own.
struct Process {
    client: Client,
    lying: Arc<Lying>,
    /// The largest fence that it was given.
    seen: u64,
}

impl Process {
    fn start(space: &str) -> Self {
        let lying = Lying::over_memory(MemoryEngine::open(Some(space)));
        Self {
            client: Client::of(core(lying.clone(), Settings::default())),
            lying,
            seen: 0,
        }
    }

    /// The server hears no more of it: its locks stay until their leases end.
    fn cut_off(&self) {
        self.lying.partition(Reach::All, Silence::NotSent);
    }
}

/// How often each thing happened.
#[derive(Debug, Default)]
struct Tally {
    set_back: u32,
    kills: u32,
    pauses: u32,
    refused_late_writes: u32,
    /// Grants after the data was lost: with a larger fence, because time went on, or because its client knew the last one.
    grown_after_loss: u32,
    /// Grants in the one case that is not promised.
    not_promised: u32,
}

/// A server, its clients, and the resource that the lock protects.
struct World {
    space: String,
    server: Arc<MemoryEngine>,
    processes: Vec<Process>,
    random: fastrand::Rng,
    /// The largest fence of any grant, and what the server still knows of it.
    highest: u64,
    remembered: u64,
    gate: FenceGate,
    paused: Option<FencedGuard>,
    tally: Tally,
}

impl World {
    fn new(seed: u64) -> Self {
        let space = format!("fences-{seed}");
        Self {
            server: MemoryEngine::open(Some(&space)),
            processes: (0..PROCESSES).map(|_| Process::start(&space)).collect(),
            space,
            random: fastrand::Rng::with_seed(seed),
            highest: 0,
            remembered: 0,
            gate: FenceGate::new(),
            paused: None,
            tally: Tally::default(),
        }
    }

    /// What happens between two grants.
    async fn fate(&mut self) {
        match self.random.u8(..20) {
            0..=5 => tokio::time::sleep(ms(self.random.u64(..10_000))).await,
            6 => self.lose_data(),
            7 => {
                self.server.set_back(ms(self.random.u64(..BACK)));
                self.tally.set_back += 1;
            }
            // Both at once: a failover to a machine without the data, whose clock is late.
            8 => {
                self.lose_data();
                self.server.set_back(ms(self.random.u64(..BACK)));
                self.tally.set_back += 1;
            }
            9 => {
                let has_its_data = self.random.bool();
                self.restart(has_its_data).await;
            }
            _ => {}
        }
    }

    fn lose_data(&mut self) {
        self.server.flush();
        self.remembered = 0;
    }

    async fn restart(&mut self, has_its_data: bool) {
        self.processes.iter().for_each(Process::cut_off);
        if !has_its_data {
            self.lose_data();
        }
        tokio::time::sleep(ms(self.random.u64(1..2000))).await;
        for process in &self.processes {
            process.lying.heal();
        }
    }

    /// One grant to one of the processes, what is promised of its fence, and how the holder ends.
    async fn grant(&mut self) {
        let who = self.random.usize(..PROCESSES);
        let lock = self.processes[who].client.fenced_lock("x");
        let guard = lock.lock().await.unwrap();
        self.judge(guard.fence(), who);
        match self.random.u8(..10) {
            // Killed: nothing that it has still to say is heard, and the next one has seen no fence.
            0 => {
                self.processes[who].cut_off();
                self.processes[who] = Process::start(&self.space);
                self.tally.kills += 1;
            }
            // Stands still with its guard, and comes back after the next grants.
            1 if self.paused.is_none() => {
                self.processes[who].cut_off();
                self.processes[who] = Process::start(&self.space);
                self.paused = Some(guard);
                self.tally.pauses += 1;
                return;
            }
            _ => drop(guard.unlock().await),
        }
        if self.paused.is_some() && self.random.bool() {
            self.write_late();
        }
    }

    fn judge(&mut self, fence: Fence, who: usize) {
        let (number, now) = (fence.get(), self.server.micros().unsigned_abs());
        let process = &mut self.processes[who];
        assert!(number > process.seen, "a client's own fences grow");
        assert!(number > self.remembered, "the server knows a larger one");
        let is_lost = self.remembered < self.highest;
        let is_promised = !is_lost || now > self.highest || process.seen == self.highest;
        if is_promised {
            assert!(number > self.highest, "{number} after {}", self.highest);
            self.gate.admit(fence).unwrap();
            self.tally.grown_after_loss += u32::from(is_lost);
        } else {
            self.tally.not_promised += 1;
            // A resource takes no write from it, rather than one that is not in order.
            let admitted = self.gate.admit(fence);
            assert!(admitted.is_err() || number >= self.highest);
        }
        (process.seen, self.remembered) = (number, number);
        self.highest = self.highest.max(number);
    }

    /// The holder that stood still goes on, and was asleep since its last look at the guard.
    fn write_late(&mut self) {
        let Some(paused) = self.paused.take() else {
            return;
        };
        let was_followed = paused.fence().get() < self.highest;
        assert_eq!(self.gate.admit(paused.fence()).is_err(), was_followed);
        self.tally.refused_late_writes += u32::from(was_followed);
    }
}

/// Kills, lost data, restarts, a holder that stands still, and a server's clock that is set back.
#[tokio::test(start_paused = true)]
async fn fences_grow_whatever_happens_to_the_server_and_its_clients() {
    let seed = std::env::var("FERROLOCK_FENCES_SEED");
    let seed = seed.map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("FERROLOCK_FENCES_SEED={seed}");
    let mut world = World::new(seed);
    let grants = testkit::count(1000, 10_000);

    for _ in 0..grants {
        world.fate().await;
        world.grant().await;
    }

    let tally = &world.tally;
    println!("{grants} grants: {tally:?}");
    let often = grants / 200;
    assert!(tally.set_back > often && tally.kills > often && tally.pauses > often);
    assert!(tally.refused_late_writes > often && tally.grown_after_loss > often);
    assert!(tally.not_promised > 0 && tally.not_promised < grants / 2);
}

/// The one case that is not promised, step by step, and what protects a client from it.
#[tokio::test(start_paused = true)]
async fn after_lost_data_and_a_clock_set_back_a_client_goes_on_from_what_it_has_seen() {
    let mut world = World::new(1);
    let fence = async |process: &Process| {
        let guard = process.client.fenced_lock("x").lock().await.unwrap();
        let fence = guard.fence();
        guard.unlock().await.unwrap();
        fence
    };
    let (us, them) = (&world.processes[0], &world.processes[1]);
    let first = fence(us).await;
    world.server.set_back(Duration::from_secs(3600));
    let second = fence(them).await;
    assert!(second > first, "the server knows the last one");

    world.server.flush();

    let stranger = fence(&world.processes[2]).await;
    assert!(stranger < first, "it has seen none, and the clock is late");
    world.server.flush();
    assert!(fence(&world.processes[1]).await > second);
    world.processes.clear();
}
