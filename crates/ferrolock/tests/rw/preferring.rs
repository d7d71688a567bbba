//! Writers that keep new readers out while they wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrolock::Client;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::stage::{Stage, ms, unique};
use crate::support::{nothing_left, writes};

stories_of_one_kind!(
    beside_readers_that_overlap_for_ever_a_writer_is_served_within_one_hold,
    a_writer_that_gives_up_lets_readers_in_at_once,
    a_writer_that_is_dropped_lets_readers_in_at_once,
);

/// How long each reader reads.
const HOLD: Duration = ms(400);

/// Eight readers in two clients, one of which begins each eighth of a hold.
fn overlap(clients: [&Client; 2], name: &str, stop: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    let read = |reader: u32| {
        let lock = clients[reader as usize % 2].rw_lock(name).prefer_writers();
        let stop = stop.clone();
        tokio::spawn(async move {
            sleep(HOLD * reader / 8).await;
            while !stop.load(Ordering::SeqCst) {
                let guard = lock.read().await.unwrap();
                sleep(HOLD).await;
                drop(guard);
            }
        })
    };
    (0..8).map(read).collect()
}

async fn beside_readers_that_overlap_for_ever_a_writer_is_served_within_one_hold(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, stop) = (&unique("shelf"), Arc::new(AtomicBool::new(false)));
    let readers = overlap([&here, &there], name, &stop);
    sleep(HOLD).await;

    for client in [&here, &there, &here] {
        let begun = Instant::now();
        let writing = client.rw_lock(name).prefer_writers().write().await.unwrap();
        stage.took("a writer is served", begun, HOLD + ms(5));
        sleep(ms(20)).await;
        drop(writing);
        sleep(HOLD).await;
    }
    stop.store(true, Ordering::SeqCst);
    for reader in readers {
        reader.await.unwrap();
    }
    nothing_left(stage, name).await;
}

async fn a_writer_that_gives_up_lets_readers_in_at_once(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let first = here.rw_lock(name).read().await.unwrap();
    let writer = tokio::spawn(here.rw_lock(name).prefer_writers().try_write_for(ms(500)));
    sleep(ms(100)).await;
    let lock = there.rw_lock(name).prefer_writers();
    assert!(lock.try_read().await.unwrap().is_none(), "a writer waits");
    let reader = tokio::spawn(lock.read());

    assert!(writer.await.unwrap().unwrap().is_none());
    let begun = Instant::now();
    let reader = reader.await.unwrap().unwrap();

    stage.took_no_time("the reader gets in", begun);
    reader.unlock().await.unwrap();
    first.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_writer_that_is_dropped_lets_readers_in_at_once(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let first = here.rw_lock(name).read().await.unwrap();
    let writer = writes(&here.rw_lock(name).prefer_writers());
    sleep(ms(100)).await;
    let lock = there.rw_lock(name).prefer_writers();
    assert!(lock.try_read().await.unwrap().is_none(), "a writer waits");
    let reader = tokio::spawn(lock.read());
    sleep(ms(100)).await;

    let begun = Instant::now();
    writer.abort();
    let reader = reader.await.unwrap().unwrap();

    stage.took_no_time("the reader gets in", begun);
    reader.unlock().await.unwrap();
    first.unlock().await.unwrap();
    nothing_left(stage, name).await;
}
