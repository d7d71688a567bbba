//! One owner enters and leaves from two tasks while the connections are cut at random.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrolock::{Client, Guard, Owner};
use testkit::{LIMIT, Proxy, Server, Value, eventually};
use tokio::sync::Barrier;

server_stories!(the_count_equals_the_live_guards_whatever_was_cut);

/// Entries in all, by two tasks, with a quiet point after each hundred of both together.
const ENTRIES: u64 = 10_000;
const QUIET_POINTS: u64 = 100;

/// Small, repeatable, and told when the story fails.
#[derive(Debug)]
struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

async fn the_count_equals_the_live_guards_whatever_was_cut(server: &Server) {
    let seed = u64::from(std::process::id()) << 20 | 0xf1e1d;
    eprintln!("seed {seed}");
    let proxy = Arc::new(Proxy::start(server.address()));
    let client = Client::connect(server.url_at(proxy.port())).await.unwrap();
    let owner = Owner::new();
    let live: [Arc<AtomicU64>; 2] = Default::default();
    let barrier = Arc::new(Barrier::new(3));
    let tasks: Vec<_> = (0..2)
        .map(|task| {
            let worker = Worker {
                client: client.clone(),
                owner: owner.clone(),
                live: live[task].clone(),
                dice: Dice(seed + 1 + task as u64),
                held: Vec::new(),
            };
            tokio::spawn(worker.work(barrier.clone()))
        })
        .collect();
    let cutter = tokio::spawn(cut_at_random(proxy.clone(), Dice(seed)));

    let begun = std::time::Instant::now();
    for point in 0..QUIET_POINTS {
        barrier.wait().await;
        let due = live
            .iter()
            .map(|live| live.load(Ordering::SeqCst))
            .sum::<u64>();
        let what = format!("a count of {due} at quiet point {point}, seed {seed}");
        tokio::task::block_in_place(|| eventually(LIMIT, &what, || count(server) == due));
        barrier.wait().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    cutter.abort();
    eprintln!(
        "{ENTRIES} entries in {:?}, {} connections made",
        begun.elapsed(),
        proxy.accepted()
    );
    tokio::task::block_in_place(|| {
        eventually(LIMIT, "nothing is left", || server.keys().is_empty());
    });
    client.shutdown(LIMIT).await.unwrap();
    assert_eq!(server.keys(), Vec::<String>::new());
}

/// The sum of all counts: a field of somebody else would show in it.
fn count(server: &Server) -> u64 {
    let dump = server.dump();
    let count = |value: &Value| -> u64 {
        match value {
            Value::Hash(fields) => fields
                .values()
                .map(|count| count.parse::<u64>().unwrap())
                .sum(),
            other => panic!("no lock: {other:?}"),
        }
    };
    dump.iter().map(|entry| count(&entry.value)).sum()
}

async fn cut_at_random(proxy: Arc<Proxy>, mut dice: Dice) {
    loop {
        tokio::time::sleep(Duration::from_millis(5 + dice.throw(60))).await;
        match dice.throw(3) {
            0 => proxy.cut(),
            1 => proxy.drop_next_reply_and_cut(),
            _ => drop(proxy.cut_matching(|sent| sent.windows(7).any(|word| word == b"EVALSHA"))),
        }
    }
}

struct Worker {
    client: Client,
    owner: Owner,
    live: Arc<AtomicU64>,
    dice: Dice,
    held: Vec<Guard>,
}

impl Worker {
    async fn work(mut self, barrier: Arc<Barrier>) {
        for point in 0..QUIET_POINTS {
            for _ in 0..ENTRIES / QUIET_POINTS / 2 {
                self.enter().await;
                while self.held.len() > 3 || (!self.held.is_empty() && self.dice.throw(2) == 0) {
                    self.leave().await;
                }
            }
            if point == QUIET_POINTS - 1 {
                self.held.clear();
                self.live.store(0, Ordering::SeqCst);
            }
            self.live
                .fetch_add(self.held.len() as u64, Ordering::SeqCst);
            barrier.wait().await;
            for guard in &self.held {
                assert!(guard.is_held(), "{guard:?}");
            }
            barrier.wait().await;
        }
    }

    async fn enter(&mut self) {
        let lock = self.client.lock("x").owned_by(&self.owner);
        self.held.push(lock.lock().await.unwrap());
    }

    async fn leave(&mut self) {
        let which = self.dice.throw(self.held.len() as u64);
        let guard = self.held.swap_remove(usize::try_from(which).unwrap());
        if self.dice.throw(4) == 0 {
            drop(guard);
        } else {
            guard.unlock().await.unwrap();
        }
    }
}
