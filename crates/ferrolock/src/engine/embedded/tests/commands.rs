//! Each command against what Redis documents.

use super::super::emulator::commands::{Args, Reply, execute};
use super::super::emulator::server::Server;

pub(super) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";
const WRONG_COUNT: &str = "ERR Wrong number of args calling Redis command from script";
pub(super) const NO_INTEGER: &str = "ERR value is not an integer or out of range";

/// A server whose time the test sets, in milliseconds.
pub(super) struct Bench(Server);

impl Bench {
    pub(super) fn new() -> Self {
        let mut bench = Bench(Server::default());
        bench.at(1_000_000);
        bench
    }

    pub(super) fn at(&mut self, millis: i64) {
        self.0.begin(millis * 1000);
    }

    /// Runs a line of words; `""` stands for an empty one.
    pub(super) fn run(&mut self, line: &str) -> Reply {
        let mut args = Args::default();
        for word in line.split(' ') {
            args.push(word.replace("\"\"", "").as_bytes());
        }
        execute(&mut self.0, &args)
    }

    pub(super) fn check(&mut self, line: &str, expected: impl Into<Expected>) {
        let Expected(expected) = expected.into();
        assert_eq!(self.run(line), expected, "{line}");
    }
}

pub(super) struct Expected(Reply);

impl From<i64> for Expected {
    fn from(number: i64) -> Self {
        Expected(Reply::Int(number))
    }
}

impl From<&str> for Expected {
    fn from(text: &str) -> Self {
        Expected(Reply::Bulk(text.into()))
    }
}

impl From<Reply> for Expected {
    fn from(reply: Reply) -> Self {
        Expected(reply)
    }
}

impl<const N: usize> From<[&str; N]> for Expected {
    fn from(texts: [&str; N]) -> Self {
        Expected(Reply::List(
            texts.map(|text| Reply::Bulk(text.into())).to_vec(),
        ))
    }
}

pub(super) const OK: Reply = Reply::Status("OK");

#[test]
fn strings_are_set_and_read() {
    let mut bench = Bench::new();

    bench.check("GET k", Reply::Nil);
    bench.check("SET k v", OK);
    bench.check("get k", "v");
    bench.check("SET k \"\"", OK);
    bench.check("GET k", "");
    bench.check("TYPE k", Reply::Status("string"));
    bench.check("TYPE none", Reply::Status("none"));
}

#[test]
fn set_takes_nx_and_xx() {
    let mut bench = Bench::new();

    bench.check("SET k 1 XX", Reply::Nil);
    bench.check("SET k 1 NX", OK);
    bench.check("SET k 2 nx", Reply::Nil);
    bench.check("GET k", "1");
    bench.check("SET k 2 xx", OK);
    bench.check("GET k", "2");
}

#[test]
fn set_replaces_type_and_deadline() {
    let mut bench = Bench::new();
    bench.run("HSET k f v");
    bench.run("PEXPIRE k 100");

    bench.check("SET k v", OK);
    bench.check("PTTL k", -1);
    bench.check("SET k v PX 100", OK);
    bench.check("PTTL k", 100);
    bench.check("SET k v NX PX 900", Reply::Nil);
    bench.check("PTTL k", 100);
    bench.check("SET k v KEEPTTL", OK);
    bench.check("PTTL k", 100);
    bench.check("SET k v EX 2", OK);
    bench.check("PTTL k", 2000);
}

#[test]
fn set_refuses_what_it_cannot_read() {
    let mut bench = Bench::new();
    let syntax = Reply::error("ERR syntax error");
    let expire = Reply::error("ERR invalid expire time in 'set' command");

    for line in [
        "SET k v PX",
        "SET k v FOO",
        "SET k v NX XX",
        "SET k v XX NX",
        "SET k v PX 5 EX 5",
        "SET k v KEEPTTL PX 5",
        "SET k v PX 5 KEEPTTL",
    ] {
        bench.check(line, syntax.clone());
    }
    bench.check("SET k v PX 0", expire.clone());
    bench.check("SET k v PX -5", expire.clone());
    bench.check("SET k v PX 9223372036854775807", expire.clone());
    bench.check("SET k v EX 9223372036854775807", expire);
    bench.check("SET k v PX 1.5", Reply::error(NO_INTEGER));
    bench.check("EXISTS k", 0);
}

#[test]
fn hashes_keep_their_fields_in_order() {
    let mut bench = Bench::new();

    bench.check("HSET h b 1 a 2 c 3", 3);
    bench.check("HSET h a 9 d 4", 1);
    bench.check("HGETALL h", ["b", "1", "a", "9", "c", "3", "d", "4"]);
    bench.check("HDEL h b x c", 2);
    bench.check("HSET h b 5", 1);
    bench.check("HGETALL h", ["a", "9", "d", "4", "b", "5"]);
    bench.check("HLEN h", 3);
    bench.check("HGET h a", "9");
    bench.check("HGET h x", Reply::Nil);
    bench.check("HEXISTS h a", 1);
    bench.check("HEXISTS h x", 0);
    bench.check("TYPE h", Reply::Status("hash"));
}

#[test]
fn a_field_named_twice_in_one_call_is_new_once() {
    let mut bench = Bench::new();

    bench.check("HSET h a 1 a 2", 1);
    bench.check("HGET h a", "2");
    bench.check("HDEL h a a", 1);
}

#[test]
fn a_hash_without_fields_vanishes_with_its_deadline() {
    let mut bench = Bench::new();
    bench.run("HSET h f v");
    bench.run("PEXPIRE h 100");

    bench.check("HDEL h f", 1);
    bench.check("EXISTS h", 0);
    bench.check("HSET h f v", 1);
    bench.check("PTTL h", -1);
}

#[test]
fn a_missing_hash_is_an_empty_one() {
    let mut bench = Bench::new();

    bench.check("HLEN h", 0);
    bench.check("HGETALL h", Reply::List(Vec::new()));
    bench.check("HDEL h f", 0);
    bench.check("HEXISTS h f", 0);
    bench.check("EXISTS h", 0);
}

#[test]
fn a_key_of_another_type_is_refused_and_left_alone() {
    let mut bench = Bench::new();
    bench.run("SET s v");
    bench.run("HSET h f v");

    for line in [
        "HSET s f v",
        "HGET s f",
        "HEXISTS s f",
        "HDEL s f",
        "HLEN s",
        "HGETALL s",
        "GET h",
    ] {
        bench.check(line, Reply::error(WRONG_TYPE));
    }
    bench.check("GET s", "v");
    bench.check("HGET h f", "v");
}

#[test]
fn keys_are_counted_as_often_as_they_are_named() {
    let mut bench = Bench::new();
    bench.run("SET a 1");
    bench.run("HSET b f 1");

    bench.check("EXISTS a a b c", 3);
    bench.check("DEL a a c b", 2);
    bench.check("DEL a", 0);
}

#[test]
fn a_deadline_counts_down_and_ends_the_key() {
    let mut bench = Bench::new();
    bench.run("SET k v");

    bench.check("PTTL none", -2);
    bench.check("PTTL k", -1);
    bench.check("PEXPIRE none 100", 0);
    bench.check("PEXPIRE k 100", 1);
    bench.check("PTTL k", 100);
    bench.at(1_000_060);
    bench.check("PTTL k", 40);
    bench.at(1_000_100);
    bench.check("PTTL k", 0);
    bench.at(1_000_101);
    bench.check("PTTL k", -2);
}

#[test]
fn a_deadline_that_is_not_ahead_deletes() {
    for time in ["0", "-1", "-9223372036854775808"] {
        let mut bench = Bench::new();
        bench.run("SET k v");

        bench.check(&format!("PEXPIRE k {time}"), 1);
        bench.check("EXISTS k", 0);
    }
}

#[test]
fn a_deadline_is_a_plain_integer() {
    let mut bench = Bench::new();
    bench.run("SET k v");

    for time in [
        "x",
        "1.0",
        "+1",
        "01",
        "1e3",
        "-0",
        "\"\"",
        "9223372036854775808",
    ] {
        bench.check(&format!("PEXPIRE k {time}"), Reply::error(NO_INTEGER));
    }
    let beyond = Reply::error("ERR invalid expire time in 'pexpire' command");
    bench.check("PEXPIRE k 9223372036854775807", beyond);
    bench.check("PTTL k", -1);
}

#[test]
fn a_deadline_may_have_conditions() {
    let mut bench = Bench::new();
    bench.run("SET k v");

    bench.check("PEXPIRE k 100 XX", 0);
    bench.check("PEXPIRE k 100 GT", 0);
    bench.check("PEXPIRE k 100 LT", 1);
    bench.check("PEXPIRE k 200 NX", 0);
    bench.check("PEXPIRE k 100 GT", 0);
    bench.check("PEXPIRE k 200 xx gt", 1);
    bench.check("PTTL k", 200);
    bench.check(
        "PEXPIRE k 5 FOO",
        Reply::error("ERR Unsupported option FOO"),
    );
    let clash = "ERR NX and XX, GT or LT options at the same time are not compatible";
    bench.check("PEXPIRE k 5 NX GT", Reply::error(clash));
    let clash = "ERR GT and LT options at the same time are not compatible";
    bench.check("PEXPIRE k 5 GT LT", Reply::error(clash));
}

#[test]
fn writing_a_hash_keeps_its_deadline() {
    let mut bench = Bench::new();
    bench.run("HSET h a 1");
    bench.run("PEXPIRE h 100");

    bench.check("HSET h b 2", 1);
    bench.check("HDEL h a", 1);
    bench.check("PTTL h", 100);
}

#[test]
fn keys_past_their_deadline_are_removed_without_being_read() {
    let mut bench = Bench::new();
    for key in 0..100 {
        bench.run(&format!("SET k{key} v PX {}", 100 + key));
    }

    bench.at(1_000_000 + 150);

    assert_eq!(bench.0.keys.stored(), 50);
}

#[test]
fn a_deadline_that_was_moved_does_not_delete_at_its_old_time() {
    let mut bench = Bench::new();
    bench.run("SET k v PX 100");
    bench.run("PEXPIRE k 300");

    bench.at(1_000_200);

    bench.check("PTTL k", 100);
}

#[test]
fn time_is_seconds_and_microseconds() {
    let mut bench = Bench::new();
    bench.0.begin(1_700_000_000_000_042);

    bench.check("TIME", ["1700000000", "42"]);
}

#[test]
fn publish_replies_zero_without_listeners() {
    let mut bench = Bench::new();

    bench.check("PUBLISH c m", 0);
    assert!(bench.0.take_mail().is_empty());
}

#[test]
fn the_number_of_words_is_checked_first() {
    let mut bench = Bench::new();

    for line in [
        "DEL",
        "EXISTS",
        "TYPE",
        "TYPE a b",
        "PTTL",
        "PEXPIRE k",
        "HSET h f",
        "HGET h",
        "HGET h f g",
        "HEXISTS h",
        "HDEL h",
        "HLEN",
        "HGETALL",
        "GET",
        "SET k",
        "TIME now",
        "PUBLISH c",
    ] {
        bench.check(line, Reply::error(WRONG_COUNT));
    }
    let pairs = Reply::error("ERR wrong number of arguments for 'hset' command");
    bench.check("HSET h f v g", pairs);
    let unknown = Reply::error("ERR Unknown Redis command called from script");
    bench.check("NOPE k", unknown.clone());
    bench.check("\"\"", unknown);
}
