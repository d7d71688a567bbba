//! Every branch of the scripts with which a read-write lock is taken, entered again and given back.

use super::rw_table::{DETAILS, FREE, GRANTED, LEASE, Table, bearer, busy, hold, ms, named};
use crate::protocol::rw_lock::{ReadScheme, WriteScheme};
use crate::protocol::scheme::{AttemptReply, Release, Rest, Standing};

#[tokio::test(start_paused = true)]
async fn readers_share_the_lock_and_it_lives_as_long_as_the_longest() {
    let table = Table::new();

    assert_eq!(table.reads(&bearer("a:1"), LEASE), GRANTED);
    assert_eq!(table.reads(&bearer("b:1"), ms(60_000)), GRANTED);
    assert_eq!(table.reads(&bearer("c:1"), ms(1000)), GRANTED);

    assert_eq!(table.field("mode").as_deref(), Some("read"));
    assert_eq!(table.field("a:1").as_deref(), Some("1"));
    assert_eq!(table.left("orders"), Some(60_000));
    let holds = ["a:1", "b:1", "c:1"].map(|field| table.left(&hold(field)));
    assert_eq!(holds, [Some(30_000), Some(60_000), Some(1000)]);
    // The same call, run again, changes nothing.
    tokio::time::advance(ms(10_000)).await;
    assert_eq!(table.reads(&bearer("a:1"), LEASE), GRANTED);
    assert_eq!(table.left(&hold("a:1")), Some(20_000));
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_as_long_as_the_longest_reader_lives() {
    let table = Table::new();
    table.reads(&bearer("a:1"), ms(5000));
    table.reads(&bearer("b:1"), ms(9000));

    assert_eq!(table.writes(&bearer("c:1:write"), LEASE), busy(ms(9000)));
    assert_eq!(
        table.release(&table.read, &bearer("b:1"), 0, LEASE),
        Release::Shared
    );
    assert_eq!(
        table.left("orders"),
        Some(5000),
        "no longer than those left need"
    );
    assert_eq!(table.writes(&bearer("c:1:write"), LEASE), busy(ms(5000)));
    assert_eq!(table.release(&table.read, &bearer("a:1"), 0, LEASE), FREE);
    assert_eq!(table.left("orders"), None);
    assert_eq!(table.writes(&bearer("c:1:write"), LEASE), GRANTED);
}

#[tokio::test(start_paused = true)]
async fn a_writer_is_alone() {
    let table = Table::new();
    let w = bearer("a:1:write");

    assert_eq!(table.writes(&w, LEASE), GRANTED);
    assert_eq!(table.writes(&w, LEASE), GRANTED, "the same call, run again");
    assert_eq!(table.writes(&bearer("b:1:write"), LEASE), busy(LEASE));
    assert_eq!(table.reads(&bearer("b:2"), LEASE), busy(LEASE));
    assert_eq!(
        table.reads_beside(&bearer("b:2"), "b:1:write", LEASE),
        busy(LEASE)
    );
    assert_eq!(table.left(&hold("b:2")), None);
    assert_eq!(table.field("mode").as_deref(), Some("write"));
    assert_eq!(table.left("orders"), Some(30_000));
}

#[tokio::test(start_paused = true)]
async fn a_writer_reads_too_and_keeps_its_read_hold_when_it_stops_writing() {
    let table = Table::new();
    let (r, w) = (bearer("a:2"), bearer("a:1:write"));
    table.writes(&w, ms(60_000));
    assert_eq!(table.reads_beside(&r, "a:1:write", LEASE), GRANTED);
    assert_eq!(table.field("mode").as_deref(), Some("write"));
    assert_eq!(table.left("orders"), Some(60_000));
    let (_listening, heard) = table.listen();

    assert_eq!(
        table.release(&table.write, &w, 0, LEASE),
        Release::Free { heard: 1 }
    );

    assert_eq!(heard.take(), ["1"]);
    assert_eq!(table.field("mode").as_deref(), Some("read"));
    assert_eq!(table.left("orders"), Some(30_000));
    assert_eq!(table.reads(&bearer("b:1"), LEASE), GRANTED);
    assert_eq!(
        table.release(&table.read, &bearer("b:1"), 0, LEASE),
        Release::Shared
    );
    assert_eq!(
        table.release(&table.read, &r, 0, LEASE),
        Release::Free { heard: 1 }
    );
    assert_eq!(heard.take(), ["0"]);
}

/// Redisson cuts the write lease to that of the read holds here.
#[tokio::test(start_paused = true)]
async fn a_writer_that_stops_reading_keeps_its_lease() {
    let table = Table::new();
    let (r, w) = (bearer("a:2"), bearer("a:1:write"));
    table.writes(&w, ms(60_000));
    table.reads_beside(&r, "a:1:write", ms(1000));
    let (_listening, heard) = table.listen();

    assert_eq!(table.release(&table.read, &r, 0, LEASE), Release::Shared);

    assert_eq!(table.left("orders"), Some(60_000));
    assert_eq!(
        (table.field("mode").as_deref(), table.field("a:2")),
        (Some("write"), None)
    );
    assert_eq!(table.left(&hold("a:2")), None);
    assert!(heard.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_write_hold_whose_owners_read_hold_is_dead_frees_the_lock() {
    let table = Table::new();
    let (r, w) = (bearer("a:2"), bearer("a:1:write"));
    table.writes(&w, LEASE);
    table.reads_beside(&r, "a:1:write", ms(1000));
    tokio::time::advance(ms(1001)).await;

    assert_eq!(table.release(&table.write, &w, 0, LEASE), FREE);

    assert_eq!(table.left("orders"), None);
}

#[tokio::test(start_paused = true)]
async fn a_reader_enters_again_and_only_while_its_hold_lives() {
    let table = Table::new();
    let (a, b) = (named("a:1"), bearer("b:1"));

    assert_eq!(table.reenter(&table.read, &a, LEASE, 2), Standing::Gone);
    table.reads(&a, ms(1000));
    table.reads(&b, LEASE);
    assert_eq!(table.reenter(&table.read, &a, ms(5000), 2), Standing::Ours);
    assert_eq!(table.left(&hold("a:1")), Some(5000));
    assert_eq!(table.left("orders"), Some(30_000));
    assert_eq!(table.field("a:1").as_deref(), Some("2"));
    tokio::time::advance(ms(5001)).await;
    assert_eq!(table.reenter(&table.read, &a, LEASE, 3), Standing::Gone);
    assert_eq!(table.field("a:1").as_deref(), Some("2"));

    table.force_unlock();
    table.writes(&bearer("c:1:write"), LEASE);
    assert_eq!(table.reenter(&table.read, &a, LEASE, 2), Standing::Taken);
}

#[tokio::test(start_paused = true)]
async fn a_writer_enters_again_without_adding_up_leases() {
    let table = Table::new();
    let w = named("a:1:write");

    assert_eq!(table.reenter(&table.write, &w, LEASE, 2), Standing::Gone);
    table.writes(&w, LEASE);
    assert_eq!(table.reenter(&table.write, &w, LEASE, 2), Standing::Ours);
    assert_eq!(table.left("orders"), Some(30_000));
    assert_eq!(
        table.reenter(&table.write, &bearer("b:1:write"), LEASE, 2),
        Standing::Taken
    );
    assert_eq!(
        table.release(&table.write, &w, 1, ms(40_000)),
        Release::Left
    );
    assert_eq!(table.left("orders"), Some(40_000));
    assert_eq!(table.field("a:1:write").as_deref(), Some("1"));
    assert_eq!(table.release(&table.write, &w, 0, LEASE), FREE);
    assert_eq!((table.left("orders"), table.left(DETAILS)), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_partial_release_of_a_reader_leaves_the_rest() {
    let table = Table::new();
    let a = bearer("a:1");
    table.reads(&a, ms(1000));
    table.reenter(&table.read, &a, ms(1000), 2);

    assert_eq!(table.release(&table.read, &a, 1, ms(5000)), Release::Left);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(5000), Some(5000))
    );
    assert_eq!(table.release(&table.read, &a, 1, ms(10)), Release::Left);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(5000), Some(5000))
    );
    assert_eq!(table.field("a:1").as_deref(), Some("1"));
    table.put("redis.call('DEL', '{orders}:a:1:rwlock_timeout:1')");
    let gone = Release::Not(Standing::Gone);
    assert_eq!(
        table.release(&table.read, &a, 1, ms(10)),
        gone,
        "its hold is dead"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_not_there_cannot_be_released() {
    let table = Table::new();
    let (r, w) = (bearer("a:1"), bearer("a:1:write"));
    let (gone, taken) = (Release::Not(Standing::Gone), Release::Not(Standing::Taken));

    assert_eq!(table.release(&table.read, &r, 0, LEASE), gone);
    assert_eq!(table.release(&table.write, &w, 0, LEASE), gone);
    table.reads(&bearer("b:1"), LEASE);
    assert_eq!(
        table.release(&table.read, &r, 0, LEASE),
        gone,
        "other readers take nothing"
    );
    assert_eq!(table.release(&table.write, &w, 0, LEASE), taken);
    table.force_unlock();
    table.writes(&bearer("b:1:write"), LEASE);
    assert_eq!(table.release(&table.read, &r, 0, LEASE), taken);
    assert_eq!(table.release(&table.write, &w, 0, LEASE), taken);
}

/// Redisson keeps the field of a reader that died, and its writers wait for the whole lease of the lock.
#[tokio::test(start_paused = true)]
async fn dead_readers_are_in_nobodys_way() {
    let table = Table::new();
    table.reads(&bearer("a:1"), ms(1000));
    table.reads(&bearer("b:1"), LEASE);
    tokio::time::advance(ms(2000)).await;

    assert_eq!(table.release(&table.read, &bearer("b:1"), 0, LEASE), FREE);
    table.reads(&bearer("a:2"), ms(1000));
    table.reads(&bearer("b:2"), LEASE);
    table.put("redis.call('DEL', '{orders}:b:2:rwlock_timeout:1')");
    assert_eq!(table.writes(&bearer("c:1:write"), LEASE), busy(ms(1000)));
    tokio::time::advance(ms(1001)).await;
    assert_eq!(table.writes(&bearer("c:1:write"), LEASE), GRANTED);
    assert_eq!((table.field("a:2"), table.field("b:2")), (None, None));
}

/// Redisson has one hold key for each of a reader's holds, and any of them may be the last to live.
#[tokio::test(start_paused = true)]
async fn readers_of_redisson_live_as_long_as_one_of_their_hold_keys() {
    let table = Table::new();
    table.put(
        "redis.call('HSET', 'orders', 'mode', 'read', 'x:1', 2) \
         redis.call('PEXPIRE', 'orders', 60000) \
         redis.call('SET', '{orders}:x:1:rwlock_timeout:2', 1, 'PX', 5000)",
    );

    assert_eq!(table.writes(&bearer("a:1:write"), LEASE), busy(ms(5000)));
    assert_eq!(
        table.inspect(&table.read),
        (Some(Rest::Left(ms(5000))), vec![("x:1".into(), 2)])
    );
    assert_eq!(table.reads(&bearer("a:1"), LEASE), GRANTED);
    assert_eq!(
        table.release(&table.read, &bearer("a:1"), 0, LEASE),
        Release::Shared
    );
    assert_eq!(table.left("orders"), Some(5000));
    table.put("redis.call('PERSIST', '{orders}:x:1:rwlock_timeout:2')");
    assert_eq!(table.writes(&bearer("a:1:write"), LEASE), GRANTED);
}

#[tokio::test(start_paused = true)]
async fn of_many_readers_one_that_lives_is_enough() {
    let table = Table::new();
    for n in 0..40 {
        table.reads(&bearer(&format!("a:{n}")), ms(60_000));
    }

    let AttemptReply::Busy(_) = table.writes(&bearer("b:1:write"), LEASE) else {
        panic!("readers are there");
    };
    assert_eq!(
        table.release(&table.read, &bearer("a:3"), 0, LEASE),
        Release::Shared
    );
    assert_eq!(table.left("orders"), Some(60_000));
    tokio::time::advance(ms(60_000)).await;
    assert_eq!(table.reads(&bearer("c:1"), LEASE), GRANTED);
    tokio::time::advance(ms(1)).await;
    assert_eq!(table.release(&table.read, &bearer("c:1"), 0, LEASE), FREE);
}

#[tokio::test(start_paused = true)]
async fn a_name_with_a_hash_tag_of_its_own_keeps_it() {
    let table = Table::new();
    let (read, write) = ("{eu}:orders".into(), "{eu}:orders".into());
    let (read, write) = (ReadScheme::new(read, false), WriteScheme::new(write, false));

    assert_eq!(table.acquire(&read, &bearer("a:1"), LEASE), GRANTED);
    assert_eq!(table.left("{eu}:orders:a:1:rwlock_timeout:1"), Some(30_000));
    assert_eq!(
        table.acquire(&write, &bearer("b:1:write"), LEASE),
        busy(LEASE)
    );
}
