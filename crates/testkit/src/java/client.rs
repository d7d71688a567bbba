//! Clients of Redisson, and the Java threads that use them.

use super::answer::{Exception, Pending};
use super::dialogue::Dialogue;
use super::object::{JavaLock, JavaObject};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// A client that is about to be opened.
///
/// By default it has few threads and connections: tests have many clients in one JVM.
#[derive(Debug)]
#[must_use = "it is opened by `open`"]
pub struct Opening {
    dialogue: Arc<Dialogue>,
    url: String,
    config: Map<String, Value>,
    server: Map<String, Value>,
}

impl Opening {
    pub(super) fn new(dialogue: Arc<Dialogue>, url: &str) -> Self {
        let opening = Self {
            dialogue,
            url: url.to_owned(),
            config: Map::new(),
            server: Map::new(),
        };
        opening
            .config("threads", 4)
            .config("nettyThreads", 4)
            .server("connectionPoolSize", 8)
            .server("connectionMinimumIdleSize", 1)
            .server("subscriptionConnectionPoolSize", 4)
            .server("subscriptionConnectionMinimumIdleSize", 1)
    }

    /// With as many threads and connections as Redisson has by default.
    pub fn full_size(mut self) -> Self {
        self.config.clear();
        self.server.clear();
        self
    }

    /// The lease of locks that are held without one, which the watchdog renews.
    pub fn watchdog(self, time: Duration) -> Self {
        self.config("lockWatchdogTimeout", ms(time))
    }

    /// Any setting of Redisson's `Config`, by its name.
    pub fn config(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.config.insert(name.to_owned(), value.into());
        self
    }

    /// Any setting of Redisson's `SingleServerConfig`, by its name.
    pub fn server(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.server.insert(name.to_owned(), value.into());
        self
    }

    /// Opens it; panics if Redisson cannot.
    #[track_caller]
    pub fn open(self) -> JavaClient {
        let url = self.url.clone();
        self.try_open()
            .unwrap_or_else(|exception| panic!("no client of {url}: {exception}"))
    }

    /// Opens it, or returns Redisson's exception.
    #[track_caller]
    pub fn try_open(self) -> Result<JavaClient, Exception> {
        let name = format!("client-{}", self.dialogue.number());
        let fields = json!({
            "client": name,
            "address": self.url,
            "config": self.config,
            "server": self.server,
        });
        let uuid = self.dialogue.ask("open", fields).wait()?;
        Ok(JavaClient {
            open: Arc::new(Open {
                dialogue: self.dialogue,
                name,
                uuid,
            }),
        })
    }
}

/// A client of Redisson; closed when it and its threads here are dropped.
#[derive(Debug, Clone)]
pub struct JavaClient {
    open: Arc<Open>,
}

#[derive(Debug)]
struct Open {
    dialogue: Arc<Dialogue>,
    name: String,
    uuid: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Not waited for: Redisson takes seconds for it.
        drop(
            self.dialogue
                .ask::<()>("close", json!({"client": self.name})),
        );
    }
}

impl JavaClient {
    /// The id with which the owner fields of its locks begin.
    pub fn uuid(&self) -> &str {
        &self.open.uuid
    }

    /// The thread of that name, begun by its first call.
    pub fn thread(&self, name: &str) -> JavaThread {
        JavaThread {
            client: self.clone(),
            name: name.to_owned(),
        }
    }

    /// Gives any command of the program, those of its `Bench` for instance, to this client.
    pub fn begin<T: DeserializeOwned>(&self, command: &str, mut fields: Value) -> Pending<T> {
        fields["client"] = json!(self.open.name);
        self.open.dialogue.ask(command, fields)
    }

    /// Shuts the client down in the regular way, and waits for it.
    #[track_caller]
    pub fn close(self) -> Result<(), Exception> {
        self.begin("close", json!({})).wait()
    }
}

/// A Java thread, which lives until it is ended or its client is closed.
#[derive(Debug, Clone)]
pub struct JavaThread {
    client: JavaClient,
    name: String,
}

impl JavaThread {
    /// The client that it uses.
    pub fn client(&self) -> &JavaClient {
        &self.client
    }

    /// The id of the Java thread, as owner fields have it.
    #[track_caller]
    pub fn id(&self) -> i64 {
        // Any call will do: the answer has the id.
        let harmless = self.lock("any").begin::<Value>("getName", json!([]));
        harmless.answer(crate::LIMIT).thread
    }

    /// The owner field of its locks.
    #[track_caller]
    pub fn owner(&self) -> String {
        format!("{}:{}", self.client.uuid(), self.id())
    }

    /// Interrupts the call that it executes, or else its next call.
    #[track_caller]
    pub fn interrupt(&self) {
        self.tell("interrupt");
    }

    /// Ends its loop after the round that it is in; see [`JavaLock::rounds`].
    #[track_caller]
    pub fn stop(&self) {
        self.tell("stop");
    }

    /// Ends it after the commands that it was given so far, and waits for that; its locks stay held.
    #[track_caller]
    pub fn end(&self) {
        self.tell("end");
    }

    /// The reentrant lock of that name.
    pub fn lock(&self, name: &str) -> JavaLock {
        self.lock_of("lock", name)
    }

    /// The fair lock of that name.
    pub fn fair(&self, name: &str) -> JavaLock {
        self.lock_of("fair", name)
    }

    /// The read side of the read-write lock of that name.
    pub fn read(&self, name: &str) -> JavaLock {
        self.lock_of("read", name)
    }

    /// The write side of the read-write lock of that name.
    pub fn write(&self, name: &str) -> JavaLock {
        self.lock_of("write", name)
    }

    /// The fenced lock of that name.
    pub fn fenced(&self, name: &str) -> JavaLock {
        self.lock_of("fenced", name)
    }

    /// The spin lock of that name.
    pub fn spin(&self, name: &str) -> JavaLock {
        self.lock_of("spin", name)
    }

    /// The lock of that name that its holder cannot take again.
    pub fn non_reentrant(&self, name: &str) -> JavaLock {
        self.lock_of("non-reentrant", name)
    }

    /// All these locks at once; each is that of its own client.
    pub fn multi(&self, locks: &[JavaLock]) -> JavaLock {
        self.lock_of_several("multi", locks)
    }

    /// A majority of these locks; each is that of its own client.
    pub fn red(&self, locks: &[JavaLock]) -> JavaLock {
        self.lock_of_several("red", locks)
    }

    /// The semaphore of that name.
    pub fn semaphore(&self, name: &str) -> JavaObject {
        self.object(json!({"kind": "semaphore", "name": name}))
    }

    /// The semaphore of that name whose permits have ids and expire.
    pub fn permits(&self, name: &str) -> JavaObject {
        self.object(json!({"kind": "permits", "name": name}))
    }

    /// The count-down latch of that name.
    pub fn latch(&self, name: &str) -> JavaObject {
        self.object(json!({"kind": "latch", "name": name}))
    }

    /// Any object that the program knows, by its description.
    pub fn object(&self, description: Value) -> JavaObject {
        JavaObject::new(self.clone(), description)
    }

    fn lock_of(&self, kind: &str, name: &str) -> JavaLock {
        JavaLock::new(self.object(json!({"kind": kind, "name": name})))
    }

    fn lock_of_several(&self, kind: &str, locks: &[JavaLock]) -> JavaLock {
        let described = |lock: &JavaLock| {
            let mut member = lock.description().clone();
            member["client"] = json!(lock.thread().client().open.name);
            member
        };
        let members: Vec<Value> = locks.iter().map(described).collect();
        JavaLock::new(self.object(json!({"kind": kind, "locks": members})))
    }

    pub(super) fn begin<T: DeserializeOwned>(
        &self,
        command: &str,
        mut fields: Value,
    ) -> Pending<T> {
        fields["thread"] = json!(self.name);
        self.client.begin(command, fields)
    }

    #[track_caller]
    fn tell(&self, command: &str) {
        self.begin::<()>(command, json!({}))
            .wait()
            .unwrap_or_else(|exception| panic!("{command} of thread {}: {exception}", self.name));
    }
}

/// Whole milliseconds, as Redisson's settings and calls want them.
pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).expect("less than an age")
}
