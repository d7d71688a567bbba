//! One owner enters and leaves from two tasks while the connections are cut at random.
//!
//! `FERROLOCK_CUTS_SEED` repeats the random choices: which task releases when and how, and what is cut after how many
//! entries. Which commands are in flight at that moment depends on the machine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ferrolock::{Client, ErrorKind, Guard, Owner};
use testkit::{LIMIT, Proxy, Server, Value, eventually};
use tokio::sync::Barrier;

server_stories!(
    the_count_equals_the_live_guards_whatever_is_cut,
    a_reentry_without_a_connection_waits_for_one,
    a_reentry_that_came_too_late_waits_for_the_next_holder,
);

/// Acquisitions in all, by two tasks, with a quiet point after each hundred of both together.
const ENTRIES: u64 = 10_000;
const QUIET_POINTS: u64 = 100;
/// Between two cuts there are this many entries, and up to half as many more. With the pauses in between, most connections
/// live long enough for the client to reconnect at once: after short lives it waits up to two seconds.
const CUT_AFTER: u64 = 100;
/// Milliseconds after an entry.
const PAUSE_MAX: u64 = 6;

/// Random choices that a seed repeats.
#[derive(Debug)]
struct Dice(fastrand::Rng);

impl Dice {
    fn of(seed: u64) -> Self {
        Self(fastrand::Rng::with_seed(seed))
    }

    fn throw(&mut self, sides: u64) -> u64 {
        self.0.u64(..sides)
    }
}

async fn the_count_equals_the_live_guards_whatever_is_cut(server: &Server) {
    let seed = match std::env::var("FERROLOCK_CUTS_SEED") {
        Ok(seed) => seed.parse().expect("a seed is a number"),
        Err(_) => fastrand::u64(..),
    };
    eprintln!("FERROLOCK_CUTS_SEED={seed} throws the same dice again");
    let proxy = Arc::new(Proxy::start(server.address()));
    let client = Client::connect(server.url_at(proxy.port())).await.unwrap();
    let shears = Arc::new(Mutex::new(Shears {
        proxy: proxy.clone(),
        dice: Dice::of(seed),
        left: CUT_AFTER,
        cuts: 0,
    }));
    let owner = Owner::new();
    let live: [Arc<AtomicU64>; 2] = Default::default();
    let barrier = Arc::new(Barrier::new(3));
    let tasks: Vec<_> = (0..2)
        .map(|task| {
            let worker = Worker {
                client: client.clone(),
                shears: shears.clone(),
                owner: owner.clone(),
                live: live[task].clone(),
                dice: Dice::of(seed.wrapping_add(1 + task as u64)),
                held: Vec::new(),
            };
            tokio::spawn(worker.work(barrier.clone()))
        })
        .collect();

    let begun = std::time::Instant::now();
    for point in 0..QUIET_POINTS {
        barrier.wait().await;
        let due = live
            .iter()
            .map(|live| live.load(Ordering::SeqCst))
            .sum::<u64>();
        tokio::task::block_in_place(|| wait_for_count(server, due, point));
        barrier.wait().await;
    }
    for task in tasks {
        task.await.unwrap();
    }
    let cuts = shears.lock().unwrap().cuts;
    eprintln!(
        "{ENTRIES} entries in {:?}, {cuts} cuts, {} connections made",
        begun.elapsed(),
        proxy.accepted()
    );
    assert!(proxy.accepted() > cuts, "each cut hit a connection");
    tokio::task::block_in_place(|| {
        eventually(LIMIT, "nothing is left", || server.keys().is_empty());
    });
    client.shutdown(LIMIT).await.unwrap();
    assert_eq!(server.keys(), Vec::<String>::new());
}

/// Waits until the server has this count: then nothing is in flight.
fn wait_for_count(server: &Server, due: u64, point: u64) {
    let begun = std::time::Instant::now();
    while count(server) != due {
        assert!(
            begun.elapsed() < LIMIT,
            "{due} guards live at quiet point {point}, but: {:?}",
            server.dump()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The sum of all counts: a field of any other owner is counted too.
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

/// Cuts every now and then.
#[derive(Debug)]
struct Shears {
    proxy: Arc<Proxy>,
    dice: Dice,
    left: u64,
    cuts: u64,
}

impl Shears {
    fn an_entry_begins(&mut self) {
        self.left -= 1;
        if self.left == 0 {
            self.left = CUT_AFTER + self.dice.throw(CUT_AFTER / 2);
            self.cuts += 1;
            self.cut_soon();
        }
    }

    /// After a moment: often a command is in flight then.
    fn cut_soon(&mut self) {
        let (proxy, how) = (self.proxy.clone(), self.dice.throw(3));
        let moment = Duration::from_micros(self.dice.throw(500));
        tokio::spawn(async move {
            tokio::time::sleep(moment).await;
            let commands = |sent: &[u8]| sent.windows(7).any(|word| word == b"EVALSHA");
            match how {
                0 => proxy.cut(),
                1 => proxy.drop_next_reply_and_cut(),
                _ => drop(proxy.cut_matching(commands)),
            }
        });
    }
}

struct Worker {
    client: Client,
    shears: Arc<Mutex<Shears>>,
    owner: Owner,
    live: Arc<AtomicU64>,
    dice: Dice,
    held: Vec<Guard>,
}

impl Worker {
    async fn work(mut self, barrier: Arc<Barrier>) {
        for point in 0..QUIET_POINTS {
            for _ in 0..ENTRIES / QUIET_POINTS / 2 {
                self.shears.lock().unwrap().an_entry_begins();
                self.enter().await;
                let pause = Duration::from_millis(self.dice.throw(PAUSE_MAX + 1));
                tokio::time::sleep(pause).await;
                while self.held.len() > 3 || (!self.held.is_empty() && self.dice.throw(2) == 0) {
                    self.leave().await;
                }
            }
            if point == QUIET_POINTS - 1 {
                self.held.clear();
            }
            self.live.store(self.held.len() as u64, Ordering::SeqCst);
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
            // Without an answer within the limit this fails, and the client goes on releasing by itself.
            let unlocked = guard.unlock().await;
            assert!(
                !unlocked.is_err_and(|error| error.kind() != ErrorKind::Unreachable),
                "only the connection fails here"
            );
        }
    }
}

/// On a runtime of one thread, which the client needs for its new connection.
async fn a_reentry_without_a_connection_waits_for_one(server: &Server) {
    let proxy = Proxy::start(server.address());
    let url = server.url_at(proxy.port());
    let (entered, done) = std::sync::mpsc::channel();
    let (inside, is_inside) = tokio::sync::oneshot::channel();
    let (cut, is_cut) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let client = Client::connect(url).await.unwrap();
            let outer = client.lock("x").lock().await.unwrap();
            inside.send(()).unwrap();
            is_cut.await.unwrap();
            // Meanwhile the client's own tasks notice the cut.
            tokio::time::sleep(Duration::from_millis(100)).await;
            let inner = outer.relock().await.unwrap();
            entered.send(inner.hold_count()).unwrap();
        });
    });
    is_inside.await.unwrap();
    proxy.refuse(true);
    proxy.cut();
    cut.send(()).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;

    proxy.refuse(false);

    let count = tokio::task::block_in_place(|| done.recv_timeout(LIMIT));
    assert_eq!(count, Ok(2));
}

/// The owner's last hold is released while the reentry's answer is cut off: the reentry becomes a new acquisition, and waits
/// for another holder without a limit.
async fn a_reentry_that_came_too_late_waits_for_the_next_holder(server: &Server) {
    let proxy = Proxy::start(server.address());
    let patience = Duration::from_millis(1500);
    let builder = Client::builder().url(server.url_at(proxy.port()));
    let ours = builder.unreachable_after(patience).connect().await.unwrap();
    let theirs = Client::connect(server.url()).await.unwrap();
    let lock = ours.lock("x").owned_by(&Owner::new());
    let first = lock.lock().await.unwrap();
    proxy.hold_requests(true);
    let second = tokio::spawn(lock.lock());
    tokio::task::block_in_place(|| {
        eventually(LIMIT, "it is on its way", || proxy.bytes_held() > 0);
    });
    drop(first);
    proxy.refuse(true);
    proxy.cut();
    server.command(&["DEL", "x"]);
    let next = theirs.lock("x").try_lock().await.unwrap().unwrap();
    proxy.hold_requests(false);
    proxy.refuse(false);

    tokio::time::sleep(2 * patience).await;

    assert!(!second.is_finished(), "{:?}", second.await);
    next.unlock().await.unwrap();
    second.await.unwrap().unwrap().unlock().await.unwrap();
}
