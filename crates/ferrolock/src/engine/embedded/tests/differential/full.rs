//! A server whose memory is full refuses what takes something, and does everything that gives something back.
//!
//! A full server refuses the first write of a script if it may need memory. So each call is a script of its own here, on
//! whatever random calls have left.

use std::collections::{BTreeMap, BTreeSet};

use super::calls::{Call, Source, Way};
use crate::protocol::scripts;
use testkit::{Connection, Kind, Reply, Server};

/// Scripts that take something: a full server may refuse them.
const TAKES: [&str; 9] = [
    "fair_lock/acquire",
    "fenced_lock/acquire",
    "fenced_lock/acquire_on_node",
    "fenced_lock/raise",
    "lock/acquire",
    "multi_lock/acquire",
    "quorum_node/initialise",
    "rw_lock/read_acquire",
    "rw_lock/write_acquire",
];

#[test]
fn a_full_redis_does_everything_that_gives_back() {
    run_on(Kind::Redis);
}

#[test]
fn a_full_valkey_does_everything_that_gives_back() {
    run_on(Kind::Valkey);
}

fn run_on(kind: Kind) {
    if !kind.is_here() {
        return;
    }
    let seed = std::env::var("FERROLOCK_DIFF_SEED");
    let seed = seed.map_or_else(|_| fastrand::u64(..1 << 32), |seed| seed.parse().unwrap());
    println!("{}: seed {seed}", kind.name());
    let server = Server::builder(kind)
        .config("maxmemory-policy noeviction")
        .start();
    let mut full = Full::new(&server, seed);
    // The calls are random: the rarest replies may take longer.
    let steps = testkit::count(1_500, 15_000);
    for step in 0..20 * steps {
        if step >= steps && full.is_complete() {
            break;
        }
        full.step();
    }
    full.judge();
}

struct Full {
    source: Source,
    connection: Connection,
    seed: u64,
    /// The replies of each script while the memory was full.
    replies: BTreeMap<&'static str, BTreeSet<String>>,
    refused: BTreeSet<&'static str>,
}

impl Full {
    fn new(server: &Server, seed: u64) -> Self {
        Self {
            source: Source::new(seed),
            connection: server.connect(),
            seed,
            replies: BTreeMap::new(),
            refused: BTreeSet::new(),
        }
    }

    /// Some calls with memory, a few without.
    fn step(&mut self) {
        for _ in 0..self.source.below(8) {
            let call = self.source.script();
            self.eval(&call);
        }
        self.odd_events();
        self.limit("1");
        for _ in 0..4 {
            let call = self.source.script();
            let (script, reply) = self.eval(&call);
            let is_refused = matches!(&reply, Reply::Error(text) if text.contains("OOM"));
            if is_refused {
                let is_wanted = TAKES.contains(&script) && !has_its_place(&call);
                assert!(is_wanted, "seed {}: {:?} is refused", self.seed, call.words);
                self.refused.insert(script);
            } else {
                self.replies
                    .entry(script)
                    .or_default()
                    .insert(format!("{reply:?}"));
            }
        }
        self.limit("0");
    }

    /// A waiter of Redisson comes; a reader's hold ends; all keys go.
    fn odd_events(&mut self) {
        let event: &[&str] = match self.source.below(40) {
            0..=4 => &[
                "RPUSH",
                "redisson_lock_queue:{lock1}",
                "dddddddd-dddd-4ddd-dddd-dddddddddddd:1",
            ],
            5..=6 => &["DEL", "{rw1}:a:1:rwlock_timeout:1"],
            7..=9 => &["DEL", "ferrolock_fair_clients:{lock1}"],
            10 => &["FLUSHALL"],
            _ => return,
        };
        self.connection.command(event);
    }

    fn limit(&mut self, bytes: &str) {
        let set = ["CONFIG", "SET", "maxmemory", bytes];
        assert_eq!(self.connection.command(&set), Reply::from("OK"));
    }

    fn eval(&mut self, call: &Call) -> (&'static str, Reply) {
        let script = scripts()
            .into_iter()
            .find(|script| script.name == call.words[0]);
        let script = script.unwrap();
        let mut command = vec!["EVAL", script.source];
        command.extend(call.words[1..].iter().map(String::as_str));
        (script.name, self.connection.command(&command))
    }

    /// Scripts that give back and had one reply at most.
    fn one_sided(&self) -> Vec<&'static str> {
        let replies = |script: &str| self.replies.get(script).map_or(0, BTreeSet::len);
        let given_back = scripts().into_iter().map(|script| script.name);
        let given_back = given_back.filter(|script| !TAKES.contains(script));
        given_back.filter(|script| replies(script) < 2).collect()
    }

    fn is_complete(&self) -> bool {
        self.refused.len() == TAKES.len() && self.one_sided().is_empty()
    }

    /// Every script was called, and the test would have noticed a refusal.
    fn judge(&self) {
        assert_eq!(
            self.refused,
            TAKES.into(),
            "these are refused, seed {}",
            self.seed
        );
        assert!(
            self.is_complete(),
            "{:?}, seed {}",
            self.one_sided(),
            self.seed
        );
    }
}

/// A waiter for a fair lock that has its place keeps it on a full server, and gets its turn.
fn has_its_place(call: &Call) -> bool {
    call.way == Way::Script && {
        let keys: usize = call.words[1].parse().unwrap();
        call.words[0] == "fair_lock/acquire" && call.words[2 + keys + 3] != "0"
    }
}
