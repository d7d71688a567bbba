//! The read-write lock, seen from both sides: who gets in beside whom, and which message wakes whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ferrolock::{Client, ErrorKind, Owner};
use testkit::java::{JavaThread, Place, now};
use testkit::{Counter, LIMIT, eventually};

use crate::scene::{Scene, assert_at_once};

stories!(
    readers_of_both_sides_share_the_lock,
    a_writer_of_one_side_waits_for_the_last_reader_of_the_other,
    all_readers_of_one_side_get_in_when_the_writer_of_the_other_goes,
    a_downgrade_of_ours_lets_readers_of_java_in,
    a_downgrade_of_java_which_is_silent_keeps_our_readers_waiting_for_a_second_at_most,
    a_reader_of_ours_is_kept_beside_a_java_reader_that_cuts_the_lease,
    neither_side_takes_the_others_dead_readers_for_living_ones,
    writers_of_both_sides_count_exactly_and_no_reader_sees_a_change,
);

/// Waits until that many clients listen for releases of the lock.
fn until_awaited(scene: &Scene, by: i64) {
    let channel = "redisson_rwlock:{orders}";
    scene.server.wait_for_subscribers(channel, by);
}

fn emptied(scene: &Scene) {
    eventually(LIMIT, "no key is left", || scene.server.keys().is_empty());
}

async fn readers_of_both_sides_share_the_lock(scene: &Scene) {
    let (rw, thread) = (scene.ours.rw_lock("orders"), scene.java.thread("a"));
    let (java_read, java_write) = (thread.read("orders"), thread.write("orders"));
    for java_goes_first in [true, false] {
        java_read.lock().unwrap();
        let reading = rw.try_read().await.unwrap().expect("readers share it");
        let other = scene.java.thread("b");
        assert_eq!(other.read("orders").try_lock(), Ok(true));
        assert_eq!(other.write("orders").try_lock(), Ok(false));
        assert!(rw.try_write().await.unwrap().is_none());
        let fields = scene.server.command(&["HLEN", "orders"]).int();
        assert_eq!(fields, 4, "the mode and three readers");
        other.read("orders").unlock().unwrap();
        if java_goes_first {
            java_read.unlock().unwrap();
            assert_eq!(java_write.try_lock(), Ok(false));
            reading.unlock().await.unwrap();
        } else {
            reading.unlock().await.unwrap();
            assert!(rw.try_write().await.unwrap().is_none());
            java_read.unlock().unwrap();
        }
        emptied(scene);
    }
}

async fn a_writer_of_one_side_waits_for_the_last_reader_of_the_other(scene: &Scene) {
    let (rw, thread) = (scene.ours.rw_lock("orders"), scene.java.thread("a"));
    let reading = rw.read().await.unwrap();
    let java_write = thread.write("orders");
    let taking = java_write.begin_lock();
    until_awaited(scene, 1);
    let left = now();
    reading.unlock().await.unwrap();
    let granted = taking.answer(LIMIT);
    granted.result.unwrap();
    assert_at_once("Java's writer gets in", left, granted.ended);
    java_write.unlock().unwrap();

    let java_read = thread.read("orders");
    java_read.lock().unwrap();
    let writing = tokio::spawn(rw.write());
    until_awaited(scene, 1);
    let left = now();
    java_read.unlock().unwrap();
    let writing = writing.await.unwrap().unwrap();
    assert_at_once("our writer gets in", left, now());
    writing.unlock().await.unwrap();
    emptied(scene);
}

async fn all_readers_of_one_side_get_in_when_the_writer_of_the_other_goes(scene: &Scene) {
    let rw = scene.ours.rw_lock("orders");
    let threads = ["a", "b", "c"].map(|name| scene.java.thread(name));
    let writing = rw.write().await.unwrap();
    let taking = threads
        .each_ref()
        .map(|thread| thread.read("orders").begin_lock());
    until_awaited(scene, 1);
    // Redisson wakes those that are parked at that moment.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let left = now();
    writing.unlock().await.unwrap();
    for reader in taking {
        let granted = reader.answer(LIMIT);
        granted.result.unwrap();
        assert_at_once("a reader of Java gets in", left, granted.ended);
    }
    threads
        .iter()
        .for_each(|thread| thread.read("orders").unlock().unwrap());

    let java_write = threads[0].write("orders");
    java_write.lock().unwrap();
    let readers: Vec<_> = (0..5).map(|_| tokio::spawn(rw.read())).collect();
    until_awaited(scene, 1);
    let left = now();
    java_write.unlock().unwrap();
    let mut held = Vec::new();
    for reader in readers {
        held.push(reader.await.unwrap().unwrap());
        assert_at_once("a reader of ours gets in", left, now());
    }
    drop(held);
    emptied(scene);
}

async fn a_downgrade_of_ours_lets_readers_of_java_in(scene: &Scene) {
    let writing = scene.ours.rw_lock("orders").write().await.unwrap();
    let java_read = scene.java.thread("a").read("orders");
    let taking = java_read.begin_lock();
    until_awaited(scene, 1);
    tokio::time::sleep(Duration::from_millis(300)).await;

    let left = now();
    let reading = writing.downgrade().await.unwrap();
    let granted = taking.answer(LIMIT);

    granted.result.unwrap();
    assert_at_once("Java's reader gets in", left, granted.ended);
    assert_eq!(scene.java.thread("b").write("orders").try_lock(), Ok(false));
    java_read.unlock().unwrap();
    reading.unlock().await.unwrap();
    emptied(scene);
}

async fn a_downgrade_of_java_which_is_silent_keeps_our_readers_waiting_for_a_second_at_most(
    scene: &Scene,
) {
    let thread = scene.java.thread("a");
    thread.write("orders").lock().unwrap();
    let reading = tokio::spawn(scene.ours.rw_lock("orders").read());
    until_awaited(scene, 1);
    thread.read("orders").lock().unwrap();

    let left = now();
    thread.write("orders").unlock().unwrap();
    let reading = reading.await.unwrap().unwrap();

    let took = now().saturating_sub(left);
    eprintln!("after a silent downgrade: {took:.1?}");
    assert!(
        took < Duration::from_secs(10),
        "promised: a second; {took:?}"
    );
    reading.unlock().await.unwrap();
    thread.read("orders").unlock().unwrap();
    emptied(scene);
}

/// A Java reader sets the lease of the whole lock to its own with each renewal: as often as ours is renewed, that is put right.
async fn a_reader_of_ours_is_kept_beside_a_java_reader_that_cuts_the_lease(scene: &Scene) {
    let lease = Duration::from_secs(3);
    let rw = scene.ours.rw_lock("orders").watchdog_lease(lease);
    let reading = rw.read().await.unwrap();
    let java_read = scene.java.thread("a").read("orders");
    java_read.lock_for(Duration::from_millis(500)).unwrap();
    scene.server.command(&["PEXPIRE", "orders", "1500"]);

    tokio::time::sleep(lease * 2).await;

    reading.check().await.unwrap();
    assert_eq!(scene.java.thread("b").write("orders").try_lock(), Ok(false));
    reading.unlock().await.unwrap();
    emptied(scene);
}

async fn neither_side_takes_the_others_dead_readers_for_living_ones(scene: &Scene) {
    let short = Duration::from_millis(400);
    let (thread, rw) = (scene.java.thread("a"), scene.ours.rw_lock("orders"));
    // Java's reader dies beside a long one of ours.
    let long = rw.read().await.unwrap();
    thread.read("orders").lock_for(short).unwrap();
    tokio::time::sleep(short * 2).await;
    long.unlock().await.unwrap();
    assert_eq!(thread.write("orders").try_lock(), Ok(true));
    thread.write("orders").unlock().unwrap();
    // Ours dies beside a long one of Java's.
    thread.read("orders").lock_for(30 * short).unwrap();
    let died = rw.clone().lease(short).read().await.unwrap();
    tokio::time::sleep(short * 2).await;
    thread.read("orders").unlock().unwrap();
    let writing = rw.try_write().await.unwrap().expect("nobody reads");
    assert_eq!(died.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    writing.unlock().await.unwrap();
    emptied(scene);
}

/// Ours writes and reads, Java writes and reads: all on one counter in a file.
async fn writers_of_both_sides_count_exactly_and_no_reader_sees_a_change(scene: &Scene) {
    let folder = testkit::store_folder();
    let file = folder.path().join("count");
    let (counter, stop) = (Counter::file(&file), Arc::new(AtomicBool::new(false)));
    let times = testkit::count(100, 1500);
    let second = Client::connect(scene.server.url()).await.unwrap();
    let clients = [&scene.ours, &second];
    let writers = ["w1", "w2"].map(|name| scene.java.thread(name));
    let begin = |thread: &JavaThread| {
        let rounds = thread.write("orders").rounds(Place::File(&file));
        rounds.times(times.into()).begin()
    };
    let loops = writers.each_ref().map(begin);
    let java_reader = {
        let (read, stop) = (scene.java.thread("r").read("orders"), stop.clone());
        let counter = counter.clone();
        tokio::task::spawn_blocking(move || {
            let mut rounds = 0;
            while !stop.load(Ordering::SeqCst) {
                read.lock().unwrap();
                let before = counter.read();
                std::thread::sleep(Duration::from_millis(1));
                assert_eq!(counter.read(), before, "a writer is inside");
                read.unlock().unwrap();
                rounds += 1;
            }
            rounds
        })
    };
    let readers: Vec<_> = (0..3)
        .map(|n| tokio::spawn(reads(clients[n % 2].clone(), counter.clone(), stop.clone())))
        .collect();
    let ours = clients.map(|client| tokio::spawn(writes(client.clone(), counter.clone(), times)));
    for writer in ours {
        writer.await.unwrap();
    }
    for each in loops {
        let looped = tokio::task::block_in_place(|| each.answer(10 * LIMIT));
        assert_eq!(looped.result.unwrap().done, u64::from(times));
    }
    stop.store(true, Ordering::SeqCst);
    assert!(java_reader.await.unwrap() > 0, "Java's reader got in");
    for reader in readers {
        assert!(reader.await.unwrap() > 0, "readers got in");
    }

    assert_eq!(
        counter.read(),
        4 * u64::from(times),
        "two were inside at a time"
    );
    emptied(scene);
}

async fn writes(client: Client, counter: Counter, times: u32) {
    let lock = client.rw_lock("orders").owned_by(&Owner::new());
    for _ in 0..times {
        let guard = lock.write().await.unwrap();
        counter.bump_async().await;
        guard.unlock().await.unwrap();
    }
}

/// How often it read; the count does not change while it reads.
async fn reads(client: Client, counter: Counter, stop: Arc<AtomicBool>) -> u64 {
    let mut rounds = 0;
    while !stop.load(Ordering::SeqCst) {
        let guard = client.rw_lock("orders").read().await.unwrap();
        let before = counter.read();
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(counter.read(), before, "a writer is inside");
        guard.unlock().await.unwrap();
        rounds += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    rounds
}
