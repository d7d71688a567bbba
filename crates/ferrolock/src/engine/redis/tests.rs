//! The contract of the engine, against a server that fails on command: what a caller gets for each fault.

mod calls;
mod entry;
mod fake;
mod lifetimes;
mod listening;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use self::fake::Fake;
use super::{Config, RedisEngine};
use crate::engine::{Engine, Failure, Lane, Listener, Signal};
use crate::protocol::call::{Arg, Call, Form, Script, Value};

static ECHO: Script = Script::new("test/echo", "return ARGV[1]");

/// Longer than any of these tests takes; only a test that hangs reaches it.
const HANG: Duration = Duration::from_secs(60);

fn config(fake: &Fake) -> Config {
    Config::parse(&format!("redis://{}", fake.address())).unwrap()
}

fn lazy(fake: &Fake) -> Arc<RedisEngine> {
    RedisEngine::new(config(fake))
}

async fn connected(fake: &Fake) -> Arc<RedisEngine> {
    let engine = lazy(fake);
    engine.connect().await.unwrap();
    engine
}

/// An engine that takes a server for silent soon.
async fn impatient(fake: &Fake) -> Arc<RedisEngine> {
    let mut config = config(fake);
    config.set_command_limit(Duration::from_millis(40));
    let engine = RedisEngine::new(config);
    engine.connect().await.unwrap();
    engine
}

fn echo(text: &str) -> Call {
    Call {
        script: &ECHO,
        keys: smallvec::smallvec!["key".into()],
        args: smallvec::smallvec![Arg::Bytes(text.as_bytes().into())],
        form: Form::default(),
    }
}

async fn call(engine: &RedisEngine, text: &str) -> Result<Value, Failure> {
    let reply = engine.call(Lane::Commands, echo(text));
    tokio::time::timeout(HANG, reply).await.unwrap()
}

async fn ready(engine: &RedisEngine, lane: Lane) {
    tokio::time::timeout(HANG, engine.ready(lane))
        .await
        .unwrap();
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

/// Passes on the signals it gets.
struct Notes(mpsc::UnboundedSender<Signal>);

impl Listener for Notes {
    fn hear(&self, signal: Signal) {
        let _ = self.0.send(signal);
    }
}

fn notes() -> (Arc<dyn Listener>, mpsc::UnboundedReceiver<Signal>) {
    let (sender, heard) = mpsc::unbounded_channel();
    (Arc::new(Notes(sender)), heard)
}

async fn next(heard: &mut mpsc::UnboundedReceiver<Signal>) -> Signal {
    tokio::time::timeout(HANG, heard.recv())
        .await
        .unwrap()
        .unwrap()
}
