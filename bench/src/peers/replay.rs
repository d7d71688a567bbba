//! A replay of how Redisson waits for a lock, on the crate `redis`, which ours uses too: no JVM that must warm up.
//!
//! It attempts; if the lock is busy, it subscribes to the lock's channel, attempts again, and once more after each message or
//! when the holder's lease must have ended. When it has the lock, it unsubscribes, without waiting for the answer.

use crate::lock::redisson::{Acquired, Replay, channel};
use crate::reference::connect_hearing;
use redis::aio::MultiplexedConnection;
use redis::{PushInfo, PushKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;

/// A process that acts as one thread of Redisson.
pub(crate) struct Waiter {
    name: String,
    replay: Replay,
    connection: MultiplexedConnection,
    /// For subscriptions only, as in Redisson.
    ear: MultiplexedConnection,
    messages: UnboundedReceiver<PushInfo>,
    /// The task that unsubscribes from the last subscription.
    leaving: Option<JoinHandle<()>>,
    unlocks: u64,
}

impl Waiter {
    pub(crate) async fn new(address: SocketAddr, name: &str) -> Self {
        let (mut connection, _) = connect_hearing(address).await;
        let (ear, messages) = connect_hearing(address).await;
        Self {
            name: name.to_owned(),
            replay: Replay::load(&mut connection).await,
            connection,
            ear,
            messages,
            leaving: None,
            unlocks: 0,
        }
    }

    pub(crate) async fn lock(&mut self) {
        if self.attempt().await == Acquired::Granted {
            return;
        }
        self.subscribe().await;
        while let Acquired::Busy(left) = self.attempt().await {
            self.sleep(left).await;
        }
        self.unsubscribe();
    }

    pub(crate) async fn unlock(&mut self) {
        self.unlocks += 1;
        let request = u128::from(thread()) << 64 | u128::from(self.unlocks);
        self.replay
            .unlock(&mut self.connection, &self.name, thread(), request)
            .await;
    }

    async fn attempt(&mut self) -> Acquired {
        self.replay
            .acquire(&mut self.connection, &self.name, thread())
            .await
    }

    async fn subscribe(&mut self) {
        if let Some(leaving) = self.leaving.take() {
            leaving.await.unwrap();
        }
        // Messages to the last subscription do not count for this one.
        while self.messages.try_recv().is_ok() {}
        self.ear.subscribe(channel(&self.name)).await.unwrap();
    }

    fn unsubscribe(&mut self) {
        let (mut ear, channel) = (self.ear.clone(), channel(&self.name));
        self.leaving = Some(tokio::spawn(async move {
            ear.unsubscribe(channel).await.unwrap();
        }));
    }

    /// Sleeps until a release is published, at most for that time.
    async fn sleep(&mut self, left: Duration) {
        let message =
            async { while self.messages.recv().await.unwrap().kind != PushKind::Message {} };
        let _told_or_over = tokio::time::timeout(left, message).await;
    }
}

/// A number that no other process uses for its thread.
fn thread() -> u64 {
    std::process::id().into()
}
