//! What these stories share: whether a name is free, and readers that come together.

use std::sync::Arc;

use ferrolock::{Client, ReadGuard, RwLock, WriteGuard};
use testkit::{LIMIT, eventually_async};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::stage::{Stage, ms};

/// Waits until nothing of the lock is left: no holder on either side, no intent of a writer, and on a server no key at all.
pub(crate) async fn nothing_left(stage: &Stage, name: &str) {
    let client = stage.client().await;
    let lock = client.rw_lock(name).prefer_writers();
    let is_free = async || {
        let is_held = lock.read_lock().is_locked().await.unwrap()
            || lock.write_lock().is_locked().await.unwrap();
        let keys = stage.server().map(|server| server.keys());
        let is_left = |key: &String| key.contains(name);
        !is_held && !keys.unwrap_or_default().iter().any(is_left)
    };
    eventually_async(LIMIT, &format!("{name} is free"), is_free).await;
    // An intent ends by itself after two seconds; one that is given up goes at once.
    let begun = Instant::now();
    let reads = async || match lock.try_read().await.unwrap() {
        Some(reader) => reader.unlock().await.is_ok(),
        None => false,
    };
    eventually_async(LIMIT, &format!("no writer waits for {name}"), reads).await;
    stage.took("no writer is said to wait", begun, ms(500));
}

/// Writes in a task of its own; the future has been polled when this returns.
pub(crate) fn writes(lock: &RwLock) -> JoinHandle<ferrolock::Result<WriteGuard>> {
    let mut writing = Box::pin(lock.write());
    let polled = testkit::poll_once(writing.as_mut());
    assert!(polled.is_pending(), "{lock:?} is free");
    tokio::spawn(writing)
}

/// As many readers as that, each of which has its hold until all have theirs.
pub(crate) fn read_together(
    client: &Client,
    name: &str,
    readers: usize,
    all: &Arc<Barrier>,
) -> Vec<JoinHandle<()>> {
    let read = |_| {
        let (reading, all) = (client.rw_lock(name).read(), all.clone());
        tokio::spawn(async move {
            let guard: ReadGuard = reading.await.unwrap();
            all.wait().await;
            guard.unlock().await.unwrap();
        })
    };
    (0..readers).map(read).collect()
}
