//! What a call may reach beyond the keys it names, and what it does for processes that have ended.

use std::fs::File;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use super::super::FileEngine;
use super::super::address::StorePlace;
use super::super::directory::inode_of;
use super::super::environment::{Environment, StoreCaller, StoreTry};
use super::super::parts::{new_file, new_name};
use super::super::rows;
use super::super::session::socket_name;
use crate::engine::{Engine, Failure, Lane, Listener, Signal, unpoisoned};
use crate::protocol::call::{Arg, Call, Form, Script, Value};
use crate::protocol::keys::lock_channel;
use crate::protocol::lock::PlainScheme;
use crate::protocol::scheme::{Ask, Bearer, Scheme, dead_bearer};

const LEASE: Duration = Duration::from_secs(600);

/// A store that this process uses.
struct Stage {
    environment: &'static Environment,
    folder: tempfile::TempDir,
}

/// What looks like another process of the store to this one.
struct Other {
    session: String,
    file: File,
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Listener for Notes {
    fn hear(&self, signal: Signal) {
        unpoisoned(&self.0).push(format!("{signal:?}"));
    }
}

impl Stage {
    async fn new() -> Self {
        let folder = testkit::store_folder();
        let place = StorePlace::parse(folder.path().to_str().unwrap()).unwrap();
        let Ok(StoreTry::Now(environment)) = Environment::open_sized(&place, 8 << 20) else {
            panic!("a new store can be opened");
        };
        let attached = environment.perform(|store| store.attach(1, Arc::default()));
        attached.await.unwrap();
        Self {
            environment,
            folder,
        }
    }

    async fn run(&self, call: Call) -> Result<Value, Failure> {
        self.environment.call(StoreCaller::default(), call).await.0
    }

    async fn eval(
        &self,
        source: &'static str,
        keys: &[&str],
        args: &[&str],
    ) -> Result<Value, Failure> {
        self.run(text_call(source, keys, args)).await
    }

    async fn acquire(&self, name: &str) -> Result<Value, Failure> {
        let bearer = Bearer {
            field: "us:1".into(),
            who: None,
        };
        self.run(PlainScheme::new(name.into()).acquire(&Ask::once(&bearer, LEASE)))
            .await
    }

    /// A process with that client; it lives until it is dropped or dies.
    async fn other(&self, client: &str) -> Other {
        let session = new_name();
        let file = new_file(&self.folder.path().join("sessions").join(&session)).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let number = inode_of(&file).unwrap().number.to_be_bytes();
        let (client, theirs) = (rows::client(client), session.clone());
        let written = self.environment.perform(move |store| {
            let mut change = store.map.begin()?;
            change.put(&rows::session(&theirs), &number)?;
            change.put(&client, theirs.as_bytes())?;
            change.commit()
        });
        written.await.unwrap();
        Other { session, file }
    }

    /// `count` dead processes with a field each in that hash.
    async fn dead_holders(&self, name: &str, count: usize) {
        for number in 0..count {
            let client = format!("dead{number}");
            self.other(&client).await.dies();
            self.hold(name, &format!("{client}:{number}")).await;
        }
    }

    async fn hold(&self, name: &str, field: &str) {
        let source =
            "redis.call('HSET', KEYS[1], ARGV[1], 1) redis.call('PEXPIRE', KEYS[1], 600000)";
        self.eval(source, &[name], &[field]).await.unwrap();
    }

    async fn fields(&self, name: &str) -> Value {
        let source = "return redis.call('HKEYS', KEYS[1])";
        self.eval(source, &[name], &[]).await.unwrap()
    }

    /// A listener of this process.
    async fn listen(&self, channel: &'static str) -> Arc<Notes> {
        let (environment, notes) = (self.environment, Arc::<Notes>::default());
        let listener = notes.clone();
        let listening = environment.perform(move |store| {
            let bind = |session: &str| environment.hear(session);
            store.listen(channel.as_bytes(), 1, listener, bind)
        });
        listening.await.unwrap();
        notes
    }
}

impl Other {
    /// Listens to a channel; returns the socket to which its messages come.
    async fn listens(&self, stage: &Stage, channel: &str) -> UnixDatagram {
        let name = socket_name(&self.session);
        let socket = UnixDatagram::bind(stage.folder.path().join("sessions").join(name)).unwrap();
        socket.set_read_timeout(Some(testkit::LIMIT)).unwrap();
        let row = rows::listener(channel.as_bytes(), &self.session);
        let written = stage.environment.perform(move |store| {
            let mut change = store.map.begin()?;
            change.put(&row, &1u32.to_be_bytes())?;
            change.commit()
        });
        written.await.unwrap();
        socket
    }

    fn dies(self) {
        flock(&self.file, FlockOperation::Unlock).unwrap();
    }
}

fn text_call(source: &'static str, keys: &[&str], args: &[&str]) -> Call {
    Call {
        script: Box::leak(Box::new(Script::new("test/script", source))),
        keys: keys.iter().map(|&key| key.into()).collect(),
        args: args
            .iter()
            .map(|&arg| Arg::Bytes(arg.as_bytes().into()))
            .collect(),
        form: Form::default(),
    }
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

fn datagram(socket: &UnixDatagram) -> String {
    let mut datagram = [0; 100];
    let length = socket.recv(&mut datagram).unwrap();
    String::from_utf8(datagram[2..length].to_vec()).unwrap()
}

/// Once, such a message was dropped: the first waiter of a fair lock, whose channel only the queue names, was woken by its
/// poll.
#[tokio::test]
async fn a_message_on_a_channel_that_the_call_does_not_name_wakes_another_process() {
    let stage = Stage::new().await;
    let other = stage.other("them").await;
    let socket = other.listens(&stage, "unnamed").await;

    let source = "return redis.call('PUBLISH', 'unnamed', 'hello')";
    let heard = stage.eval(source, &["named"], &[]).await;

    assert_eq!(heard, Ok(Value::Int(1)));
    assert_eq!(datagram(&socket), "unnamedhello");
}

#[tokio::test]
async fn a_script_may_read_and_write_keys_that_its_call_does_not_name() {
    let stage = Stage::new().await;
    let set = "redis.call('SET', KEYS[1], ARGV[1])";
    stage.eval(set, &["a"], &["value"]).await.unwrap();

    let copy = "redis.call('SET', 'b', redis.call('GET', 'a')) return redis.call('DEL', 'a')";
    let removed = stage.eval(copy, &["named"], &[]).await;

    assert_eq!(removed, Ok(Value::Int(1)));
    let get = "return {redis.call('GET', KEYS[1]), redis.call('EXISTS', KEYS[2])}";
    let got = stage.eval(get, &["b", "a"], &[]).await;
    assert_eq!(got, Ok(Value::List(vec![bytes("value"), Value::Int(0)])));
}

/// Runs that are thrown away must leave nothing.
#[tokio::test]
async fn a_message_is_delivered_once_however_often_its_script_ran() {
    let stage = Stage::new().await;
    let notes = stage.listen("c").await;

    let source =
        "redis.call('PUBLISH', 'c', 'x') redis.call('GET', 'a') return redis.call('GET', 'b')";
    let reply = stage.eval(source, &["named"], &[]).await;

    assert_eq!(reply, Ok(Value::Nil));
    assert_eq!(unpoisoned(&notes.0).len(), 1);
}

/// Follows a chain of keys, each of which names the next one.
const FOLLOW: &str = "
    redis.call('PUBLISH', 'c', 'x')
    redis.call('SET', 'followed', 1)
    local key = KEYS[1]
    while true do
        local next = redis.call('GET', key)
        if not next then return key end
        key = next
    end";

#[tokio::test]
async fn a_chain_of_keys_is_followed_for_eight_steps_and_then_refused_whole() {
    let stage = Stage::new().await;
    let notes = stage.listen("c").await;
    for number in 0..8 {
        let (key, next) = (format!("p{number}"), format!("p{}", number + 1));
        let set = "redis.call('SET', KEYS[1], ARGV[1])";
        stage.eval(set, &[&key], &[&next]).await.unwrap();
    }
    let followed = async || {
        let source = "return redis.call('DEL', KEYS[1])";
        stage.eval(source, &["followed"], &[]).await.unwrap()
    };

    let reply = stage.eval(FOLLOW, &["p0"], &[]).await;
    assert_eq!(reply, Ok(bytes("p8")));
    assert_eq!(followed().await, Value::Int(1));
    assert_eq!(unpoisoned(&notes.0).len(), 1);
    let set = "redis.call('SET', 'p8', 'p9')";
    stage.eval(set, &["p8"], &[]).await.unwrap();
    let refused = stage.eval(FOLLOW, &["p0"], &[]).await;

    assert!(
        matches!(&refused, Err(Failure::Refused { code, message }) if code == "ERR" && message.contains("test/script")),
        "{refused:?}"
    );
    assert_eq!(followed().await, Value::Int(0));
    assert_eq!(unpoisoned(&notes.0).len(), 1);
    assert_eq!(stage.eval("return 7", &[], &[]).await, Ok(Value::Int(7)));
}

/// Once, only the single holder of a plain lock was freed: permits and read locks of killed processes stayed until their
/// leases ended.
#[tokio::test]
async fn three_dead_holders_under_one_name_are_freed_by_one_call() {
    let stage = Stage::new().await;
    stage.dead_holders("x", 3).await;

    assert_eq!(stage.acquire("x").await, Ok(Value::Nil));

    assert_eq!(stage.fields("x").await, Value::List(vec![bytes("us:1")]));
}

#[tokio::test]
async fn of_twenty_dead_holders_a_call_frees_sixteen_and_the_next_one_the_others() {
    let stage = Stage::new().await;
    let channel = &*lock_channel("x").to_string().leak();
    let other = stage.other("them").await;
    let socket = other.listens(&stage, channel).await;
    stage.dead_holders("x", 20).await;

    let busy = stage.acquire("x").await;
    assert!(matches!(busy, Ok(Value::Int(1..))), "{busy:?}");
    let left = stage.fields("x").await;
    assert!(
        matches!(&left, Value::List(left) if left.len() == 4),
        "{left:?}"
    );
    assert_eq!(datagram(&socket), format!("{channel}0"));

    assert_eq!(stage.acquire("x").await, Ok(Value::Nil));
}

#[tokio::test]
async fn a_living_holder_beside_dead_ones_is_not_freed() {
    let stage = Stage::new().await;
    stage.dead_holders("x", 2).await;
    let _alive = stage.other("alive").await;
    stage.hold("x", "alive:7").await;
    stage.hold("x", "unheard-of:8").await;
    stage.hold("x", "mode").await;

    let busy = stage.acquire("x").await;

    assert!(matches!(busy, Ok(Value::Int(1..))), "{busy:?}");
    let left = ["alive:7", "unheard-of:8", "mode"].map(bytes).to_vec();
    assert_eq!(stage.fields("x").await, Value::List(left));
}

#[tokio::test]
async fn a_dead_holder_with_a_delayed_release_is_not_freed() {
    let stage = Stage::new().await;
    let them = stage.other("them").await;
    stage.hold("x", "them:1").await;
    stage.hold("x", "them:2:write").await;
    let bearer = Bearer {
        field: "them:1".into(),
        who: None,
    };
    let stay = PlainScheme::new("x".into()).delay_release(&bearer, LEASE);
    assert_eq!(stage.run(stay).await, Ok(Value::Int(1)));
    them.dies();

    let busy = stage.acquire("x").await;

    assert!(matches!(busy, Ok(Value::Int(1..))), "{busy:?}");
    assert_eq!(stage.fields("x").await, Value::List(vec![bytes("them:1")]));
}

/// A batch of renewals: to look for listeners under each of its keys would double its cost.
#[test]
fn listeners_are_looked_for_on_channels_and_not_on_other_keys() {
    let keys: Vec<String> = (0..100).map(|number| format!("lock {number}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let renewals = text_call("return 1", &keys, &[]);
    let lock = PlainScheme::new("x".into());
    let release = lock.release(&dead_bearer("client:7".into()), 0, Duration::ZERO);

    assert_eq!(super::call::Needed::of(&renewals).channels.len(), 0);
    let needed = super::call::Needed::of(&release);
    let channels: Vec<_> = needed.channels.iter().map(|(name, _)| &**name).collect();
    assert_eq!(channels, [lock_channel("x").as_bytes()]);
}

#[tokio::test]
async fn two_listeners_of_one_client_both_get_messages_and_count_as_one() {
    let folder = testkit::store_folder();
    let place = StorePlace::parse(folder.path().to_str().unwrap()).unwrap();
    let engine = FileEngine::new(place, LEASE);
    let (one, two) = (Arc::<Notes>::default(), Arc::<Notes>::default());
    let publish = || {
        let source = "return redis.call('PUBLISH', KEYS[1], 'x')";
        engine.call(Lane::Commands, text_call(source, &["c"], &[]))
    };

    let first = engine.listen("c".into(), one.clone()).await.unwrap();
    let _second = engine.listen("c".into(), two.clone()).await.unwrap();
    assert_eq!(publish().await, Ok(Value::Int(1)));
    drop(first);
    assert_eq!(publish().await, Ok(Value::Int(1)));

    assert_eq!(unpoisoned(&one.0).len(), 1);
    assert_eq!(unpoisoned(&two.0).len(), 2);
}
