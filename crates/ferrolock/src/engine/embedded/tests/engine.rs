//! The memory engine as an `Engine`: polling, messages, sharing, time, closing.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::*;
use crate::engine::{Listener, Signal, Subscription};

/// Keeps the signals it got.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Notes {
    fn taken(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Listener for Notes {
    fn hear(&self, signal: Signal) {
        let text = match signal {
            Signal::Message(message) => String::from_utf8(message).unwrap(),
            Signal::Gap => "gap".to_owned(),
        };
        self.0.lock().unwrap().push(text);
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn listen(engine: &MemoryEngine, channel: &str) -> (Arc<Notes>, Subscription) {
    let notes = Arc::<Notes>::default();
    let subscription = finish(engine.listen(channel.into(), notes.clone())).unwrap();
    (notes, subscription)
}

fn publish(engine: &MemoryEngine, message: &str) -> Value {
    eval(
        engine,
        "return redis.call('PUBLISH', 'c', ARGV[1])",
        &[message],
    )
    .unwrap()
}

const COUNT: &str =
    "redis.call('HSET', 'h', #redis.call('HGETALL', 'h'), 1) return redis.call('HLEN', 'h')";

#[test]
fn a_call_runs_at_its_first_poll_and_answers_at_its_second() {
    let engine = MemoryEngine::open(None);
    let runs = || eval(&engine, "return redis.call('HLEN', 'h')", &[]).unwrap();

    let never = engine.call(Lane::Commands, text_call(COUNT, &[]));
    drop(never);
    assert_eq!(runs(), Value::Int(0));

    let mut dropped = engine.call(Lane::Commands, text_call(COUNT, &[]));
    assert!(poll_once(&mut dropped).is_pending());
    drop(dropped);
    assert_eq!(runs(), Value::Int(1));

    let mut whole = engine.call(Lane::Keeper, text_call(COUNT, &[]));
    assert!(poll_once(&mut whole).is_pending());
    assert_eq!(poll_once(&mut whole), Poll::Ready(Ok(Value::Int(2))));
}

#[test]
fn an_argument_may_be_any_bytes() {
    let engine = MemoryEngine::open(None);
    let any: Vec<u8> = vec![0, 0xff, b'\r', b'\n'];
    let mut call = text_call(
        "return redis.call('SET', KEYS[1], ARGV[1]) and redis.call('GET', KEYS[1])",
        &[],
    );
    call.args.push(Arg::Bytes(any.clone().into()));

    assert_eq!(run(&engine, call), Ok(Value::Bytes(any)));
}

#[test]
fn messages_come_after_the_script_even_if_it_fails() {
    let engine = MemoryEngine::open(None);
    let (notes, _subscription) = listen(&engine, "c");

    let source = "redis.call('PUBLISH', 'c', 'one') redis.call('PUBLISH', 'c', 'two') error('x')";
    assert!(eval(&engine, source, &[]).is_err());

    assert_eq!(notes.taken(), ["one", "two"]);
}

/// Calls the engine from within the delivery of a message.
struct Asks(Arc<MemoryEngine>, Mutex<Vec<Value>>);

impl Listener for Asks {
    fn hear(&self, _signal: Signal) {
        let value = eval(&self.0, "return redis.call('GET', 'k')", &[]).unwrap();
        self.1.lock().unwrap().push(value);
    }
}

#[test]
fn a_listener_that_gets_a_message_sees_what_the_script_wrote() {
    let engine = MemoryEngine::open(None);
    let listener = Arc::new(Asks(engine.clone(), Mutex::default()));
    let _subscription = finish(engine.listen("c".into(), listener.clone())).unwrap();

    let source = "redis.call('PUBLISH', 'c', '') redis.call('SET', 'k', 'late')";
    eval(&engine, source, &[]).unwrap();

    assert_eq!(*listener.1.lock().unwrap(), [bytes("late")]);
}

#[test]
fn a_subscription_gets_messages_of_its_channel_until_it_is_dropped() {
    let engine = MemoryEngine::open(None);
    let (notes, subscription) = listen(&engine, "c");
    let (others, _other) = listen(&engine, "other");

    assert_eq!(publish(&engine, "one"), Value::Int(1));
    drop(subscription);
    assert_eq!(publish(&engine, "two"), Value::Int(0));

    assert_eq!(notes.taken(), ["one"]);
    assert!(others.taken().is_empty());
}

/// A server counts connections, of which a client has one for all its listeners. Once, each listener was counted here, so
/// that a client that released took its own second listener for a competitor.
#[test]
fn two_listeners_of_one_client_both_get_messages_and_count_as_one() {
    let engine = MemoryEngine::open(None);
    let (first_notes, first) = listen(&engine, "c");
    let (second_notes, _second) = listen(&engine, "c");

    assert_eq!(publish(&engine, "both"), Value::Int(1));
    drop(first);
    assert_eq!(publish(&engine, "one"), Value::Int(1));

    assert_eq!(first_notes.taken(), ["both"]);
    assert_eq!(second_notes.taken(), ["both", "one"]);
}

#[test]
fn a_subscription_begins_at_the_first_poll_and_ends_with_its_future() {
    let engine = MemoryEngine::open(None);
    let notes = Arc::<Notes>::default();

    let mut future = engine.listen("c".into(), notes.clone());
    assert_eq!(publish(&engine, "zero"), Value::Int(0));
    assert!(poll_once(&mut future).is_pending());
    assert_eq!(publish(&engine, "one"), Value::Int(1));
    drop(future);
    assert_eq!(publish(&engine, "two"), Value::Int(0));

    assert_eq!(notes.taken(), ["one"]);
}

#[test]
fn engines_of_one_name_share_keys_and_channels() {
    let (one, two) = (
        MemoryEngine::open(Some("engines-share")),
        MemoryEngine::open(Some("engines-share")),
    );
    let stranger = MemoryEngine::open(Some("engines-share/not"));
    let (heard_one, _first) = listen(&one, "c");
    let (heard_two, _second) = listen(&two, "c");

    eval(&one, "redis.call('SET', 'k', 'v')", &[]).unwrap();

    assert_eq!(
        eval(&two, "return redis.call('GET', 'k')", &[]),
        Ok(bytes("v"))
    );
    assert_eq!(
        eval(&stranger, "return redis.call('GET', 'k')", &[]),
        Ok(Value::Nil)
    );
    assert_eq!(publish(&two, "m"), Value::Int(2));
    assert_eq!(heard_one.taken(), ["m"]);
    assert_eq!(heard_two.taken(), ["m"]);
    assert_eq!(one.address(), "memory:engines-share");
}

#[test]
fn a_space_without_a_name_is_private() {
    let (one, two) = (MemoryEngine::open(None), MemoryEngine::open(None));

    eval(&one, "redis.call('SET', 'k', 'v')", &[]).unwrap();

    assert_eq!(
        eval(&two, "return redis.call('GET', 'k')", &[]),
        Ok(Value::Nil)
    );
    assert_eq!(one.address(), "memory:");
}

#[test]
fn a_shared_space_ends_with_its_last_engine() {
    let engine = MemoryEngine::open(Some("ends-with-its-last"));
    eval(&engine, "redis.call('SET', 'k', 'v')", &[]).unwrap();
    drop(engine);

    let engine = MemoryEngine::open(Some("ends-with-its-last"));

    assert_eq!(
        eval(&engine, "return redis.call('GET', 'k')", &[]),
        Ok(Value::Nil)
    );
}

#[test]
fn names_of_spaces_have_letters_digits_and_some_signs() {
    for name in ["a", "A-1_b./c"] {
        assert!(MemoryEngine::is_name(name), "{name}");
    }
    for name in ["", "a b", "ä", "a:b", "a?b"] {
        assert!(!MemoryEngine::is_name(name), "{name}");
    }
}

#[test]
fn a_closed_engine_refuses_calls_and_gets_no_messages() {
    let (one, two) = (
        MemoryEngine::open(Some("closed-engine")),
        MemoryEngine::open(Some("closed-engine")),
    );
    let (notes, _subscription) = listen(&one, "c");
    let closed = Failure::Closed("the client was shut down".to_owned());

    one.close();

    assert_eq!(eval(&one, "return 1", &[]), Err(closed.clone()));
    let refused = finish(one.listen("c".into(), notes.clone()));
    assert_eq!(refused.map(drop), Err(closed));
    assert_eq!(publish(&two, "m"), Value::Int(0));
    assert!(notes.taken().is_empty());
    assert_eq!(eval(&two, "return 1", &[]), Ok(Value::Int(1)));
}

#[tokio::test(start_paused = true)]
async fn time_is_the_runtimes_paused_time() {
    let engine = MemoryEngine::open(None);
    let time = || eval(&engine, "return redis.call('TIME')", &[]).unwrap();
    let at = |seconds: &str, micros: &str| Value::List(vec![bytes(seconds), bytes(micros)]);

    assert!(engine.clock().is_virtual());
    assert_eq!(time(), at("1700000000", "0"));
    tokio::time::advance(Duration::from_micros(2_000_500)).await;
    assert_eq!(time(), at("1700000002", "500"));
}

#[tokio::test(start_paused = true)]
async fn all_engines_of_a_space_use_its_clock() {
    let here = MemoryEngine::open(Some("one-clock"));
    assert!(here.clock().is_virtual());

    let elsewhere = std::thread::spawn(|| {
        let there = MemoryEngine::open(Some("one-clock"));
        (there.clock().is_virtual(), eval(&there, "return 1", &[]))
    });

    assert_eq!(elsewhere.join().unwrap(), (true, Ok(Value::Int(1))));
}

#[test]
fn without_a_runtime_time_is_real() {
    let engine = MemoryEngine::open(None);

    let seconds = eval(&engine, "return tonumber(redis.call('TIME')[1])", &[]);

    assert!(!engine.clock().is_virtual());
    assert!(
        matches!(seconds, Ok(Value::Int(1_700_000_000..))),
        "{seconds:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn keys_expire_with_the_paused_time() {
    let engine = MemoryEngine::open(None);
    eval(&engine, "redis.call('SET', 'k', 'v', 'PX', 100)", &[]).unwrap();
    let exists = || eval(&engine, "return redis.call('EXISTS', 'k')", &[]);

    tokio::time::advance(Duration::from_millis(100)).await;
    assert_eq!(exists(), Ok(Value::Int(1)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!(exists(), Ok(Value::Int(0)));
}

#[test]
fn many_threads_may_call() {
    let engine = MemoryEngine::open(None);
    let call = text_call(
        "redis.call('SET', 'n', (tonumber(redis.call('GET', 'n') or 0)) + 1)",
        &[],
    );

    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..250 {
                    run(&engine, call.clone()).unwrap();
                }
            });
        }
    });

    assert_eq!(
        eval(&engine, "return redis.call('GET', 'n')", &[]),
        Ok(bytes("1000"))
    );
}

#[test]
fn a_flush_loses_all_keys() {
    let engine = MemoryEngine::open(None);
    eval(&engine, "redis.call('SET', 'k', 'v', 'PX', 100)", &[]).unwrap();

    engine.flush();

    assert_eq!(
        eval(&engine, "return redis.call('EXISTS', 'k')", &[]),
        Ok(Value::Int(0))
    );
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_goes_on_from_there() {
    let (engine, minute) = (MemoryEngine::open(None), Duration::from_secs(60));
    eval(&engine, "redis.call('SET', 'k', 1, 'PX', 1000)", &[]).unwrap();
    let (begun, on_ours) = (engine.micros(), engine.clock().now());

    engine.set_back(minute);

    assert_eq!(engine.micros(), begun - 60_000_000);
    let left = "return redis.call('PTTL', 'k')";
    assert_eq!(eval(&engine, left, &[]), Ok(Value::Int(61_000)));
    tokio::time::advance(minute).await;
    assert_eq!(engine.micros(), begun);
    assert_eq!(eval(&engine, left, &[]), Ok(Value::Int(1000)));
    assert_eq!(engine.clock().now().since(on_ours), minute);
}
