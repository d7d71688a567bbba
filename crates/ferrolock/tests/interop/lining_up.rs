//! One fair queue for two JVM clients and two processes of ours, for thousands of grants: exact counts, no overtaking, and no
//! pause while others wait. Order and pauses are read from what the server was sent.

use std::collections::VecDeque;
use std::time::Duration;

use ferrolock::Client;
use testkit::java::Place;
use testkit::process::{Child, Role};
use testkit::{Counter, LIMIT, Stalls, eventually_async};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::record::Record;
use crate::scene::Scene;

stories!(alone: each_is_served_in_its_turn_across_both_sides);

const PROCESSES: usize = 2;
const WORKERS: usize = 3;
const THREADS: [&str; 2] = ["one", "two"];
/// How long a lock may be free while others wait for it.
const PAUSE_MAX: Duration = Duration::from_secs(1);

async fn each_is_served_in_its_turn_across_both_sides(scene: &Scene) {
    let wanted = u64::from(testkit::count(300, 3000));
    let folder = testkit::store_folder();
    let file = folder.path().join("count");
    let counter = Counter::file(&file);
    let url = scene.server.url();
    let mut ours = [(); PROCESSES].map(|()| {
        let args = [&url, file.to_str().unwrap()];
        Child::again("lining_up::waiters", &args)
    });
    ours.iter_mut().for_each(|child| drop(child.hear(LIMIT)));
    let (record, stalls) = (Record::of(&scene.server), Stalls::watch());

    let clients = [scene.java.clone(), scene.peer.open(&scene.server)];
    let threads = || {
        let threads = clients.iter();
        threads.flat_map(|java| THREADS.map(|name| java.thread(name)))
    };
    let rounds = threads().map(|thread| thread.fair("orders").rounds(Place::File(&file)).begin());
    let javas: Vec<_> = rounds.collect();
    ours.iter_mut().for_each(|child| child.say("go"));
    let what = format!("{wanted} are counted");
    eventually_async(10 * LIMIT, &what, async || counter.read() >= wanted).await;
    ours.iter_mut().for_each(|child| child.say("stop"));
    threads().for_each(|thread| thread.stop());

    let javas = javas.into_iter().map(|each| each.wait().unwrap().done);
    let javas: u64 = javas.sum();
    let ours = ours.map(|mut child| child.hear(LIMIT).parse::<u64>().unwrap());
    let ours: u64 = ours.iter().sum();
    let stall = stalls.seen().pop().unwrap_or_default();
    let line = Line::of(&record.lines());
    eprintln!(
        "ours {ours}, Java's {javas}; {} waited for their turn; longest pause {:.1?}, the machine's {stall:.1?}",
        line.waited, line.pause
    );
    assert_eq!(counter.read(), ours + javas, "two were inside at a time");
    assert_eq!(line.granted, ours + javas, "every grant is seen");
    assert_eq!(line.overtaken, [""; 0]);
    // Nearly all: ten go on and on.
    assert!(line.waited >= wanted * 9 / 10, "{}", line.waited);
    assert!(line.pause < PAUSE_MAX + stall, "{:?}", line.pause);
    // Each has its turn once in each round.
    assert!(ours >= wanted / 4 && javas >= wanted / 4);
}

/// What the server was sent, as a line of waiters.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<String>,
    freed: Option<Duration>,
    granted: u64,
    /// Grants of waiters that were in the queue.
    waited: u64,
    /// Those that were granted before a waiter that had come earlier, or lost their places.
    overtaken: Vec<String>,
    /// The longest time for which the lock was free while others waited.
    pause: Duration,
}

impl Line {
    fn of(lines: &[String]) -> Self {
        let mut line = Self::default();
        for sent in lines {
            // 1700000000.123456 [0 lua] "RPUSH" "queue" "waiter"
            let Some((stamp, words)) = sent.split_once(" [0 lua] ") else {
                continue;
            };
            let words: Vec<&str> = words.trim_matches('"').split("\" \"").collect();
            let time = Duration::from_secs_f64(stamp.parse().unwrap());
            line.step(time, &words);
        }
        line
    }

    fn step(&mut self, time: Duration, words: &[&str]) {
        let command = words[0].to_ascii_uppercase();
        match (command.as_str(), &words[1..]) {
            ("RPUSH" | "LINSERT", ["redisson_lock_queue:{orders}", .., waiter]) => {
                if self.waiting.iter().any(|other| other == waiter) {
                    self.overtaken.push(format!("{waiter} had lost its place"));
                }
                self.waiting.push_back((*waiter).to_owned());
            }
            ("HSET", ["orders", holder, "1"]) => self.granted(time, holder),
            // Ours removes the last field, Java the lock.
            ("HDEL" | "DEL", ["orders", ..]) => self.freed = Some(time),
            _ => {}
        }
    }

    fn granted(&mut self, time: Duration, holder: &str) {
        self.granted += 1;
        let has_waited = !self.waiting.is_empty();
        match self.waiting.iter().position(|waiter| waiter == holder) {
            Some(0) => {
                self.waiting.pop_front();
                self.waited += 1;
            }
            Some(later) => {
                self.waiting.remove(later);
                self.overtaken.push(format!("{holder} was number {later}"));
            }
            None if has_waited => self.overtaken.push(format!("{holder} had no place")),
            None => {}
        }
        if let Some(freed) = self.freed.take()
            && has_waited
        {
            self.pause = self.pause.max(time.saturating_sub(freed));
        }
    }
}

/// A process of ours: gets the address of the server and the file of the counter; reports how often it held the lock.
pub(crate) fn waiters(role: &Role) {
    let [url, file] = role.args() else {
        panic!("two arguments: {role:?}");
    };
    let (counter, stop) = (Counter::file(file), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let done: u64 = runtime.block_on(async {
        let client = Client::connect(url).await.unwrap();
        role.say("ready");
        role.hear();
        let mut workers = JoinSet::new();
        for _ in 0..WORKERS {
            let lock = client.fair_lock("orders").erase();
            workers.spawn(crate::excluding::count(lock, counter.clone(), stop.clone()));
        }
        role.hear();
        stop.cancel();
        workers.join_all().await.iter().sum()
    });
    role.say(&done.to_string());
}

#[test]
fn who_overtakes_is_noticed_and_so_is_a_pause() {
    let sent = |second: u32, words: &str| format!("170000000{second}.5 [0 lua] {words}");
    let push = |waiter: &str| format!(r#""RPUSH" "redisson_lock_queue:{{orders}}" "{waiter}""#);
    let grant = |holder: &str| format!(r#""HSET" "orders" "{holder}" "1""#);

    let line = Line::of(&[
        sent(0, &grant("a:1")),
        sent(0, &push("b:1")),
        sent(1, &push("c:1")),
        sent(2, r#""HDEL" "orders" "a:1""#),
        sent(4, &grant("c:1")),
        sent(5, r#""DEL" "orders""#),
        sent(6, &grant("b:1")),
        sent(7, r#""DEL" "orders""#),
        sent(9, &grant("d:1")),
    ]);

    assert_eq!(line.overtaken, ["c:1 was number 1"]);
    assert_eq!((line.granted, line.waited), (4, 1));
    assert_eq!(line.pause, Duration::from_secs(2));
}
