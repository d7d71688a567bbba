//! Where the random sequences of `rw_model` run: on each embedded engine and on servers, with time that the test moves.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

#[cfg(target_os = "linux")]
use super::super::file::lone::Lone;
use super::*;
use testkit::{Connection, Kind, Reply, Server};

/// Runs calls one after the other.
pub(super) trait Place {
    fn run(&self, call: Call) -> Value;

    async fn pass(&self, time: Duration);

    /// How many ms there are one of the test's.
    fn factor(&self) -> u64 {
        1
    }
}

impl Place for Arc<MemoryEngine> {
    fn run(&self, call: Call) -> Value {
        run(self, call).unwrap()
    }

    async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
    }
}

/// A store: each call loads its keys and writes them back.
#[cfg(target_os = "linux")]
pub(super) struct InFile {
    store: RefCell<Lone>,
    /// In microseconds.
    now: Cell<i64>,
}

#[cfg(target_os = "linux")]
impl InFile {
    pub(super) fn new() -> Self {
        Self {
            store: RefCell::new(Lone::new()),
            now: Cell::new(1_000_000_000_000),
        }
    }
}

#[cfg(target_os = "linux")]
impl Place for InFile {
    fn run(&self, call: Call) -> Value {
        let reply = self.store.borrow_mut().call_at(self.now.get(), &call);
        reply.unwrap()
    }

    async fn pass(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap();
        self.now.set(self.now.get() + micros);
    }
}

/// A server. Its clock cannot be moved: time passes by taking it off every key. A ms of the test's is a quarter of an hour
/// here, so that the time that the test itself takes decides nothing.
pub(super) struct OnServer {
    connection: RefCell<Connection>,
    _server: Server,
}

impl OnServer {
    pub(super) fn new(kind: Kind) -> Self {
        let server = Server::start(kind);
        Self {
            connection: RefCell::new(server.connect()),
            _server: server,
        }
    }

    pub(super) fn clear(&self) {
        self.connection.borrow_mut().command(&["FLUSHALL"]);
    }

    fn eval(&self, source: &str, keys: &[&str], args: &[String]) -> Reply {
        let count = keys.len().to_string();
        let mut words = vec!["EVAL", source, &count];
        words.extend(keys);
        words.extend(args.iter().map(String::as_str));
        self.connection.borrow_mut().command(&words)
    }
}

impl Place for &OnServer {
    fn run(&self, call: Call) -> Value {
        let keys: Vec<&str> = call.keys.iter().map(|key| &**key).collect();
        let text = |arg: &Arg| match arg {
            Arg::Int(number) => number.to_string(),
            Arg::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        };
        let args: Vec<String> = call.args.iter().map(text).collect();
        value(self.eval(call.script.source, &keys, &args))
    }

    async fn pass(&self, time: Duration) {
        let source = "
for _, key in ipairs(redis.call('KEYS', '*')) do
    redis.call('PEXPIRE', key, redis.call('PTTL', key) - ARGV[1])
end";
        self.eval(source, &[], &[time.as_millis().to_string()]);
    }

    fn factor(&self) -> u64 {
        1_000_000
    }
}

fn value(reply: Reply) -> Value {
    match reply {
        Reply::Nil => Value::Nil,
        Reply::Int(number) => Value::Int(number),
        Reply::Text(text) => Value::Bytes(text.into_bytes()),
        Reply::List(list) => Value::List(list.into_iter().map(value).collect()),
        Reply::Error(text) => panic!("{text}"),
    }
}
