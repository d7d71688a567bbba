//! Waiters of both sides for one lock, `orders`, which get it one after the other.

use std::time::Duration;

use ferrolock::{Client, Guard};
use testkit::java::{JavaLock, Pending, now};
use testkit::{LIMIT, eventually_async};
use tokio::task::JoinHandle;

use crate::scene::{Scene, assert_at_once, waiter};

/// Clients of both sides together.
const CLIENTS: i64 = 4;

/// Three waiters of each side, in two clients of each.
pub(crate) struct Crowd {
    waiting: Vec<Waiting>,
}

enum Waiting {
    Java(JavaLock, Pending<()>),
    Ours(JoinHandle<(Guard, Duration)>),
}

impl Crowd {
    /// Returns when all of them listen, in addition to `others` other clients.
    pub(crate) async fn gather(scene: &Scene, others: i64) -> Self {
        let url = scene.server.url();
        let java = scene.peer.client(&url).open();
        let ours = Client::connect(url).await.unwrap();
        let threads = [
            scene.java.thread("a"),
            scene.java.thread("b"),
            java.thread("a"),
        ];
        let mut waiting = Vec::new();
        for thread in threads {
            let lock = thread.lock("orders");
            let pending = lock.begin_lock();
            waiting.push(Waiting::Java(lock, pending));
        }
        for lock in [&scene.ours, &scene.ours, &ours].map(|client| client.lock("orders")) {
            waiting.push(Waiting::Ours(waiter(lock)));
        }
        scene.until_awaited("orders", others + CLIENTS);
        Self { waiting }
    }

    /// No two hold the lock at the same time, and none waits for the end of a lease.
    pub(crate) async fn get_it_one_by_one(mut self, scene: &Scene, mut freed: Duration) {
        while !self.waiting.is_empty() {
            let is_granted = async || self.waiting.iter().any(Waiting::has_it);
            eventually_async(LIMIT, "one of them has it", is_granted).await;
            let holders = scene.holders("orders");
            assert_eq!(holders.len(), 1);
            assert_eq!(holders[0].1, 1);

            let lucky = self.waiting.iter().filter(|waiting| waiting.has_it());
            assert_eq!(lucky.count(), 1);
            let lucky = self.waiting.iter().position(Waiting::has_it).unwrap();
            freed = self.waiting.remove(lucky).leave(freed).await;
        }
        assert!(!scene.ours.lock("orders").is_locked().await.unwrap());
    }
}

impl Waiting {
    fn has_it(&self) -> bool {
        match self {
            Waiting::Java(_, pending) => pending.is_done(),
            Waiting::Ours(task) => task.is_finished(),
        }
    }

    /// The waiter that got the lock releases it; returns when.
    async fn leave(self, freed: Duration) -> Duration {
        match self {
            Waiting::Java(lock, pending) => {
                let granted = pending.answer(LIMIT);
                granted.result.unwrap();
                assert_at_once("to Java", freed, granted.ended);
                let freed = now();
                lock.unlock().unwrap();
                freed
            }
            Waiting::Ours(task) => {
                let (guard, granted) = task.await.unwrap();
                assert_at_once("to ours", freed, granted);
                let freed = now();
                guard.unlock().await.unwrap();
                freed
            }
        }
    }
}
