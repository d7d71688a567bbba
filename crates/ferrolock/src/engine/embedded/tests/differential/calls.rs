//! Random calls: few keys and fields, so that calls share them; wrong types, odd numbers, options in any case.

use std::sync::Arc;
use std::time::Duration;

use crate::protocol::call::{Arg, Call as ScriptCall};
use crate::protocol::fenced_lock::FencedScheme;
use crate::protocol::key_type;
use crate::protocol::lock::{self, PlainScheme};
use crate::protocol::renewal::{self, Row};
use crate::protocol::scheme::{Ask, Bearer, Scheme};
use crate::protocol::spin_lock::SpinScheme;

/// One call of a batch.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) way: Way,
    pub(super) words: Vec<String>,
}

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Command,
    /// A command whose numbers are numbers of Lua.
    Numbers,
    /// A lock script: its name, the number of its keys, keys, arguments.
    Script,
    /// Not made: a server could not say which of two deadlines is later.
    Skip,
}

/// The keys that are compared: those that every call may act on, in the order of [`Kind`], then those of locks, then those
/// that only scripts of the fair lock and `DEL` act on. With the fields of other calls a waiter could not be drawn at random.
pub(super) const KEYS: [&str; 25] = [
    "s1",
    "s2",
    "h1",
    "h2",
    "l1",
    "l2",
    "z1",
    "z2",
    "lock1",
    "lock2",
    "ferrolock_holder:{lock1}",
    "ferrolock_holder:{lock2}",
    "redisson_lock_token:{lock1}",
    "redisson_lock_token:{lock2}",
    "rw1",
    "ferrolock_holder:{rw1}",
    "ferrolock_rw_intent:{rw1}",
    "{rw1}:a:1:rwlock_timeout:1",
    "{rw1}:a:2:rwlock_timeout:1",
    "{rw1}:b:1:rwlock_timeout:1",
    "redisson_lock_queue:{lock1}",
    "redisson_lock_timeout:{lock1}",
    "ferrolock_fair_clients:{lock1}",
    "ferrolock_fair_waiters:{lock1}",
    "ferrolock_fair_amnesty:{lock1}",
];
/// How many of them every call may act on.
const SHARED: usize = 20;

/// How a command is made up: its name, its first words, options (any, in any order), last words (once or more).
struct Shape(
    &'static str,
    &'static str,
    &'static [&'static str],
    &'static str,
);

/// Words in capitals stand for one of their pool; the others for themselves.
const SHAPES: &[Shape] = &[
    Shape("GET", "STRING", &[], ""),
    Shape(
        "SET",
        "STRING VALUE",
        &[
            "NX",
            "XX",
            "GET",
            "KEEPTTL",
            "PX MS",
            "EX SECONDS",
            "PXAT AT",
            "EXAT ATS",
            "PX INT",
            "odd",
        ],
        "",
    ),
    Shape("SET", "STRING INT", &[], ""),
    Shape("SET", "STRING LONG", &[], ""),
    Shape("INCR", "STRING", &[], ""),
    Shape("INCRBY", "STRING INT", &[], ""),
    Shape("DECR", "STRING", &[], ""),
    Shape("DECRBY", "STRING INT", &[], ""),
    Shape("DEL", "", &[], "ANY"),
    Shape("DEL", "FAIR", &[], ""),
    Shape("EXISTS", "", &[], "ANY"),
    Shape("TYPE", "ANY", &[], ""),
    Shape("PTTL", "ANY", &[], ""),
    Shape("TTL", "ANY", &[], ""),
    Shape("PEXPIRE", "ANY MS", &["NX", "XX", "GT", "LT"], ""),
    Shape("PEXPIRE", "ANY MS", &["odd"], ""),
    Shape("EXPIRE", "ANY SECONDS", &["NX", "XX", "GT", "LT"], ""),
    Shape("PEXPIREAT", "ANY AT", &["NX", "XX", "GT", "LT"], ""),
    Shape("PERSIST", "ANY", &[], ""),
    Shape("HSET", "HASH", &[], "FIELD VALUE"),
    Shape("HSET", "HASH", &[], "FIELD INT"),
    Shape("HSETNX", "HASH FIELD VALUE", &[], ""),
    Shape("HGET", "HASH FIELD", &[], ""),
    Shape("HMGET", "HASH", &[], "FIELD"),
    Shape("HDEL", "HASH", &[], "FIELD"),
    Shape("HEXISTS", "HASH FIELD", &[], ""),
    Shape("HLEN", "HASH", &[], ""),
    Shape("HGETALL", "HASH", &[], ""),
    Shape("HKEYS", "HASH", &[], ""),
    Shape("HVALS", "HASH", &[], ""),
    Shape("HINCRBY", "HASH FIELD INT", &[], ""),
    Shape("HSCAN", "HASH CURSOR", &["COUNT INT", "odd"], ""),
    Shape("HRANDFIELD", "HASH", &[], ""),
    Shape("HRANDFIELD", "HASH SMALL", &["WITHVALUES", "odd"], ""),
    Shape("LPUSH", "LIST", &[], "ITEM"),
    Shape("RPUSH", "LIST", &[], "ITEM"),
    Shape("RPUSH", "LIST ITEM", &[], "ITEM"),
    Shape("LPOP", "LIST", &[], ""),
    Shape("LPOP", "LIST INT", &[], ""),
    Shape("RPOP", "LIST", &[], ""),
    Shape("RPOP", "LIST INT", &[], ""),
    Shape("LLEN", "LIST", &[], ""),
    Shape("LINDEX", "LIST INT", &[], ""),
    Shape("LRANGE", "LIST INT INT", &[], ""),
    Shape("LREM", "LIST SHORT ITEM", &[], ""),
    Shape("LINSERT", "LIST SIDE ITEM ITEM", &[], ""),
    Shape(
        "ZADD",
        "SET",
        &["NX", "XX", "GT", "LT", "CH", "INCR"],
        "SCORE ITEM",
    ),
    Shape("ZADD", "SET", &[], "SCORE ITEM"),
    Shape("ZREM", "SET", &[], "ITEM"),
    Shape("ZSCORE", "SET ITEM", &[], ""),
    Shape("ZRANK", "SET ITEM", &[], ""),
    Shape("ZCARD", "SET", &[], ""),
    Shape("ZCOUNT", "SET BOUND BOUND", &[], ""),
    Shape(
        "ZRANGE",
        "SET INT INT",
        &["WITHSCORES", "REV", "LIMIT INT INT"],
        "",
    ),
    Shape(
        "ZRANGE",
        "SET BOUND BOUND BYSCORE",
        &["WITHSCORES", "REV", "LIMIT INT INT", "odd"],
        "",
    ),
    Shape(
        "ZRANGEBYSCORE",
        "SET BOUND BOUND",
        &["WITHSCORES", "LIMIT INT INT", "REV"],
        "",
    ),
    Shape(
        "ZREVRANGE",
        "SET INT INT",
        &["WITHSCORES", "LIMIT INT INT"],
        "",
    ),
    Shape("ZREMRANGEBYSCORE", "SET BOUND BOUND", &[], ""),
    Shape("ZINCRBY", "SET SCORE ITEM", &[], ""),
    Shape("ZPOPMIN", "SET", &[], ""),
    Shape("ZPOPMIN", "SET INT", &[], ""),
    Shape("PUBLISH", "ANY VALUE", &[], ""),
    Shape("TIME", "", &[], ""),
    Shape("NOPE", "ANY", &[], ""),
];

const INTS: [&str; 26] = [
    "0",
    "0",
    "1",
    "1",
    "-1",
    "-1",
    "2",
    "-2",
    "3",
    "-3",
    "5",
    "10",
    "100",
    "-100",
    "-0",
    "+1",
    "01",
    " 1",
    "1.0",
    "1e3",
    "",
    "abc",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "4611686018427387904",
];
const SCORES: [&str; 34] = [
    "0",
    "1",
    "1",
    "2",
    "2",
    "3",
    "-1",
    "1.5",
    "-1.5",
    "3.1",
    "0.1",
    "1e3",
    "1e400",
    "-1e400",
    "1e-400",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "infinity",
    "INF",
    ".5",
    "5.",
    "-0",
    "+2",
    "1 ",
    "",
    "1e",
    "abc",
    "9007199254740993",
    "1e17",
    "123456789.123",
    "1e308",
    "4.9e-324",
];
/// Times in ms that are past, ahead by more than a call takes, or no times.
const MS: [&str; 14] = [
    "30",
    "60",
    "200",
    "1000",
    "30000",
    "0",
    "-1",
    "-100",
    "1.5",
    "",
    "x",
    "9223372036854775807",
    "-9223372036854775808",
    "9223370000000000000",
];
const SECONDS: [&str; 10] = [
    "1",
    "2",
    "100",
    "0",
    "-1",
    "x",
    "9223372036854775807",
    "9223372036854775",
    "-9223372036854775",
    "-9223372036854775808",
];
const VALUES: [&str; 9] = [
    "",
    "v",
    "text",
    "7",
    "-7",
    "1.5",
    "é",
    "a\r\nb\0c",
    "9223372036854775807",
];
/// Longer than the servers keep in their small forms.
const LONG: &str =
    "longer than the sixty-four bytes above which the servers store a hash in another form";
const ITEMS: [&str; 7] = ["a", "b", "c", "d", "", "é", "1"];

/// Makes calls from a seed.
pub(super) struct Source {
    pub(super) random: fastrand::Rng,
    /// The first two are locks of their own, the others are keys of other calls.
    locks: [PlainScheme; 4],
}

impl Source {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: fastrand::Rng::with_seed(seed),
            locks: ["lock1", "lock2", "s1", "h1"].map(|name| PlainScheme::new(name.into())),
        }
    }

    /// A number below `end`.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.random.u64(..end)
    }

    pub(super) fn call(&mut self) -> Call {
        if self.below(10) == 0 {
            return self.script();
        }
        let shape = &SHAPES[self.random.usize(..SHAPES.len())];
        let mut words = vec![self.cased(shape.0)];
        self.add(shape.1, &mut words);
        while !shape.2.is_empty() && self.below(5) < 2 {
            let option = self.pick(shape.2);
            self.add(option, &mut words);
        }
        loop {
            self.add(shape.3, &mut words);
            if shape.3.is_empty() || self.below(3) > 0 {
                break;
            }
        }
        match self.below(100) {
            0 => drop(words.pop()),
            1 => words.push("odd".to_owned()),
            _ => {}
        }
        // Fractions and `-0` as numbers of Lua are known differences, and would stay in the keys.
        let is_odd = |word: &String| word == "-0" || word.contains(['.', 'e', 'E']);
        let is_whole = !words.iter().skip(1).any(is_odd);
        let way = match self.below(8) {
            0 if is_whole => Way::Numbers,
            _ => Way::Command,
        };
        Call { way, words }
    }

    fn add(&mut self, shape: &'static str, words: &mut Vec<String>) {
        for part in shape.split_whitespace() {
            let word = match part {
                "STRING" => self.key(0),
                "HASH" => self.key(1),
                "LIST" => self.key(2),
                "SET" => self.key(3),
                "ANY" => self.pick(&KEYS[..SHARED]).to_owned(),
                "FAIR" => self.pick(&KEYS[SHARED..]).to_owned(),
                "VALUE" => self.pick(&VALUES).to_owned(),
                "LONG" => LONG.to_owned(),
                "FIELD" | "ITEM" => self.pick(&ITEMS).to_owned(),
                "INT" => self.pick(&INTS).to_owned(),
                // Without the lowest, which servers treat differently.
                "SHORT" => self.pick(&INTS[..22]).to_owned(),
                "SMALL" => self
                    .pick(&["0", "1", "2", "3", "-1", "-5", "100", "x"])
                    .to_owned(),
                "CURSOR" => self.pick(&["0", "0", "0", "x", "1.5"]).to_owned(),
                "SCORE" => self.pick(&SCORES).to_owned(),
                "BOUND" => self.bound(),
                "MS" => self.millis(),
                "SECONDS" => self.pick(&SECONDS).to_owned(),
                "AT" => self
                    .pick(&["@1000", "@60000", "@-1000", "1", "-5", "x", "0"])
                    .to_owned(),
                "ATS" => self
                    .pick(&["@s5", "@s100", "@s-5", "1", "0", "x"])
                    .to_owned(),
                "SIDE" => self.pick(&["BEFORE", "after", "odd"]).to_owned(),
                word => self.cased(word),
            };
            words.push(word);
        }
    }

    /// Mostly a key of that type.
    fn key(&mut self, kind: usize) -> String {
        let place = match self.below(5) {
            0 => self.random.usize(..SHARED),
            _ => kind * 2 + self.random.usize(..2),
        };
        KEYS[place].to_owned()
    }

    fn bound(&mut self) -> String {
        let open = if self.below(4) == 0 { "(" } else { "" };
        let score = match self.below(3) {
            0 => self.pick(&["-inf", "+inf"]),
            _ => self.pick(&SCORES),
        };
        format!("{open}{score}")
    }

    fn millis(&mut self) -> String {
        match self.below(2) {
            0 => self.random.u32(16..48).to_string(),
            _ => self.pick(&MS).to_owned(),
        }
    }

    /// Upper, lower or mixed case.
    fn cased(&mut self, word: &str) -> String {
        match self.below(4) {
            0 => word.to_lowercase(),
            1 => word[..1].to_owned() + &word[1..].to_lowercase(),
            _ => word.to_owned(),
        }
    }

    pub(super) fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.random.usize(..from.len())]
    }

    /// A call of a script of a lock.
    pub(super) fn script(&mut self) -> Call {
        if self.below(2) == 0 {
            return match self.random.u8(..3) {
                0 => self.rw_script(),
                1 => self.fair_script(),
                _ => self.bundle_script(),
            };
        }
        let field = self.pick(&["a:1", "a:2", "b:1"]).into();
        let who = self.random.bool();
        let who = who.then(|| lock::write_details(42, "host", "label"));
        let bearer = Bearer { field, who };
        let lease = match self.below(4) {
            0 => self.below(50),
            _ => self.below(60_000),
        };
        let lease = Duration::from_millis(if lease < 16 { 0 } else { lease });
        let count = self.random.u32(0..4);
        let lock: Arc<str> = ["lock1", "lock2"][self.random.usize(..2)].into();
        let keys: Box<dyn Scheme> = match self.random.u8(..4) {
            0..=1 => Box::new(PlainScheme::new(lock)),
            2 => Box::new(FencedScheme::new(lock)),
            _ => Box::new(SpinScheme::new(lock, SpinScheme::PACE)),
        };
        // Larger than any time in microseconds, which is not the same on all sides.
        let fence_floor = (1 << 52) + self.random.u64(..5);
        let ask = Ask {
            fence_floor,
            ..Ask::once(&bearer, lease)
        };
        words_of(&match self.random.u8(..12) {
            0..=2 => keys.acquire(&ask),
            3..=4 => keys.reenter(&bearer, lease, count),
            5..=6 => keys.release(&bearer, count, lease),
            7 => renewal::batch(&self.renewals(&bearer, lease)).unwrap(),
            8 => keys.delay_release(&bearer, lease),
            9 => keys.force_unlock(),
            10 => key_type::ask(keys.name()),
            _ => keys.inspect(),
        })
    }

    /// Up to four rows, none on the key of another: the deadline that the first one sets would be close to that of the next.
    fn renewals(&mut self, bearer: &Bearer, lease: Duration) -> Vec<Row> {
        // The details of keys that are no locks are not among the keys of a batch.
        let most = if bearer.who.is_some() { 2 } else { 4 };
        let (first, count) = (self.random.usize(..most), self.random.usize(1..=most));
        let keys = self.locks[..most].iter().cycle();
        keys.skip(first)
            .take(count)
            .map(|keys| keys.renew(bearer, lease))
            .collect()
    }
}

pub(super) fn words_of(call: &ScriptCall) -> Call {
    let mut words = vec![call.script.name.to_owned(), call.keys.len().to_string()];
    words.extend(call.keys.iter().map(|key| key.to_string()));
    words.extend(call.args.iter().map(|arg| match arg {
        Arg::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Arg::Int(number) => number.to_string(),
    }));
    Call {
        way: Way::Script,
        words,
    }
}
