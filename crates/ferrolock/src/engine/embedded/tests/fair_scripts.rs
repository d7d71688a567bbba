//! Every branch of every script of the fair lock, and the traps that can be set for them.

mod dead_waiters;
mod foreign_waiters;
mod random_lines;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::engine::{Listener, Signal, Subscription};
use crate::protocol::fair_lock::{FairScheme, FairTimes};
use crate::protocol::scheme::{
    Ask, AttemptReply, Bearer, Busy, Mode, Release, Rest, Scheme, read_force_unlock, read_release,
};

const LEASE: Duration = Duration::from_secs(30);
/// Clients of ours, and one of Redisson.
const A: &str = "aaaaaaaa-aaaa-8aaa-aaaa-aaaaaaaaaaaa";
const B: &str = "bbbbbbbb-bbbb-8bbb-bbbb-bbbbbbbbbbbb";
const JAVA: &str = "cccccccc-cccc-4ccc-cccc-cccccccccccc";

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}

fn owner(client: &str, number: u64) -> String {
    format!("{client}:{number}")
}

fn bearer(field: &str) -> Bearer {
    Bearer {
        field: field.into(),
        who: None,
    }
}

/// A server, asked by the client `A` unless a field says otherwise.
struct Line {
    engine: Arc<MemoryEngine>,
    scheme: FairScheme,
    heard: Arc<Mutex<Vec<(String, String)>>>,
    _ears: Vec<Subscription>,
}

/// Notes what it hears on a channel.
struct Ear(String, Arc<Mutex<Vec<(String, String)>>>);

impl Listener for Ear {
    fn hear(&self, signal: Signal) {
        if let Signal::Message(payload) = signal {
            let payload = String::from_utf8(payload).unwrap();
            self.1.lock().unwrap().push((self.0.clone(), payload));
        }
    }
}

impl Line {
    /// Listens to the inboxes of both clients, and to the own channel of the first waiter of Redisson.
    fn new() -> Self {
        Self::with(FairTimes::default())
    }

    fn with(times: FairTimes) -> Self {
        let engine = MemoryEngine::open(None);
        let heard = Arc::default();
        let channels = [
            ("A", format!("ferrolock_fair_inbox:{{x}}:{A}")),
            ("B", format!("ferrolock_fair_inbox:{{x}}:{B}")),
            ("java", format!("redisson_lock__channel:{{x}}:{JAVA}:1")),
        ];
        let ears = channels.map(|(name, channel)| {
            let ear = Arc::new(Ear(name.to_owned(), Arc::clone(&heard)));
            finish(engine.listen(channel.into(), ear)).unwrap()
        });
        Self {
            scheme: FairScheme::new("x".into(), A, times),
            engine,
            heard,
            _ears: ears.into(),
        }
    }

    fn ask(&self, field: &str, mode: Mode, place: u64, is_front: bool) -> AttemptReply {
        let bearer = bearer(field);
        let ask = Ask {
            mode,
            place: Some(place),
            is_front,
            ..Ask::once(&bearer, LEASE)
        };
        let reply = run(&self.engine, self.scheme.acquire(&ask)).unwrap();
        self.scheme.read_acquire(reply).unwrap()
    }

    /// The first attempt of a caller that waits, as the front of its client.
    fn waits(&self, client: &str, number: u64) -> Busy {
        self.busy(&owner(client, number), Mode::Waits, 0)
    }

    fn busy(&self, field: &str, mode: Mode, place: u64) -> Busy {
        match self.ask(field, mode, place, true) {
            AttemptReply::Busy(busy) => busy,
            granted => panic!("{field}: {granted:?}"),
        }
    }

    fn is_granted(&self, client: &str, number: u64) -> bool {
        let reply = self.ask(&owner(client, number), Mode::Waits, 1, true);
        matches!(reply, AttemptReply::Granted(_))
    }

    fn release(&self, client: &str, number: u64) -> Release {
        let field = owner(client, number);
        let call = self.scheme.release(&bearer(&field), 0, Duration::ZERO);
        read_release(run(&self.engine, call).unwrap(), 0).unwrap()
    }

    fn leave(&self, client: &str, number: u64) -> Release {
        let call = self.scheme.abandon(&bearer(&owner(client, number)));
        read_release(run(&self.engine, call).unwrap(), 0).unwrap()
    }

    fn force_unlock(&self) -> bool {
        read_force_unlock(run(&self.engine, self.scheme.force_unlock()).unwrap()).unwrap()
    }

    /// Puts a waiter of Redisson at the tail, with a deadline that many ms ahead, or none.
    fn java_waits(&self, number: u64, ends_in: Option<i64>) {
        let field = owner(JAVA, number);
        self.put(
            "redis.call('RPUSH', 'redisson_lock_queue:{x}', ARGV[1])",
            &[&field],
        );
        if let Some(ends_in) = ends_in {
            let ends = (self.now() + ends_in).to_string();
            self.put(
                "redis.call('ZADD', 'redisson_lock_timeout:{x}', ARGV[1], ARGV[2])",
                &[&ends, &field],
            );
        }
    }

    fn java_holds(&self) {
        let source = "redis.call('HSET', 'x', ARGV[1], 1) redis.call('PEXPIRE', 'x', 30000)";
        self.put(source, &[&owner(JAVA, 9)]);
    }

    fn put(&self, source: &str, args: &[&str]) {
        eval(&self.engine, source, args).unwrap();
    }

    fn text(&self, source: &str, args: &[&str]) -> Option<String> {
        match eval(&self.engine, source, args).unwrap() {
            Value::Nil => None,
            Value::Bytes(text) => Some(String::from_utf8(text).unwrap()),
            Value::Int(number) => Some(number.to_string()),
            Value::List(list) => panic!("{list:?}"),
        }
    }

    fn now(&self) -> i64 {
        let source = "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)";
        self.text(source, &[]).unwrap().parse().unwrap()
    }

    /// The queue, each waiter by the first letter of its client and its number.
    fn queue(&self) -> Vec<String> {
        let source = "return redis.call('LRANGE', 'redisson_lock_queue:{x}', 0, -1)";
        let Value::List(list) = eval(&self.engine, source, &[]).unwrap() else {
            panic!("no list");
        };
        let short = |item: Value| match item {
            Value::Bytes(field) => {
                let field = String::from_utf8(field).unwrap();
                let (client, number) = field.split_once(':').unwrap();
                format!("{}{number}", &client[..1])
            }
            other => panic!("{other:?}"),
        };
        list.into_iter().map(short).collect()
    }

    /// How long a waiter's deadline is ahead, in ms.
    fn ends_in(&self, field: &str) -> Option<i64> {
        let source = "return redis.call('ZSCORE', 'redisson_lock_timeout:{x}', ARGV[1])";
        let ends = self.text(source, &[field])?;
        Some(ends.parse::<i64>().unwrap() - self.now())
    }

    fn left_of(&self, key: &str) -> i64 {
        let key = format!("{key}:{{x}}");
        let left = self.text("return redis.call('PTTL', ARGV[1])", &[&key]);
        left.unwrap().parse().unwrap()
    }

    /// How many waiters of ours the server knows of.
    fn known(&self) -> usize {
        let source = "return redis.call('HLEN', 'ferrolock_fair_waiters:{x}')";
        self.text(source, &[]).unwrap().parse().unwrap()
    }

    fn heard(&self) -> Vec<(String, String)> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    /// Nothing is left of any waiter.
    fn assert_no_queue(&self) {
        let source = "return redis.call('EXISTS', 'redisson_lock_queue:{x}', 'redisson_lock_timeout:{x}', 'ferrolock_fair_waiters:{x}')";
        assert_eq!(self.text(source, &[]).unwrap(), "0");
    }
}

fn told(whom: &str, what: &str) -> Vec<(String, String)> {
    vec![(whom.to_owned(), what.to_owned())]
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_the_order_in_which_they_came() {
    let line = Line::new();
    assert!(line.is_granted(A, 1));
    let first = line.waits(B, 2);
    pass(ms(1)).await;
    let second = line.waits(A, 3);
    assert!(first.is_next && !second.is_next);
    assert!(first.place < second.place, "{first:?} {second:?}");
    assert_eq!(first.rest, Rest::Left(LEASE));
    assert_eq!(
        (first.head, second.head),
        (None, None),
        "B's number is not A's"
    );
    assert_eq!(line.queue(), ["b2", "a3"]);

    assert_eq!(line.release(A, 1), Release::Free { heard: 1 });
    assert_eq!(line.heard(), told("B", "2"));
    let early = line.busy(&owner(A, 3), Mode::Waits, second.place.unwrap());
    assert_eq!(
        (early.rest, early.look_in),
        (Rest::Left(Duration::ZERO), None)
    );
    assert!(line.is_granted(B, 2));
    assert_eq!(line.queue(), ["a3"]);

    line.release(B, 2);
    assert_eq!(line.heard(), told("A", "3"));
    assert!(line.is_granted(A, 3));
    line.assert_no_queue();
    assert_eq!(line.release(A, 3), Release::Free { heard: 0 });
    assert_eq!(line.heard(), []);
}

#[tokio::test(start_paused = true)]
async fn one_attempt_takes_no_place_and_overtakes_no_waiter() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    line.release(A, 1);

    let tried = line.busy(&owner(A, 3), Mode::Once, 0);

    assert_eq!((tried.place, tried.is_next), (None, false));
    assert_eq!(line.queue(), ["b2"]);
    assert!(line.is_granted(B, 2));
    line.release(B, 2);
    assert!(matches!(
        line.ask(&owner(A, 3), Mode::Once, 0, true),
        AttemptReply::Granted(_)
    ));
}

/// Its first reply was lost: it has the lock, and gets a whole lease.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_repeated_under_its_field_is_granted_with_a_whole_lease() {
    let line = Line::new();
    assert!(line.is_granted(A, 1));
    pass(ms(10_000)).await;
    assert_eq!(line.waits(B, 2).rest, Rest::Left(ms(20_000)));

    assert!(line.is_granted(A, 1));

    assert_eq!(line.waits(B, 3).rest, Rest::Left(LEASE));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_is_repeated_without_its_ticket_keeps_its_place() {
    let line = Line::new();
    line.is_granted(A, 1);
    let first = line.waits(A, 2);
    line.waits(B, 3);
    pass(ms(5)).await;

    let again = line.waits(A, 2);

    assert_eq!((again.place, again.is_shaken), (first.place, false));
    assert_eq!(line.queue(), ["a2", "b3"]);
}

#[tokio::test(start_paused = true)]
async fn a_partial_release_keeps_the_lock_and_raises_the_lease() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    pass(ms(10_000)).await;
    let held = bearer(&owner(A, 1));

    let left = |count, need| {
        let call = line.scheme.release(&held, count, need);
        read_release(run(&line.engine, call).unwrap(), count).unwrap()
    };

    assert_eq!(left(1, ms(25_000)), Release::Left);
    assert_eq!(line.waits(B, 3).rest, Rest::Left(ms(25_000)));
    assert_eq!(line.heard(), []);
    let other = bearer(&owner(B, 9));
    let call = line.scheme.release(&other, 1, LEASE);
    assert_eq!(run(&line.engine, call).unwrap(), Value::Int(-2));
}

/// Its lease was over: the end of a lease is no message, so the release tells the first waiter.
#[tokio::test(start_paused = true)]
async fn a_release_after_the_end_of_its_lease_wakes_the_first_waiter() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    // The waiter lives: it beats.
    for _ in 0..30 {
        pass(ms(1_000)).await;
        line.ask(&owner(B, 3), Mode::Once, 0, true);
        line.put(
            "redis.call('ZADD', 'ferrolock_fair_clients:{x}', ARGV[1], ARGV[2])",
            &[&line.now().to_string(), B],
        );
    }
    pass(ms(1)).await;

    assert_eq!(
        line.release(A, 1),
        Release::Not(crate::protocol::scheme::Standing::Gone)
    );
    assert_eq!(line.heard(), told("B", "2"));
    assert!(line.is_granted(B, 2));
    assert_eq!(
        line.release(A, 1),
        Release::Not(crate::protocol::scheme::Standing::Taken)
    );
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_is_gone_and_the_next_is_told_if_it_was_its_turn() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);
    line.waits(A, 3);
    line.waits(B, 4);

    assert_eq!(line.leave(A, 3), Release::Free { heard: 0 });
    assert_eq!(line.queue(), ["b2", "b4"]);
    assert_eq!(line.heard(), []);
    line.release(A, 1);
    assert_eq!(line.heard(), told("B", "2"));

    assert_eq!(line.leave(B, 2), Release::Free { heard: 1 });
    assert_eq!(line.heard(), told("B", "4"));
    assert!(matches!(line.leave(B, 2), Release::Not(_)));
    line.leave(B, 4);
    line.assert_no_queue();
}

#[tokio::test(start_paused = true)]
async fn leaving_gives_back_a_hold_that_no_caller_knows_of() {
    let line = Line::new();
    line.is_granted(A, 1);
    line.waits(B, 2);

    assert_eq!(line.leave(A, 1), Release::Free { heard: 1 });

    assert_eq!(line.heard(), told("B", "2"));
    assert!(line.is_granted(B, 2));
    assert_eq!(
        line.leave(A, 1),
        Release::Not(crate::protocol::scheme::Standing::Taken)
    );
}

#[tokio::test(start_paused = true)]
async fn a_forced_unlock_wakes_the_first_waiter() {
    let line = Line::new();
    assert!(!line.force_unlock());
    line.java_holds();
    line.waits(A, 2);

    assert!(line.force_unlock());
    assert_eq!(line.heard(), told("A", "2"));
    assert!(!line.force_unlock());
    assert_eq!(line.heard(), told("A", "2"));
    assert!(line.is_granted(A, 2));
}

/// F13: a client's clock is nowhere in the calls.
#[tokio::test(start_paused = true)]
async fn no_call_has_a_time_of_day() {
    let line = Line::new();
    let bearer = bearer(&owner(A, 1));
    let ask = Ask {
        mode: Mode::Looks,
        ..Ask::once(&bearer, LEASE)
    };
    let calls = [
        line.scheme.acquire(&ask),
        line.scheme.release(&bearer, 0, LEASE),
        line.scheme.abandon(&bearer),
        line.scheme.force_unlock(),
    ];
    for call in calls {
        let is_time = |arg: &&Arg| matches!(arg, Arg::Int(number) if *number > 1_000_000_000_000);
        assert_eq!(call.args.iter().find(is_time), None, "{}", call.script.name);
    }
}

#[tokio::test(start_paused = true)]
async fn details_are_kept_for_people_and_go_with_the_hold() {
    let line = Line::new();
    let named = Bearer {
        field: owner(A, 1).into(),
        who: Some(crate::protocol::lock::write_details(42, "host", "label")),
    };
    let ask = Ask::once(&named, LEASE);
    run(&line.engine, line.scheme.acquire(&ask)).unwrap();
    let seen = |line: &Line| {
        let reply = run(&line.engine, line.scheme.inspect()).unwrap();
        line.scheme.read_inspect(reply).unwrap().1
    };
    assert_eq!(
        seen(&line)[0].details.as_ref().unwrap().label.as_deref(),
        Some("label")
    );

    run(&line.engine, line.scheme.release(&named, 0, Duration::ZERO)).unwrap();

    assert_eq!(line.left_of("ferrolock_holder"), -2);
}

#[tokio::test(start_paused = true)]
async fn a_key_of_another_type_is_refused_and_left_alone() {
    let line = Line::new();
    line.put("redis.call('SET', 'x', 'text')", &[]);
    let bearer = bearer(&owner(A, 1));

    for call in [
        line.scheme.acquire(&Ask::once(&bearer, LEASE)),
        line.scheme.release(&bearer, 0, LEASE),
        line.scheme.abandon(&bearer),
        line.scheme.force_unlock(),
    ] {
        let name = call.script.name;
        let refused = run(&line.engine, call).unwrap_err();
        assert!(
            matches!(&refused, Failure::Refused { code, .. } if code == "WRONGTYPE"),
            "{name}: {refused:?}"
        );
    }
    assert_eq!(
        line.text("return redis.call('GET', 'x')", &[]).unwrap(),
        "text"
    );
}
