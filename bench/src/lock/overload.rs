//! Guards dropped as fast as locks can be taken: how many locks and how much memory are in use, and whether another hold is
//! kept meanwhile.

use crate::reference::two_threads;
use crate::report::{Must, Row};
use crate::rounds::now;
use ferrolock::Client;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use testkit::Server;
use tokio::task::JoinSet;

const NAMES: u64 = 1_000_000;
const TASKS: u64 = 50;
/// The client's own bound on releases that are owed; each task may have one more lock.
const OWED_MAX: u64 = 4096;
const LEASE: Duration = Duration::from_secs(2);
const UNRELATED: &str = "unrelated";
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    two_threads().block_on(async {
        let client = Client::connect(server.url()).await.unwrap();
        let kept = client.lock(UNRELATED).watchdog_lease(LEASE);
        let kept = kept.lock().await.unwrap();
        let watcher = Watcher::start(server);
        let (begun, memory) = (now(), resident_kib());

        drop_all(&client).await;
        let ended = now();
        while server.command(&["DBSIZE"]).int() > 1 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let free_after = (now() - ended) as f64 / 1e6;

        let seen = watcher.stop();
        assert!(kept.is_held(), "the unrelated hold was lost");
        kept.unlock().await.unwrap();
        let rate = NAMES as f64 / ((ended - begun) as f64 / 1e9);
        let grown = seen.memory.saturating_sub(memory) as f64 / 1024.0;
        let left = seen.ttl as f64 / LEASE.as_millis() as f64;
        let most = (OWED_MAX + 2 * TASKS) as f64;
        let rows = [
            ("taken and dropped", "/s", rate, Must::Stated),
            ("locks at once", "", seen.keys as f64, Must::AtMost(most)),
            ("memory grown by", " MiB", grown, Must::AtMost(64.0)),
            (
                "least TTL of an unrelated hold of 2 s, of its lease",
                "",
                left,
                Must::AtLeast(0.5),
            ),
            (
                "free after the end",
                " ms",
                free_after,
                Must::AtMost(1000.0),
            ),
        ];
        rows.map(|(what, unit, ours, must)| Row {
            what: format!("overload, {NAMES} names by {TASKS} tasks: {what}"),
            unit,
            ours,
            reference: None,
            ratio: None,
            must,
        })
        .into()
    })
}

async fn drop_all(client: &Client) {
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            for number in 0..NAMES / TASKS {
                let name = format!("dropped/{task}/{number}");
                drop(client.lock(name).lock().await.unwrap());
            }
        });
    }
    tasks.join_all().await;
}

/// The worst values that were seen.
struct Seen {
    keys: u64,
    ttl: u64,
    memory: u64,
}

/// Looks at the server and at this process, from a thread of its own.
struct Watcher {
    thread: JoinHandle<Seen>,
    ends: Arc<AtomicBool>,
}

impl Watcher {
    fn start(server: &Server) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let (end, mut connection) = (ends.clone(), server.connect());
        let thread = std::thread::spawn(move || {
            let mut seen = Seen {
                keys: 0,
                ttl: u64::MAX,
                memory: 0,
            };
            while !end.load(Ordering::Acquire) {
                let number = |reply: testkit::Reply| u64::try_from(reply.int()).unwrap_or(0);
                seen.keys = seen.keys.max(number(connection.command(&["DBSIZE"])));
                seen.ttl = seen
                    .ttl
                    .min(number(connection.command(&["PTTL", UNRELATED])));
                seen.memory = seen.memory.max(resident_kib());
                std::thread::sleep(LOOK_EVERY);
            }
            seen
        });
        Self { thread, ends }
    }

    fn stop(self) -> Seen {
        self.ends.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

fn resident_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    let mut words = line.unwrap().split_whitespace();
    words.nth(1).unwrap().parse().unwrap()
}
