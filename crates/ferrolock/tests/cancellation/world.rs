//! Two clients of one place in paused time, and the look at what is left there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrolock::Client;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};

/// Well below every lease and every time that something is waited for.
pub(crate) const SOON: Duration = Duration::from_millis(500);

/// More than a subscription lingers, and less than a lease.
const SETTLED: Duration = Duration::from_secs(8);

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) other: Client,
    /// Tasks of the runtime while nobody holds or waits.
    tasks: usize,
}

impl World {
    pub(crate) async fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let space = format!(
            "memory:cancellation-{}",
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let client = Client::connect(&space).await.unwrap();
        let other = Client::connect(&space).await.unwrap();
        for client in [&client, &other] {
            // The keeper is started by the first hold.
            let guard = client.lock("warm").lock().await.unwrap();
            guard.unlock().await.unwrap();
        }
        sleep(SETTLED).await;
        let tasks = tasks();
        Self {
            client,
            other,
            tasks,
        }
    }

    /// Whether anybody holds `x`, asked by the client that was not disturbed.
    pub(crate) async fn is_locked(&self) -> bool {
        self.other.lock("x").is_locked().await.unwrap()
    }

    /// The lock is free now, not only when a lease has run out.
    pub(crate) async fn freed(&self, what: &str) {
        let freed = async {
            while self.is_locked().await {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, freed)
            .await
            .unwrap_or_else(|_| panic!("{what}: the key is still there"));
    }

    /// Nothing is left: no key, no place in a queue, no task, no subscription.
    pub(crate) async fn nothing_left(&self, what: &str) {
        self.freed(what).await;
        for client in [&self.client, &self.other] {
            let begun = Instant::now();
            let guard = client.lock("x").lock().await.unwrap();
            let waited = begun.elapsed();
            assert!(waited < SOON, "{what}: the next waited {waited:?}");
            guard.unlock().await.unwrap();
        }
        self.nobody_waits(what).await;
        assert!(!self.is_locked().await, "{what}: locked again");
    }

    /// Nobody is in a queue, so the task that works for the queue has ended, whoever holds the lock.
    pub(crate) async fn nobody_waits(&self, what: &str) {
        sleep(SETTLED).await;
        assert_eq!(tasks(), self.tasks, "{what}: tasks");
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
