//! A replay of how a client of Redisson waits for a read-write lock, for all its threads: one subscription while at least one of
//! them waits, and one count of wake-ups that they share.

use super::crew::Worker;
use super::redisson::{ReadWriteReplay, Side, rw_channel};
use crate::lock::redisson::Acquired;
use crate::reference::{connect, connect_hearing};
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use testkit::Server;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, Semaphore};

/// The payload with which a writer leaves: it wakes all threads that wait, any other wakes one.
const WRITER_LEFT: &[u8] = b"1";

/// What the threads of one client share.
#[derive(Debug)]
struct Entry {
    /// For subscriptions only, as in Redisson.
    ear: Mutex<(MultiplexedConnection, u64)>,
    /// Messages that no thread has used yet.
    wake_ups: Semaphore,
    /// Threads that sleep now.
    asleep: AtomicUsize,
    requests: AtomicU64,
}

/// One thread.
#[derive(Debug, Clone)]
pub(crate) struct Thread {
    number: u64,
    name: String,
    replay: ReadWriteReplay,
    connection: MultiplexedConnection,
    entry: Arc<Entry>,
}

/// The threads of one client.
pub(crate) async fn threads(server: &Server, name: &str, count: u64) -> Vec<Thread> {
    let mut connection = connect(server).await;
    let (ear, messages) = connect_hearing(server.address()).await;
    let entry = Arc::new(Entry {
        ear: Mutex::new((ear, 0)),
        wake_ups: Semaphore::new(0),
        asleep: AtomicUsize::new(0),
        requests: AtomicU64::new(0),
    });
    tokio::spawn(hear(entry.clone(), messages));
    let first = Thread {
        number: 0,
        name: name.to_owned(),
        replay: ReadWriteReplay::load(&mut connection).await,
        connection,
        entry,
    };
    let numbered = |number| Thread {
        number,
        ..first.clone()
    };
    (0..count).map(numbered).collect()
}

async fn hear(entry: Arc<Entry>, mut messages: UnboundedReceiver<PushInfo>) {
    while let Some(message) = messages.recv().await {
        if message.kind == PushKind::Message {
            let is_for_all =
                matches!(message.data.last(), Some(Value::BulkString(said)) if said == WRITER_LEFT);
            entry.wake_ups.add_permits(match is_for_all {
                true => entry.asleep.load(Ordering::SeqCst),
                false => 1,
            });
        }
    }
}

impl Entry {
    async fn subscribe(&self, name: &str) {
        let mut ear = self.ear.lock().await;
        if ear.1 == 0 {
            // Wake-ups of the last subscription do not count for this one.
            self.wake_ups.forget_permits(usize::MAX);
            ear.0.subscribe(rw_channel(name)).await.unwrap();
        }
        ear.1 += 1;
    }

    async fn unsubscribe(&self, name: &str) {
        let mut ear = self.ear.lock().await;
        ear.1 -= 1;
        if ear.1 == 0 {
            ear.0.unsubscribe(rw_channel(name)).await.unwrap();
        }
    }

    /// Sleeps until there is a wake-up, at most for that time.
    async fn sleep(&self, left: Duration) {
        self.asleep.fetch_add(1, Ordering::SeqCst);
        if let Ok(permit) = tokio::time::timeout(left, self.wake_ups.acquire()).await {
            permit.unwrap().forget();
        }
        self.asleep.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Thread {
    async fn attempt(&mut self, side: Side) -> Acquired {
        let (replay, name) = (&self.replay, &self.name);
        replay
            .acquire(&mut self.connection, name, self.number, side)
            .await
    }

    async fn lock(&mut self, side: Side) {
        if self.attempt(side).await == Acquired::Granted {
            return;
        }
        let entry = self.entry.clone();
        entry.subscribe(&self.name).await;
        while let Acquired::Busy(left) = self.attempt(side).await {
            entry.sleep(left).await;
        }
        // The thread does not wait for that.
        let name = self.name.clone();
        tokio::spawn(async move { entry.unsubscribe(&name).await });
    }

    async fn unlock(&mut self, side: Side) {
        let request = self.entry.requests.fetch_add(1, Ordering::Relaxed);
        let (replay, name) = (&self.replay, &self.name);
        let connection = &mut self.connection;
        replay
            .unlock(connection, name, self.number, side, request.into())
            .await;
    }
}

impl Worker for Thread {
    async fn visit(&mut self, side: Side) {
        self.lock(side).await;
        self.unlock(side).await;
    }
}
