//! The commands on counters, lists, sorted sets and parts of hashes.

use std::collections::BTreeSet;

use super::super::emulator::commands::Reply;
use super::commands::{Bench, NO_INTEGER, WRONG_TYPE};

fn empty() -> Reply {
    Reply::List(Vec::new())
}

#[test]
fn counters_begin_at_zero_and_keep_their_deadline() {
    let mut bench = Bench::new();

    bench.check("INCR n", 1);
    bench.check("PEXPIRE n 100", 1);
    bench.check("INCRBY n 10", 11);
    bench.check("DECR n", 10);
    bench.check("DECRBY n -5", 15);
    bench.check("GET n", "15");
    bench.check("PTTL n", 100);
}

#[test]
fn counters_do_not_overflow() {
    let mut bench = Bench::new();
    let overflow = Reply::error("ERR increment or decrement would overflow");
    bench.run("SET n 9223372036854775807");
    bench.run("HSET h n -9223372036854775808");

    bench.check("INCR n", overflow.clone());
    bench.check("HINCRBY h n -1", overflow);
    let lowest = Reply::error("ERR decrement would overflow");
    bench.check("DECRBY n -9223372036854775808", lowest);
    bench.check("GET n", "9223372036854775807");
}

#[test]
fn counters_refuse_what_is_no_integer() {
    let mut bench = Bench::new();
    bench.run("SET n 1.0");
    bench.run("HSET h n x");

    bench.check("INCR n", Reply::error(NO_INTEGER));
    bench.check("INCRBY new x", Reply::error(NO_INTEGER));
    bench.check("INCR h", Reply::error(WRONG_TYPE));
    let no_number = Reply::error("ERR hash value is not an integer");
    bench.check("HINCRBY h n 1", no_number);
    bench.check("HINCRBY h new 3", 3);
}

#[test]
fn set_replies_the_old_value_and_takes_a_point_in_time() {
    let mut bench = Bench::new();

    bench.check("SET k 1 GET", Reply::Nil);
    bench.check("SET k 2 get PXAT 1000500", "1");
    bench.check("PTTL k", 500);
    bench.check("SET k 3 NX GET", "2");
    bench.check("SET k 3 EXAT 1001", super::commands::OK);
    bench.check("PTTL k", 1000);
    bench.run("HSET h f v");
    bench.check("SET h v GET", Reply::error(WRONG_TYPE));
}

#[test]
fn ttl_persist_and_pexpireat_read_remove_and_set_deadlines() {
    let mut bench = Bench::new();
    bench.run("SET k v");

    bench.check("EXPIRE k 2", 1);
    bench.check("PTTL k", 2000);
    bench.check("PEXPIREAT k 1001499", 1);
    bench.check("TTL k", 1);
    bench.check("PEXPIREAT k 1001500", 1);
    bench.check("TTL k", 2);
    bench.check("PERSIST k", 1);
    bench.check("PERSIST k", 0);
    bench.check("TTL k", -1);
    bench.check("PEXPIREAT k 1000000", 1);
    bench.check("TTL k", -2);
}

/// A deadline that was removed must not delete the key later.
#[test]
fn a_key_whose_deadline_was_removed_stays() {
    let mut bench = Bench::new();
    bench.run("SET k v PX 100");
    bench.run("PERSIST k");

    bench.at(1_000_200);

    bench.check("EXISTS k", 1);
}

#[test]
fn parts_of_hashes_are_read() {
    let mut bench = Bench::new();

    bench.check("HSETNX h a 1", 1);
    bench.check("HSETNX h a 2", 0);
    bench.run("HSET h b 2");
    bench.check("HKEYS h", ["a", "b"]);
    bench.check("HVALS h", ["1", "2"]);
    let list = vec![Reply::Bulk("1".into()), Reply::Nil];
    bench.check("HMGET h a x", Reply::List(list));
    bench.check("HMGET none a", Reply::List(vec![Reply::Nil]));
}

#[test]
fn a_scan_returns_every_field_that_stays() {
    let mut bench = Bench::new();
    for field in 0..300 {
        bench.run(&format!("HSET h {field} v"));
    }
    let (mut cursor, mut met) = ("0".to_owned(), BTreeSet::new());

    for step in 0.. {
        let (next, fields) = scanned(bench.run(&format!("HSCAN h {cursor} COUNT 7")));
        met.extend(fields.into_iter().step_by(2));
        // Fields that are added or removed meanwhile do not matter to the others.
        bench.run(&format!("HDEL h {}", 2 * step));
        bench.run(&format!("HSET h new{step} v"));
        cursor = next;
        if cursor == "0" {
            break;
        }
    }

    assert!(
        (1..300)
            .step_by(2)
            .all(|field| met.contains(&field.to_string()))
    );
}

fn scanned(reply: Reply) -> (String, Vec<String>) {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => String::from_utf8(bytes.clone()).unwrap(),
        other => panic!("{other:?}"),
    };
    match reply {
        Reply::List(parts) => match parts.as_slice() {
            [cursor, Reply::List(fields)] => (text(cursor), fields.iter().map(text).collect()),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_field_is_drawn_and_none_twice() {
    let mut bench = Bench::new();
    bench.run("HSET h a 1 b 2 c 3 d 4 e 5");
    let mut met = BTreeSet::new();

    for _ in 0..200 {
        let Reply::List(drawn) = bench.run("HRANDFIELD h 3") else {
            panic!("not a list");
        };
        let drawn: BTreeSet<String> = drawn.iter().map(|field| format!("{field:?}")).collect();
        assert_eq!(drawn.len(), 3);
        met.extend(drawn);
    }

    assert_eq!(met.len(), 5);
    bench.check("HRANDFIELD none", Reply::Nil);
    bench.check("HRANDFIELD none 3", empty());
}

#[test]
fn lists_have_two_ends() {
    let mut bench = Bench::new();

    bench.check("RPUSH l b c", 2);
    bench.check("LPUSH l a z", 4);
    bench.check("LRANGE l 0 -1", ["z", "a", "b", "c"]);
    bench.check("LRANGE l -2 100", ["b", "c"]);
    bench.check("LRANGE l 3 2", empty());
    bench.check("LINDEX l -1", "c");
    bench.check("LINDEX l 4", Reply::Nil);
    bench.check("LPOP l", "z");
    bench.check("RPOP l 2", ["c", "b"]);
    bench.check("LLEN l", 1);
    bench.check("LPOP l 5", ["a"]);
    bench.check("EXISTS l", 0);
    bench.check("LPOP l 1", Reply::Nil);
}

#[test]
fn items_are_removed_from_either_end() {
    let mut bench = Bench::new();
    bench.run("RPUSH l a b a c a");

    bench.check("LREM l -2 a", 2);
    bench.check("LRANGE l 0 -1", ["a", "b", "c"]);
    bench.check("RPUSH l a", 4);
    bench.check("LREM l 1 a", 1);
    bench.check("LRANGE l 0 -1", ["b", "c", "a"]);
    bench.check("LREM l 0 x", 0);
    bench.check("LREM none 0 x", 0);
}

#[test]
fn items_are_inserted_before_and_after_others() {
    let mut bench = Bench::new();
    bench.run("RPUSH l a b");

    bench.check("LINSERT l BEFORE b x", 3);
    bench.check("LINSERT l after b y", 4);
    bench.check("LRANGE l 0 -1", ["a", "x", "b", "y"]);
    bench.check("LINSERT l BEFORE none z", -1);
    bench.check("LINSERT none BEFORE a z", 0);
    bench.check("LINSERT l BESIDE a z", Reply::error("ERR syntax error"));
}

#[test]
fn sorted_sets_are_ordered_by_score_then_by_bytes() {
    let mut bench = Bench::new();

    bench.check("ZADD z 2 b 1 c 1 a", 3);
    bench.check("ZRANGE z 0 -1 WITHSCORES", ["a", "1", "c", "1", "b", "2"]);
    bench.check("ZADD z 3 a", 0);
    bench.check("ZRANGE z 0 -1", ["c", "b", "a"]);
    bench.check("ZREVRANGE z 0 0 WITHSCORES", ["a", "3"]);
    bench.check("ZRANK z b", 1);
    bench.check("ZRANK z x", Reply::Nil);
    bench.check("ZSCORE z b", "2");
    bench.check("ZCARD z", 3);
    bench.check("ZPOPMIN z 2", ["c", "1", "b", "2"]);
    bench.check("ZREM z a a", 1);
    bench.check("EXISTS z", 0);
}

#[test]
fn scores_are_added_under_conditions() {
    let mut bench = Bench::new();
    bench.run("ZADD z 5 m");

    bench.check("ZADD z NX 6 m 1 new", 1);
    bench.check("ZADD z XX CH 6 m 7 other", 1);
    bench.check("ZADD z GT CH 5 m", 0);
    bench.check("ZADD z LT INCR 1 m", Reply::Nil);
    bench.check("ZADD z INCR 0.5 m", "6.5");
    bench.check("ZINCRBY z -0.5 m", "6");
    bench.check("ZINCRBY z inf m", "inf");
    let no_number = Reply::error("ERR resulting score is not a number (NaN)");
    bench.check("ZINCRBY z -inf m", no_number);
    let no_float = Reply::error("ERR value is not a valid float");
    bench.check("ZADD z 1 a x b", no_float);
    bench.check("ZCARD z", 2);
}

#[test]
fn ranges_of_scores_have_open_and_closed_ends() {
    let mut bench = Bench::new();
    bench.run("ZADD z 1 a 2 b 3 c 4 d");

    bench.check("ZCOUNT z -inf +inf", 4);
    bench.check("ZCOUNT z (1 3", 2);
    bench.check("ZCOUNT z 3 (3", 0);
    bench.check("ZRANGEBYSCORE z 2 +inf LIMIT 1 1", ["c"]);
    bench.check("ZRANGE z (4 -inf BYSCORE REV LIMIT 0 2", ["c", "b"]);
    bench.check("ZRANGE z 1 4 BYSCORE LIMIT -1 1", empty());
    bench.check("ZREMRANGEBYSCORE z -inf (3", 2);
    bench.check("ZRANGE z 0 -1", ["c", "d"]);
    let no_float = Reply::error("ERR min or max is not a float");
    bench.check("ZCOUNT z x 1", no_float);
}

#[test]
fn commands_refuse_lists_and_sorted_sets_of_the_wrong_type() {
    let mut bench = Bench::new();
    bench.run("RPUSH l a");
    bench.run("ZADD z 1 a");

    bench.check("TYPE l", Reply::Status("list"));
    bench.check("TYPE z", Reply::Status("zset"));
    for line in [
        "LPUSH z a",
        "LPOP z",
        "LLEN z",
        "LINDEX z 0",
        "LRANGE z 0 -1",
        "LREM z 0 a",
        "LINSERT z BEFORE a b",
        "ZADD l 1 a",
        "ZINCRBY l 1 a",
        "ZREM l a",
        "ZSCORE l a",
        "ZRANK l a",
        "ZCARD l",
        "ZCOUNT l 0 1",
        "ZRANGE l 0 -1",
        "ZRANGEBYSCORE l 0 1",
        "ZREVRANGE l 0 -1",
        "ZREMRANGEBYSCORE l 0 1",
        "ZPOPMIN l",
        "HINCRBY l a 1",
        "HSCAN l 0",
        "HRANDFIELD l",
        "INCR l",
    ] {
        bench.check(line, Reply::error(WRONG_TYPE));
    }
}
