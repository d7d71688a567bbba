//! Every branch of the scripts with which holds of a read-write lock are kept, left for a while, looked at and forced open.

use std::sync::Arc;
use std::time::Duration;

use super::rw_table::{DETAILS, LEASE, Table, bearer, hold, ms, named};
use super::*;
use crate::protocol::renewal;
use crate::protocol::rw_lock::ReadScheme;
use crate::protocol::scheme::{Ask, AttemptReply, Bearer, Rest, Scheme, Seen, Standing};

#[tokio::test(start_paused = true)]
async fn a_renewal_raises_hold_and_lock_and_cuts_nothing() {
    let table = Table::new();
    let (a, b, w) = (named("a:1"), bearer("b:1"), bearer("w:1:write"));

    assert_eq!(table.renew(&table.read, &a, LEASE), Standing::Gone);
    table.reads(&a, ms(1000));
    table.reads(&b, ms(60_000));
    assert_eq!(table.renew(&table.read, &a, Duration::ZERO), Standing::Ours);
    assert_eq!(table.left(&hold("a:1")), Some(1000));
    assert_eq!(table.renew(&table.read, &a, LEASE), Standing::Ours);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(60_000), Some(30_000))
    );
    assert_eq!(table.renew(&table.read, &a, ms(90_000)), Standing::Ours);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(90_000), Some(90_000))
    );
    assert_eq!(table.left(DETAILS), Some(90_000));
    // As a Java client does with each of its renewals.
    table.put("redis.call('PEXPIRE', 'orders', 30000)");
    assert_eq!(table.renew(&table.read, &a, ms(90_000)), Standing::Ours);
    assert_eq!(table.left("orders"), Some(90_000));
    table.put(
        "redis.call('PERSIST', 'orders') redis.call('PERSIST', '{orders}:a:1:rwlock_timeout:1')",
    );
    assert_eq!(table.renew(&table.read, &a, LEASE), Standing::Ours);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(30_000), Some(30_000))
    );

    assert_eq!(table.renew(&table.write, &w, LEASE), Standing::Taken);
    table.force_unlock();
    table.writes(&w, LEASE);
    assert_eq!(table.renew(&table.write, &w, ms(60_000)), Standing::Ours);
    assert_eq!(table.left("orders"), Some(60_000));
    assert_eq!(table.renew(&table.read, &a, LEASE), Standing::Taken);
}

#[tokio::test(start_paused = true)]
async fn a_read_hold_whose_key_is_gone_is_not_renewed() {
    let table = Table::new();
    table.reads(&bearer("a:1"), ms(1000));
    table.reads(&bearer("b:1"), LEASE);
    tokio::time::advance(ms(1001)).await;

    assert_eq!(
        table.renew(&table.read, &bearer("a:1"), LEASE),
        Standing::Gone
    );
    assert_eq!(table.left(&hold("a:1")), None);
}

#[tokio::test(start_paused = true)]
async fn each_row_of_a_renewal_of_readers_answers_for_itself() {
    let table = Table::new();
    let names = ["held", "gone", "text"].map(Arc::<str>::from);
    let schemes = names.clone().map(|name| ReadScheme::new(name, false));
    let a = bearer("a:1");
    run(&table.engine, schemes[0].acquire(&Ask::once(&a, ms(1000)))).unwrap();
    table.put("redis.call('SET', 'text', '1')");

    let rows = schemes.map(|scheme| scheme.renew(&a, LEASE));
    let reply = run(&table.engine, renewal::batch(&rows).unwrap()).unwrap();

    let answers = renewal::read(reply, 3).unwrap();
    assert_eq!(answers[..2], [Ok(Standing::Ours), Ok(Standing::Gone)]);
    assert_eq!(answers[2].as_ref().unwrap_err().code, "WRONGTYPE");
    assert_eq!(table.left("held"), Some(30_000));
    let wrong = run(&table.engine, rows[2].call());
    assert!(matches!(wrong, Err(Failure::Refused { code, .. }) if code == "WRONGTYPE"));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_release_leaves_the_name_taken_for_a_while() {
    let table = Table::new();
    let (a, b, w) = (named("a:1"), bearer("b:1"), named("w:1:write"));

    assert_eq!(table.delay(&table.read, &a, ms(200)), Standing::Gone);
    table.reads(&a, LEASE);
    assert_eq!(table.delay(&table.read, &a, ms(200)), Standing::Ours);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(200), Some(200))
    );
    assert_eq!(table.left(DETAILS), Some(200));
    table.reads(&b, ms(5000));
    assert_eq!(table.delay(&table.read, &a, ms(300)), Standing::Ours);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:1"))),
        (Some(5000), Some(300))
    );
    table.put("redis.call('DEL', '{orders}:a:1:rwlock_timeout:1')");
    assert_eq!(table.delay(&table.read, &a, ms(300)), Standing::Gone);

    assert_eq!(table.delay(&table.write, &w, ms(200)), Standing::Taken);
    table.force_unlock();
    assert_eq!(table.delay(&table.write, &w, ms(200)), Standing::Gone);
    table.writes(&w, LEASE);
    assert_eq!(table.delay(&table.read, &a, ms(300)), Standing::Taken);
    assert_eq!(table.delay(&table.write, &w, ms(200)), Standing::Ours);
    assert_eq!(
        (table.left("orders"), table.left(DETAILS)),
        (Some(200), Some(200))
    );
    table.reads_beside(&b, "w:1:write", ms(5000));
    assert_eq!(table.delay(&table.write, &w, ms(9000)), Standing::Ours);
    assert_eq!(table.delay(&table.write, &w, ms(200)), Standing::Ours);
    assert_eq!(table.left("orders"), Some(9000), "the owner reads too");
}

#[test]
fn a_lock_of_another_kind_is_busy() {
    let table = Table::new();
    table.put("redis.call('HSET', 'orders', 'x:1', 1) redis.call('PEXPIRE', 'orders', 5000)");

    for reply in [
        table.reads(&bearer("a:1"), LEASE),
        table.writes(&bearer("a:1:write"), LEASE),
    ] {
        assert!(matches!(reply, AttemptReply::Busy(_)), "{reply:?}");
    }
}

#[test]
fn a_key_of_another_type_is_the_servers_error() {
    let table = Table::preferring(true);
    table.put("redis.call('SET', 'orders', 'text')");
    let (r, w) = (&bearer("a:1"), &bearer("a:1:write"));
    let sides: [(&dyn Scheme, &Bearer); 2] = [(&table.read, r), (&table.write, w)];

    for (side, bearer) in sides {
        for call in [
            side.acquire(&Ask::once(bearer, LEASE)),
            side.reenter(bearer, LEASE, 2),
            side.release(bearer, 0, LEASE),
            side.release(bearer, 1, LEASE),
            side.renew(bearer, LEASE).call(),
            side.delay_release(bearer, LEASE),
            side.abandon(bearer),
            side.force_unlock(),
            side.inspect(),
        ] {
            let name = call.script.name;
            let wrong = "Operation against a key holding the wrong kind of value";
            let reply = run(&table.engine, call);
            assert_eq!(reply, refused("WRONGTYPE", wrong), "{name}");
        }
    }
}

#[test]
fn force_unlock_frees_the_lock_of_any_holder() {
    let table = Table::new();
    let (_listening, heard) = table.listen();

    assert!(!table.force_unlock());
    table.reads(&named("a:1"), LEASE);
    table.reads(&named("b:1"), LEASE);
    assert!(table.force_unlock());
    assert_eq!(heard.take(), ["1"]);
    let left = ["orders", DETAILS, &hold("a:1"), &hold("b:1")].map(|key| table.left(key));
    assert_eq!(left, [None; 4]);
    table.writes(&named("a:2:write"), LEASE);
    assert!(table.force_unlock());
    assert_eq!((table.left("orders"), table.left(DETAILS)), (None, None));
}

#[tokio::test(start_paused = true)]
async fn inspect_shows_the_living_holders_of_each_side() {
    let table = Table::new();
    let none = (None, Vec::new());
    assert_eq!(table.inspect(&table.read), none);
    table.reads(&named("a:1"), LEASE);
    table.reads(&bearer("b:1"), ms(1000));
    let both = vec![("a:1".to_owned(), 1), ("b:1".to_owned(), 1)];
    assert_eq!(table.inspect(&table.read), (Some(Rest::Left(LEASE)), both));
    assert_eq!(table.inspect(&table.write), none);

    tokio::time::advance(ms(1234)).await;

    let (rest, seen) = table
        .read
        .read_inspect(run(&table.engine, table.read.inspect()).unwrap())
        .unwrap();
    assert_eq!(rest, Some(Rest::Left(ms(28_766))));
    let [
        Seen {
            details: Some(details),
            ..
        },
    ] = &seen[..]
    else {
        panic!("{seen:?}");
    };
    assert_eq!(details.held_for, ms(1234));
    assert_eq!(details.label.as_deref(), Some("the label"));

    table.force_unlock();
    table.writes(&bearer("a:1:write"), LEASE);
    assert_eq!(table.inspect(&table.read), none);
    let writer = vec![("a:1".to_owned(), 1)];
    assert_eq!(
        table.inspect(&table.write),
        (Some(Rest::Left(LEASE)), writer.clone())
    );
    table.reads_beside(&bearer("a:2"), "a:1:write", ms(5000));
    let reader = vec![("a:2".to_owned(), 1)];
    assert_eq!(
        table.inspect(&table.read),
        (Some(Rest::Left(ms(5000))), reader)
    );
    assert_eq!(
        table.inspect(&table.write),
        (Some(Rest::Left(LEASE)), writer)
    );
}
