//! Every branch of every script of the read-write lock, but for downgrades and intents (`rw_downgrade_scripts.rs`).

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::engine::{Listener, Signal};
use crate::protocol::lock;
use crate::protocol::renewal;
use crate::protocol::rw_lock::{ReadScheme, WriteScheme};
use crate::protocol::scheme::{
    Ask, AttemptReply, Bearer, Granted, Release, Rest, Scheme, Seen, Standing, read_force_unlock,
    read_release, read_standing,
};

/// Both sides of the lock `orders`.
pub(super) struct Table {
    pub(super) engine: Arc<MemoryEngine>,
    pub(super) read: ReadScheme,
    pub(super) write: WriteScheme,
}

pub(super) const LEASE: Duration = Duration::from_secs(30);

pub(super) const GRANTED: AttemptReply = AttemptReply::Granted(Granted {
    fence: None,
    more: false,
});

pub(super) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn busy(rest: Duration) -> AttemptReply {
    AttemptReply::Busy(Rest::Left(rest).into())
}

pub(super) fn bearer(field: &str) -> Bearer {
    let field = field.into();
    Bearer { field, who: None }
}

pub(super) fn named(field: &str) -> Bearer {
    let who = Some(lock::write_details(42, "host", "the label"));
    let field = field.into();
    Bearer { field, who }
}

/// How long a key still lives; `None`: it is not there.
pub(super) fn left(engine: &MemoryEngine, key: &str) -> Option<i64> {
    match eval(engine, "return redis.call('PTTL', ARGV[1])", &[key]) {
        Ok(Value::Int(-2)) => None,
        Ok(Value::Int(left)) => Some(left),
        other => panic!("{other:?}"),
    }
}

/// The key of a read hold.
pub(super) fn hold(field: &str) -> String {
    format!("{{orders}}:{field}:rwlock_timeout:1")
}

pub(super) const DETAILS: &str = "ferrolock_holder:{orders}";
pub(super) const INTENT: &str = "ferrolock_rw_intent:{orders}";

impl Table {
    pub(super) fn new() -> Self {
        Self::preferring(false)
    }

    pub(super) fn preferring(writers: bool) -> Self {
        Self {
            engine: MemoryEngine::open(None),
            read: ReadScheme::new("orders".into(), writers),
            write: WriteScheme::new("orders".into(), writers),
        }
    }

    pub(super) fn acquire(
        &self,
        scheme: &dyn Scheme,
        bearer: &Bearer,
        lease: Duration,
    ) -> AttemptReply {
        self.ask(scheme, &Ask::once(bearer, lease))
    }

    pub(super) fn ask(&self, scheme: &dyn Scheme, ask: &Ask<'_>) -> AttemptReply {
        let reply = run(&self.engine, scheme.acquire(ask));
        scheme.read_acquire(reply.unwrap()).unwrap()
    }

    pub(super) fn reads(&self, bearer: &Bearer, lease: Duration) -> AttemptReply {
        self.acquire(&self.read, bearer, lease)
    }

    pub(super) fn writes(&self, bearer: &Bearer, lease: Duration) -> AttemptReply {
        self.acquire(&self.write, bearer, lease)
    }

    /// A read by the owner of that write hold.
    pub(super) fn reads_beside(
        &self,
        bearer: &Bearer,
        write: &str,
        lease: Duration,
    ) -> AttemptReply {
        let beside = Some(&write.into());
        let ask = Ask {
            beside,
            ..Ask::once(bearer, lease)
        };
        self.ask(&self.read, &ask)
    }

    fn reenter(&self, scheme: &dyn Scheme, bearer: &Bearer, lease: Duration, n: u32) -> Standing {
        let reply = run(&self.engine, scheme.reenter(bearer, lease, n));
        read_standing(reply.unwrap()).unwrap()
    }

    pub(super) fn release(
        &self,
        scheme: &dyn Scheme,
        bearer: &Bearer,
        left: u32,
        need: Duration,
    ) -> Release {
        let reply = run(&self.engine, scheme.release(bearer, left, need));
        read_release(reply.unwrap(), left).unwrap()
    }

    fn renew(&self, scheme: &dyn Scheme, bearer: &Bearer, lease: Duration) -> Standing {
        let call = scheme.renew(bearer, lease).call();
        renewal::read_one(run(&self.engine, call).unwrap()).unwrap()
    }

    fn delay(&self, scheme: &dyn Scheme, bearer: &Bearer, stay: Duration) -> Standing {
        let reply = run(&self.engine, scheme.delay_release(bearer, stay));
        read_standing(reply.unwrap()).unwrap()
    }

    fn force_unlock(&self) -> bool {
        let reply = run(&self.engine, self.write.force_unlock());
        read_force_unlock(reply.unwrap()).unwrap()
    }

    pub(super) fn inspect(&self, scheme: &dyn Scheme) -> (Option<Rest>, Vec<(String, u32)>) {
        let reply = run(&self.engine, scheme.inspect());
        let (rest, seen) = scheme.read_inspect(reply.unwrap()).unwrap();
        let seen = seen.into_iter();
        let mut seen: Vec<_> = seen
            .map(|Seen { field, count, .. }| (field, count))
            .collect();
        seen.sort();
        (rest, seen)
    }

    pub(super) fn left(&self, key: &str) -> Option<i64> {
        left(&self.engine, key)
    }

    /// A field of the lock.
    pub(super) fn field(&self, field: &str) -> Option<String> {
        match eval(
            &self.engine,
            "return redis.call('HGET', 'orders', ARGV[1])",
            &[field],
        ) {
            Ok(Value::Bytes(value)) => Some(String::from_utf8(value).unwrap()),
            Ok(Value::Nil) => None,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn put(&self, source: &str) {
        eval(&self.engine, source, &[]).unwrap();
    }

    /// Counts as one that hears.
    #[must_use]
    pub(super) fn listen(&self) -> (crate::engine::Subscription, Arc<Heard>) {
        let heard = Arc::new(Heard::default());
        let channel = crate::protocol::keys::rw_channel("orders");
        let subscription = finish(self.engine.listen(channel, heard.clone())).unwrap();
        (subscription, heard)
    }
}

/// What came over the channel.
#[derive(Default)]
pub(super) struct Heard(std::sync::Mutex<Vec<String>>);

impl Heard {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Listener for Heard {
    fn hear(&self, signal: Signal) {
        if let Signal::Message(payload) = signal {
            let text = String::from_utf8_lossy(&payload).into_owned();
            self.0.lock().unwrap().push(text);
        }
    }
}

const FREE: Release = Release::Free { heard: 0 };

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
