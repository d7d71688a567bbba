//! Two clients of one engine, and assertions that nothing is left there.

use std::time::Duration;

use testkit::{LIMIT, eventually_async};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use crate::stage::{Party, Stage, TestGuard, TestLock, ms};

/// Longer than a subscription lingers, and shorter than a lease in virtual time.
const SETTLED: Duration = Duration::from_secs(8);

pub(crate) struct World<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) client: Party,
    pub(crate) other: Party,
    /// Tasks of the runtime while no client holds or waits.
    tasks: usize,
}

impl<'a> World<'a> {
    pub(crate) async fn on(stage: &'a Stage) -> Self {
        let builder = || stage.builder().watchdog_lease(stage.lease());
        let client = stage.connect(builder()).await;
        let other = stage.connect_opposite(builder()).await;
        for client in [&client, &other] {
            // The keeper is started by the first hold.
            let guard = client.lock("warm").lock().await.unwrap();
            guard.unlock().await.unwrap();
        }
        let mut world = Self {
            stage,
            client,
            other,
            tasks: 0,
        };
        if stage.is_virtual() {
            sleep(SETTLED).await;
        }
        world.tasks = tasks();
        world
    }

    /// Much shorter than every lease and every wait here.
    pub(crate) fn soon(&self) -> Duration {
        ms(500)
    }

    /// How long a holder keeps a lock for which another task waits.
    pub(crate) fn a_while(&self) -> Duration {
        if self.stage.is_virtual() {
            ms(1000)
        } else {
            ms(50)
        }
    }

    /// Another task holds it, for a while.
    pub(crate) async fn held_for_a_while(&self, by: &Party, name: &str) -> Holder {
        let guard = by.lock(name).lock().await.unwrap();
        let time = self.a_while();
        Holder(tokio::spawn(async move {
            sleep(time).await;
            guard.unlock().await.unwrap();
        }))
    }

    /// Whether the lock is held, or a part of it, asked by the client whose futures are not dropped.
    pub(crate) async fn is_locked(&self, name: &str) -> bool {
        for part in self.other.parts_of(name) {
            if part.is_locked().await.unwrap() {
                return true;
            }
        }
        false
    }

    /// Asserts that the lock becomes free soon, and not only when a lease has run out.
    pub(crate) async fn freed(&self, name: &str) {
        let begun = Instant::now();
        let what = format!("{name}: the key is gone");
        eventually_async(LIMIT, &what, async || !self.is_locked(name).await).await;
        let (took, lease) = (begun.elapsed(), self.stage.lease());
        let limit = if self.stage.is_virtual() {
            self.soon()
        } else {
            lease / 2
        };
        assert!(
            took < limit,
            "{name}: freed after {took:?}, not by its lease of {lease:?}"
        );
    }

    /// Asserts that nothing is left: no key, no place in a queue, no intent, no task, no subscription.
    pub(crate) async fn nothing_left(&self, name: &str) {
        self.freed(name).await;
        for client in [&self.client, &self.other] {
            // What is left of a part may be in the way of that part only, as a writer's intent is of readers.
            for lock in client.parts_of(name).into_iter().chain([client.lock(name)]) {
                self.at_once(&lock).await;
            }
        }
        if self.stage.is_virtual() {
            self.nobody_waits(name).await;
        }
        // The last release was answered; of a quorum, by most of its nodes.
        match self.stage.kind().engines() {
            1 => assert!(!self.is_locked(name).await, "{name}: locked again"),
            _ => self.freed(name).await,
        }
        let is_of_it = |key: &String| key.contains(name);
        let is_gone = async || !self.stage.keys().iter().any(is_of_it);
        eventually_async(LIMIT, &format!("no key of {name} is left"), is_gone).await;
    }

    /// Asserts that no call and no entry of one is in front of it.
    async fn at_once(&self, lock: &TestLock) {
        let begun = Instant::now();
        let guard = lock.lock().await.unwrap();
        let waited = begun.elapsed();
        let limit = match self.stage.is_virtual() {
            true => self.soon(),
            false => self.stage.lease() / 2,
        };
        assert!(waited < limit, "{lock:?}: the next waited {waited:?}");
        guard.unlock().await.unwrap();
    }

    /// Asserts that no call is in a queue: then the task that works for the queue has ended, also if the lock is held.
    pub(crate) async fn nobody_waits(&self, what: &str) {
        if self.stage.is_virtual() {
            sleep(SETTLED).await;
            return assert_eq!(tasks(), self.tasks, "{what}: tasks");
        }
        // A server's client has tasks of its own, which come and go with its connections.
        if self.stage.server().is_none() {
            let what = format!("{what}: the tasks have ended");
            eventually_async(LIMIT, &what, async || tasks() <= self.tasks).await;
        }
    }

    /// At the end: asserts that no task works for a waiter, and that a server has no subscriber and receives no command for
    /// locks that are gone.
    pub(crate) async fn nothing_goes_on(&self) {
        self.nobody_waits("at the end").await;
        for client in [&self.client, &self.other] {
            // After the ping everything that was sent before is answered.
            client.ping().await.unwrap();
        }
        let mut monitors = Vec::new();
        for server in self.stage.servers() {
            let mut look = server.connect();
            eventually_async(LIMIT, "no channel is listened to", async || {
                look.command(&["PUBSUB", "CHANNELS"]).list().is_empty()
            })
            .await;
            monitors.push(server.monitor());
        }
        if monitors.is_empty() {
            return;
        }
        sleep(self.stage.lease() * 2 / 3).await;
        let ours = |line: &String| line.contains("EVAL") || line.contains("SUBSCRIBE");
        let lines = monitors.iter().flat_map(|monitor| monitor.lines());
        let late: Vec<String> = lines.filter(ours).collect();
        assert!(late.is_empty(), "{late:#?}");
    }

    pub(crate) async fn held(&self, name: &str) -> TestGuard {
        self.client.lock(name).lock().await.unwrap()
    }
}

/// A task that releases its lock after a while.
pub(crate) struct Holder(tokio::task::JoinHandle<()>);

impl Holder {
    pub(crate) async fn gone(self) {
        self.0.await.unwrap();
    }
}

fn tasks() -> usize {
    Handle::current().metrics().num_alive_tasks()
}
