//! Every branch of the scripts with which a write hold becomes a read hold, and a writer that waits keeps readers out.

use super::rw_table::{
    DETAILS, GRANTED, INTENT, LEASE, Table, bearer, busy, hold, left, ms, named,
};
use super::*;
use crate::protocol::rw_lock::ReadScheme;
use crate::protocol::scheme::{
    Ask, AttemptReply, Bearer, Mode, Release, Rest, Scheme, Standing, read_release,
};

impl Table {
    fn downgrade(&self, from: &Bearer, to: &Bearer, lease: std::time::Duration) -> AttemptReply {
        let scheme = ReadScheme::instead_of("orders".into(), from.clone());
        self.acquire(&scheme, to, lease)
    }

    fn waits(&self, writer: &Bearer) -> AttemptReply {
        let mode = Mode::Waits;
        let ask = Ask {
            mode,
            ..Ask::once(writer, LEASE)
        };
        self.ask(&self.write, &ask)
    }

    fn abandon(&self, writer: &Bearer) -> Release {
        let reply = run(&self.engine, self.write.abandon(writer));
        read_release(reply.unwrap(), 0).unwrap()
    }

    fn intent(&self) -> Option<String> {
        match eval(&self.engine, "return redis.call('GET', ARGV[1])", &[INTENT]) {
            Ok(Value::Bytes(value)) => Some(String::from_utf8(value).unwrap()),
            _ => None,
        }
    }
}

fn gone() -> AttemptReply {
    AttemptReply::Busy(Rest::NoExpiry.into())
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_makes_a_read_hold_and_wakes_all() {
    let table = Table::new();
    let (w, r) = (named("a:1:write"), named("a:2"));
    table.writes(&w, ms(60_000));
    let (_listening, heard) = table.listen();

    assert_eq!(table.downgrade(&w, &r, LEASE), GRANTED);

    assert_eq!(heard.take(), ["1"]);
    assert_eq!(table.field("mode").as_deref(), Some("read"));
    assert_eq!(
        (table.field("a:2").as_deref(), table.field("a:1:write")),
        (Some("1"), None)
    );
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:2"))),
        (Some(30_000), Some(30_000))
    );
    let (_, seen) = table.inspect(&table.read);
    assert_eq!(seen, [("a:2".to_owned(), 1)]);
    assert_eq!(table.reads(&bearer("b:1"), LEASE), GRANTED);
    // The same call, run again, changes nothing.
    assert_eq!(table.downgrade(&w, &r, ms(90_000)), GRANTED);
    assert_eq!(table.left(&hold("a:2")), Some(30_000));
    assert!(heard.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_downgrade_beside_a_longer_read_hold_of_the_owner_cuts_nothing() {
    let table = Table::new();
    let (w, r) = (bearer("a:1:write"), bearer("a:2"));
    table.writes(&w, ms(90_000));
    table.reads_beside(&r, "a:1:write", ms(60_000));

    assert_eq!(table.downgrade(&w, &bearer("a:3"), LEASE), GRANTED);

    assert_eq!(table.left("orders"), Some(60_000));
}

#[tokio::test(start_paused = true)]
async fn a_write_hold_that_is_gone_is_not_downgraded() {
    let table = Table::new();
    let (w, r) = (bearer("a:1:write"), bearer("a:2"));

    assert_eq!(table.downgrade(&w, &r, LEASE), gone());
    assert_eq!(table.left(&hold("a:2")), None);
    table.writes(&bearer("b:1:write"), LEASE);
    assert_eq!(table.downgrade(&w, &r, LEASE), gone());
    assert_eq!((table.left(&hold("a:2")), table.field("a:2")), (None, None));
}

/// A lease that no server takes.
#[test]
fn a_downgrade_that_cannot_make_the_read_hold_ends_the_write_hold() {
    let table = Table::new();
    let (w, r) = (bearer("a:1:write"), bearer("a:2"));
    table.writes(&w, LEASE);
    let (_listening, heard) = table.listen();
    let scheme = ReadScheme::instead_of("orders".into(), w);

    let reply = run(&table.engine, scheme.acquire(&Ask::once(&r, ms(0))));

    assert!(matches!(reply, Err(Failure::Refused { .. })), "{reply:?}");
    assert_eq!(heard.take(), ["1"]);
    assert_eq!(
        (table.left("orders"), table.left(&hold("a:2"))),
        (None, None)
    );
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_waits_keeps_new_readers_out() {
    let table = Table::preferring(true);
    let (w, other) = (bearer("w:1:write"), bearer("v:1:write"));
    table.reads(&bearer("a:1"), LEASE);

    assert_eq!(table.writes(&w, LEASE), busy(LEASE));
    assert_eq!(table.intent(), None, "it does not wait");
    assert_eq!(table.waits(&w), busy(LEASE));
    assert_eq!(table.intent().as_deref(), Some("w:1:write"));
    assert_eq!(table.left(INTENT), Some(2000));
    assert_eq!(table.reads(&bearer("b:1"), LEASE), busy(ms(2000)));
    assert_eq!(table.left(&hold("b:1")), None);
    tokio::time::advance(ms(1500)).await;
    assert_eq!(table.waits(&other), busy(ms(28_500)));
    assert_eq!(table.left(INTENT), Some(500), "it is not the other's");
    assert_eq!(table.waits(&w), busy(ms(28_500)));
    assert_eq!(table.left(INTENT), Some(2000));

    table.release(&table.read, &bearer("a:1"), 0, LEASE);
    assert_eq!(
        table.reads(&bearer("b:1"), LEASE),
        busy(ms(2000)),
        "it is free, and not for readers"
    );
    assert_eq!(table.waits(&w), GRANTED);
    assert_eq!(table.intent(), None);
    assert_eq!(
        table.reads_beside(&bearer("w:2"), "w:1:write", LEASE),
        GRANTED
    );
}

/// An attempt without an answer is repeated under the same field: the caller counts its lease from the repeat.
#[tokio::test(start_paused = true)]
async fn a_writer_whose_first_grant_was_not_heard_has_its_whole_lease() {
    let table = Table::preferring(true);
    let w = bearer("w:1:write");
    assert_eq!(table.waits(&w), GRANTED);
    tokio::time::advance(ms(20_000)).await;

    assert_eq!(table.waits(&w), GRANTED);

    assert_eq!(table.left("orders"), Some(30_000));
}

#[tokio::test(start_paused = true)]
async fn readers_that_do_not_let_writers_go_first_pass_the_intent() {
    let table = Table::preferring(true);
    table.reads(&bearer("a:1"), LEASE);
    table.waits(&bearer("w:1:write"));
    let read = ReadScheme::new("orders".into(), false);

    assert_eq!(table.acquire(&read, &bearer("b:1"), LEASE), GRANTED);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_lets_readers_in_again() {
    let table = Table::preferring(true);
    let (w, other) = (bearer("w:1:write"), bearer("v:1:write"));
    table.reads(&bearer("a:1"), LEASE);
    table.waits(&w);
    let (_listening, heard) = table.listen();

    assert_eq!(table.abandon(&other), Release::Not(Standing::Gone));
    assert_eq!(table.intent().as_deref(), Some("w:1:write"));
    assert!(heard.take().is_empty());
    assert_eq!(table.abandon(&w), Release::Not(Standing::Gone));
    assert_eq!(table.intent(), None);
    assert_eq!(heard.take(), ["1"]);
    assert_eq!(table.reads(&bearer("b:1"), LEASE), GRANTED);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_gives_up_beside_another_wakes_nobody() {
    let table = Table::preferring(true);
    let w = bearer("w:1:write");
    table.writes(&bearer("v:1:write"), LEASE);
    table.waits(&w);
    let (_listening, heard) = table.listen();

    assert_eq!(table.abandon(&w), Release::Not(Standing::Gone));

    assert_eq!((table.intent(), heard.take().len()), (None, 0));
}

#[tokio::test(start_paused = true)]
async fn a_grant_to_a_writer_that_has_gone_is_given_back() {
    let table = Table::preferring(true);
    let w = named("w:1:write");
    table.waits(&w);
    table.reads_beside(&bearer("w:2"), "w:1:write", LEASE);
    let (_listening, heard) = table.listen();

    assert_eq!(table.abandon(&w), Release::Free { heard: 1 });

    assert_eq!(heard.take(), ["1"]);
    assert_eq!(table.field("mode").as_deref(), Some("read"));
    assert_eq!(left(&table.engine, DETAILS), None);
    let reads = table.read.abandon(&bearer("w:2"));
    let reply = read_release(run(&table.engine, reads).unwrap(), 0);
    assert_eq!(reply, Ok(Release::Free { heard: 1 }));
    assert_eq!(table.left("orders"), None);
}
