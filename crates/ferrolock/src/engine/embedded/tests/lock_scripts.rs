//! Every branch of every script of the plain lock.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::engine::{Listener, Signal};
use crate::protocol::call::Role;
use crate::protocol::lock::{self, PlainScheme, SCRIPTS};
use crate::protocol::renewal::{self, RowError};
use crate::protocol::rw_lock;
use crate::protocol::scheme::{
    Ask, AttemptReply, Bearer, Details, Granted, Release, Rest, Scheme, Seen, Standing,
    read_force_unlock, read_release, read_standing,
};

struct Table {
    engine: Arc<MemoryEngine>,
    keys: PlainScheme,
}

const LEASE: Duration = Duration::from_secs(30);

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn bearer(field: &str) -> Bearer {
    let field = field.into();
    Bearer { field, who: None }
}

fn named(field: &str) -> Bearer {
    let who = Some(lock::write_details(42, "host", "the label"));
    let field = field.into();
    Bearer { field, who }
}

impl Table {
    fn new() -> Self {
        let engine = MemoryEngine::open(None);
        let keys = PlainScheme::new("orders".into());
        Self { engine, keys }
    }

    fn acquire(&self, bearer: &Bearer, lease: Duration) -> AttemptReply {
        let reply = run(&self.engine, self.keys.acquire(&Ask::once(bearer, lease)));
        lock::read_acquire(reply.unwrap()).unwrap()
    }

    fn reenter(&self, bearer: &Bearer, lease: Duration, count: u32) -> Standing {
        let reply = run(&self.engine, self.keys.reenter(bearer, lease, count));
        read_standing(reply.unwrap()).unwrap()
    }

    fn release(&self, bearer: &Bearer, left: u32, need: Duration) -> Release {
        let reply = run(&self.engine, self.keys.release(bearer, left, need));
        read_release(reply.unwrap(), left).unwrap()
    }

    fn renew(&self, bearer: &Bearer, lease: Duration) -> Standing {
        let row = self.keys.renew(bearer, lease);
        renewal::read_one(run(&self.engine, row.call()).unwrap()).unwrap()
    }

    fn delay_release(&self, bearer: &Bearer, stay: Duration) -> Standing {
        let reply = run(&self.engine, self.keys.delay_release(bearer, stay));
        read_standing(reply.unwrap()).unwrap()
    }

    fn force_unlock(&self) -> bool {
        let reply = run(&self.engine, self.keys.force_unlock());
        read_force_unlock(reply.unwrap()).unwrap()
    }

    fn inspect(&self) -> (Option<Rest>, Vec<Seen>) {
        let reply = run(&self.engine, self.keys.inspect());
        lock::read_inspect(reply.unwrap()).unwrap()
    }

    /// What is left of the lock and of its details.
    fn left(&self) -> (i64, i64) {
        let of = |key: &str| match eval(&self.engine, "return redis.call('PTTL', ARGV[1])", &[key])
        {
            Ok(Value::Int(left)) => left,
            other => panic!("{other:?}"),
        };
        (of("orders"), of("ferrolock_holder:{orders}"))
    }

    fn count(&self, field: &str) -> Option<u32> {
        let (_, seen) = self.inspect();
        seen.iter()
            .find(|seen| seen.field == field)
            .map(|seen| seen.count)
    }

    fn put(&self, source: &str) {
        eval(&self.engine, source, &[]).unwrap();
    }
}

/// A listener that ignores messages: it counts as one.
struct Deaf;

impl Listener for Deaf {
    fn hear(&self, _signal: Signal) {}
}

const GRANTED: AttemptReply = AttemptReply::Granted(Granted {
    fence: None,
    more: false,
});

fn busy(rest: Duration) -> AttemptReply {
    AttemptReply::Busy(Rest::Left(rest).into())
}

#[tokio::test(start_paused = true)]
async fn acquire_is_granted_once() {
    let table = Table::new();

    assert_eq!(table.acquire(&bearer("a:1"), LEASE), GRANTED);
    assert_eq!(table.acquire(&bearer("b:1"), LEASE), busy(LEASE));
    tokio::time::advance(ms(10_000)).await;
    assert_eq!(table.acquire(&bearer("b:1"), LEASE), busy(ms(20_000)));
    // The same call, run again: granted, and the lease stays.
    assert_eq!(table.acquire(&bearer("a:1"), LEASE), GRANTED);
    assert_eq!(table.left(), (20_000, -2));
    assert_eq!(table.count("a:1"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_ends_after_its_last_millisecond() {
    let table = Table::new();
    table.acquire(&bearer("a:1"), ms(500));

    tokio::time::advance(ms(500)).await;
    assert_eq!(table.acquire(&bearer("b:1"), LEASE), busy(ms(0)));

    tokio::time::advance(ms(1)).await;
    assert_eq!(table.acquire(&bearer("b:1"), LEASE), GRANTED);
    assert_eq!(table.renew(&bearer("a:1"), LEASE), Standing::Taken);
}

#[tokio::test(start_paused = true)]
async fn acquire_sees_a_holder_that_never_expires() {
    let table = Table::new();
    table.put("redis.call('HSET', 'orders', 'x:1', 1)");

    assert_eq!(
        table.acquire(&bearer("a:1"), LEASE),
        AttemptReply::Busy(Rest::NoExpiry.into())
    );
}

#[test]
fn a_key_of_another_type_is_the_servers_error() {
    let table = Table::new();
    table.put("redis.call('SET', 'orders', 'text')");
    let (keys, a) = (&table.keys, &bearer("a:1"));

    for call in [
        keys.acquire(&Ask::once(a, LEASE)),
        keys.reenter(a, LEASE, 2),
        keys.release(a, 0, LEASE),
        keys.release(a, 1, LEASE),
        keys.renew(a, LEASE).call(),
        keys.delay_release(a, LEASE),
        keys.force_unlock(),
        keys.inspect(),
    ] {
        let name = call.script.name;
        let wrong = "Operation against a key holding the wrong kind of value";
        assert_eq!(
            run(&table.engine, call),
            refused("WRONGTYPE", wrong),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn reenter_extends_the_lease_and_sets_the_count() {
    let table = Table::new();
    let (a, b) = (named("a:1"), named("b:1"));

    assert_eq!(table.reenter(&a, LEASE, 2), Standing::Gone);
    table.acquire(&a, ms(1000));
    assert_eq!(table.reenter(&b, LEASE, 2), Standing::Taken);
    assert_eq!(table.reenter(&a, LEASE, 2), Standing::Ours);
    assert_eq!(table.left(), (30_000, 30_000));
    // A shorter lease cuts nothing, and a repeat changes nothing.
    assert_eq!(table.reenter(&a, ms(500), 2), Standing::Ours);
    assert_eq!(table.left(), (30_000, 30_000));
    assert_eq!(table.count("a:1"), Some(2));
}

#[tokio::test(start_paused = true)]
async fn the_last_release_frees() {
    let table = Table::new();
    let (a, b) = (named("a:1"), named("b:1"));

    assert_eq!(table.release(&a, 0, LEASE), Release::Not(Standing::Gone));
    table.acquire(&a, LEASE);
    assert_eq!(table.release(&b, 0, LEASE), Release::Not(Standing::Taken));
    assert_eq!(table.release(&a, 0, LEASE), Release::Free { heard: 0 });
    assert_eq!(table.left(), (-2, -2));
    assert_eq!(table.acquire(&b, LEASE), GRANTED);
}

#[tokio::test(start_paused = true)]
async fn a_partial_release_leaves_the_rest() {
    let table = Table::new();
    let (a, b) = (named("a:1"), named("b:1"));

    assert_eq!(table.release(&a, 1, LEASE), Release::Not(Standing::Gone));
    table.acquire(&a, ms(1000));
    table.reenter(&a, ms(1000), 2);
    assert_eq!(table.release(&b, 1, LEASE), Release::Not(Standing::Taken));
    assert_eq!(table.release(&a, 1, ms(5000)), Release::Left);
    assert_eq!(table.left(), (5000, 5000));
    assert_eq!(table.release(&a, 1, ms(500)), Release::Left);
    assert_eq!(table.left(), (5000, 5000));
    assert_eq!(table.count("a:1"), Some(1));
}

#[tokio::test(start_paused = true)]
async fn renew_extends_a_lease_but_never_shortens_it() {
    let table = Table::new();
    let (a, b) = (named("a:1"), named("b:1"));

    assert_eq!(table.renew(&a, LEASE), Standing::Gone);
    table.acquire(&a, LEASE);
    assert_eq!(table.renew(&b, LEASE), Standing::Taken);
    tokio::time::advance(ms(10_000)).await;
    assert_eq!(table.renew(&a, Duration::ZERO), Standing::Ours);
    assert_eq!(table.left(), (20_000, 20_000));
    assert_eq!(table.renew(&a, ms(15_000)), Standing::Ours);
    assert_eq!(table.left(), (20_000, 20_000));
    assert_eq!(table.renew(&a, LEASE), Standing::Ours);
    assert_eq!(table.left(), (30_000, 30_000));
}

#[tokio::test(start_paused = true)]
async fn renew_gives_a_deadline_to_a_lock_that_lost_it() {
    let table = Table::new();
    table.put("redis.call('HSET', 'orders', 'a:1', 1)");

    assert_eq!(table.renew(&bearer("a:1"), LEASE), Standing::Ours);
    assert_eq!(table.left(), (30_000, -2));
}

#[tokio::test(start_paused = true)]
async fn each_row_of_a_renewal_answers_for_itself() {
    let table = Table::new();
    let names = ["held", "gone", "taken", "text", "endless", "long"];
    let keys = names.map(|name| PlainScheme::new(name.into()));
    let (a, b) = (bearer("a:1"), bearer("b:1"));
    for (at, by, lease) in [(0, &a, 10_000), (2, &b, 10_000), (5, &a, 60_000)] {
        run(&table.engine, keys[at].acquire(&Ask::once(by, ms(lease)))).unwrap();
    }
    table.put("redis.call('SET', 'text', '1') redis.call('HSET', 'endless', 'a:1', 1)");

    let rows = keys.map(|keys| keys.renew(&a, LEASE));
    let reply = run(&table.engine, renewal::batch(&rows).unwrap()).unwrap();

    let wrong = RowError {
        code: "WRONGTYPE".to_owned(),
        message: "Operation against a key holding the wrong kind of value".to_owned(),
    };
    let (ours, gone, taken) = (Standing::Ours, Standing::Gone, Standing::Taken);
    let answers = [
        Ok(ours),
        Ok(gone),
        Ok(taken),
        Err(wrong),
        Ok(ours),
        Ok(ours),
    ];
    assert_eq!(renewal::read(reply, 6), Ok(answers.to_vec()));
    let left = names.map(|name| eval(&table.engine, "return redis.call('PTTL', ARGV[1])", &[name]));
    let expected = [30_000, -2, 10_000, -1, 30_000, 60_000];
    assert_eq!(left, expected.map(|left| Ok(Value::Int(left))));
}

#[tokio::test(start_paused = true)]
async fn each_row_with_details_renews_its_own_details() {
    let table = Table::new();
    let keys = ["one", "two"].map(|name| PlainScheme::new(name.into()));
    let a = named("a:1");
    for keys in &keys {
        run(&table.engine, keys.acquire(&Ask::once(&a, ms(10_000)))).unwrap();
    }

    let rows = keys.map(|keys| keys.renew(&a, LEASE));
    let reply = run(&table.engine, renewal::batch(&rows).unwrap()).unwrap();

    assert_eq!(renewal::read(reply, 2), Ok(vec![Ok(Standing::Ours); 2]));
    for key in [
        "one",
        "two",
        "ferrolock_holder:{one}",
        "ferrolock_holder:{two}",
    ] {
        let left = eval(&table.engine, "return redis.call('PTTL', ARGV[1])", &[key]);
        assert_eq!(left, Ok(Value::Int(30_000)), "{key}");
    }
}

/// The connection must notice a server that takes no writes.
#[test]
fn if_every_row_failed_the_error_is_the_reply() {
    let table = Table::new();
    table.put("redis.call('SET', 'one', '1') redis.call('SET', 'two', '1')");
    let keys = ["one", "two"].map(|name| PlainScheme::new(name.into()));

    let rows = keys.map(|keys| keys.renew(&bearer("a:1"), LEASE));

    let wrong = "Operation against a key holding the wrong kind of value";
    let reply = run(&table.engine, renewal::batch(&rows).unwrap());
    assert_eq!(reply, refused("WRONGTYPE", wrong));
}

#[tokio::test(start_paused = true)]
async fn delay_release_leaves_the_name_taken_for_a_while() {
    let table = Table::new();
    let (a, b) = (named("a:1"), named("b:1"));

    assert_eq!(table.delay_release(&a, ms(200)), Standing::Gone);
    table.acquire(&a, LEASE);
    assert_eq!(table.delay_release(&b, ms(200)), Standing::Taken);
    assert_eq!(table.delay_release(&a, ms(200)), Standing::Ours);
    assert_eq!(table.left(), (200, 200));
    assert_eq!(table.acquire(&b, LEASE), busy(ms(200)));
    tokio::time::advance(ms(201)).await;
    assert_eq!(table.acquire(&b, LEASE), GRANTED);
}

#[test]
fn force_unlock_frees_the_lock_of_any_holder() {
    let table = Table::new();

    assert!(!table.force_unlock());
    table.acquire(&named("a:1"), LEASE);
    assert!(table.force_unlock());
    assert_eq!(table.left(), (-2, -2));
    assert_eq!(table.inspect(), (None, Vec::new()));
}

#[tokio::test(start_paused = true)]
async fn inspect_replies_holders_and_how_long_they_hold() {
    let table = Table::new();
    assert_eq!(table.inspect(), (None, Vec::new()));
    table.acquire(&named("a:1"), LEASE);
    table.reenter(&named("a:1"), LEASE, 3);

    tokio::time::advance(ms(1234)).await;

    let details = Details {
        held_for: ms(1234),
        pid: Some(42),
        host: Some("host".to_owned()),
        label: Some("the label".to_owned()),
    };
    let seen = Seen {
        field: "a:1".to_owned(),
        count: 3,
        details: Some(details),
    };
    assert_eq!(table.inspect(), (Some(Rest::Left(ms(28_766))), vec![seen]));
}

#[test]
fn inspect_shows_a_foreign_holder_without_details() {
    let table = Table::new();
    table.put("redis.call('HSET', 'orders', 'x:1', 2)");

    let seen = Seen {
        field: "x:1".to_owned(),
        count: 2,
        details: None,
    };
    assert_eq!(table.inspect(), (Some(Rest::NoExpiry), vec![seen]));
}

#[test]
fn every_script_compiles() {
    let engine = MemoryEngine::open(None);
    for script in SCRIPTS.into_iter().chain(rw_lock::SCRIPTS) {
        let call = Call {
            script,
            keys: smallvec::SmallVec::new(),
            args: smallvec::SmallVec::new(),
            form: Form::default(),
        };
        let rows = call.script.role == Role::Renew;
        let reply = run(&engine, call);
        if rows {
            assert_eq!(reply, Ok(Value::List(Vec::new())));
            continue;
        }
        assert!(
            matches!(&reply, Err(Failure::Refused { code, message })
                if code == "ERR" && message.contains("must be strings or integers")),
            "{}: {reply:?}",
            script.name
        );
    }
}

/// Details are for people: whatever another program has put under their key, the lock works as without them.
#[tokio::test(start_paused = true)]
async fn details_that_cannot_be_kept_are_left_out() {
    let table = Table::new();
    table.put("redis.call('SET', 'ferrolock_holder:{orders}', 'text')");
    let (a, b) = (named("a:1"), named("b:1"));

    assert_eq!(table.acquire(&a, LEASE), GRANTED);
    assert_eq!(table.left().0, 30_000);
    assert_eq!(table.acquire(&b, LEASE), busy(LEASE));
    assert_eq!(table.reenter(&a, ms(40_000), 2), Standing::Ours);
    assert_eq!(table.renew(&a, ms(50_000)), Standing::Ours);
    assert_eq!(table.release(&a, 1, ms(60_000)), Release::Left);
    let (rest, seen) = table.inspect();
    assert_eq!(rest, Some(Rest::Left(ms(60_000))));
    assert_eq!((seen.len(), seen[0].details.clone()), (1, None));
    let channel = crate::protocol::keys::lock_channel("orders");
    let _listening = finish(table.engine.listen(channel, Arc::new(Deaf))).unwrap();

    assert_eq!(table.release(&a, 0, LEASE), Release::Free { heard: 1 });

    assert_eq!(table.acquire(&b, LEASE), GRANTED);
    assert_eq!(table.delay_release(&b, ms(200)), Standing::Ours);
}
