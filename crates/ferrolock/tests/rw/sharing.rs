//! Who gets in beside whom.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ferrolock::{Owner, Unlocked};
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep};

use crate::stage::{Stage, ms, unique};
use crate::support::{nothing_left, read_together, writes};

stories_of_one_kind!(
    a_writer_waits_until_the_last_reader_has_gone,
    a_writer_keeps_everybody_out,
    all_readers_that_wait_get_in_together_when_the_writer_goes,
    the_next_writer_gets_in_when_a_writer_goes,
    a_writer_may_also_read,
    a_writer_that_reads_goes_on_reading_when_it_stops_writing,
    an_owner_enters_each_side_again,
    a_dropped_reader_is_in_nobodys_way,
    each_side_shows_its_own_holders,
    a_lock_that_was_forced_open_is_lost_to_its_readers,
    readers_and_writers_at_random_never_meet,
);

async fn a_writer_waits_until_the_last_reader_has_gone(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let first = here.rw_lock(name).read().await.unwrap();
    let second = there.rw_lock(name).read().await.unwrap();

    assert!(here.rw_lock(name).try_write().await.unwrap().is_none());
    let writer = writes(&there.rw_lock(name));
    assert_eq!(first.unlock().await.unwrap(), Unlocked::Released);
    assert!(here.rw_lock(name).try_write().await.unwrap().is_none());
    let begun = Instant::now();
    second.unlock().await.unwrap();
    let writer = writer.await.unwrap().unwrap();

    stage.took_no_time("the writer gets in", begun);
    writer.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_writer_keeps_everybody_out(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let writer = here.rw_lock(name).write().await.unwrap();

    for client in [&here, &there] {
        let lock = client.rw_lock(name);
        assert!(lock.try_read().await.unwrap().is_none());
        assert!(lock.try_write().await.unwrap().is_none());
        assert!(lock.try_read_for(ms(20)).await.unwrap().is_none());
        assert!(lock.try_write_for(ms(20)).await.unwrap().is_none());
        let late = lock.max_wait(ms(20)).read().await.unwrap_err();
        assert_eq!(late.kind(), ferrolock::ErrorKind::TimedOut);
    }
    writer.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

/// Redisson wakes as many as are parked at that moment; the others sleep on.
async fn all_readers_that_wait_get_in_together_when_the_writer_goes(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let writer = here.rw_lock(name).write().await.unwrap();
    let all = Arc::new(Barrier::new(40));
    let mut readers = read_together(&here, name, 20, &all);
    readers.extend(read_together(&there, name, 20, &all));
    sleep(ms(100)).await;

    let begun = Instant::now();
    writer.unlock().await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }

    stage.took_no_time("all readers come and go", begun);
    nothing_left(stage, name).await;
}

async fn the_next_writer_gets_in_when_a_writer_goes(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let mut writing = here.rw_lock(name).write().await.unwrap();
    for client in [&there, &here, &here] {
        let next = writes(&client.rw_lock(name));
        sleep(ms(50)).await;
        let begun = Instant::now();
        drop(writing);
        writing = next.await.unwrap().unwrap();
        stage.took_no_time("the next writer gets in", begun);
    }
    writing.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_writer_may_also_read(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = here.rw_lock(name).owned_by(&owner);
    let writing = lock.write().await.unwrap();

    let reading = lock.read().await.unwrap();
    assert!(there.rw_lock(name).try_read().await.unwrap().is_none());
    assert!(here.rw_lock(name).try_read().await.unwrap().is_none());
    reading.unlock().await.unwrap();
    assert!(there.rw_lock(name).try_read().await.unwrap().is_none());
    assert!(writing.is_held());
    writing.check().await.unwrap();
    writing.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_writer_that_reads_goes_on_reading_when_it_stops_writing(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = here.rw_lock(name).owned_by(&owner);
    let writing = lock.write().await.unwrap();
    let reading = lock.read().await.unwrap();

    writing.unlock().await.unwrap();

    assert!(there.rw_lock(name).try_write().await.unwrap().is_none());
    let other = there.rw_lock(name).try_read().await.unwrap().unwrap();
    reading.check().await.unwrap();
    reading.unlock().await.unwrap();
    other.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn an_owner_enters_each_side_again(stage: &Stage) {
    let client = stage.client().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = client.rw_lock(name).owned_by(&owner);

    let reading = lock.read().await.unwrap();
    let again = lock.read().await.unwrap();
    let third = reading.relock().await.unwrap();
    assert_eq!(
        (reading.hold_count(), reading.owner_id()),
        (3, third.owner_id())
    );
    let count = lock.read_lock().hold_count(&owner).await.unwrap();
    assert_eq!(count, 3);
    assert_eq!(again.unlock().await.unwrap(), Unlocked::StillHeld(2));
    drop(reading);
    assert_eq!(third.unlock().await.unwrap(), Unlocked::Released);

    let writing = lock.write().await.unwrap();
    let again = writing.relock().await.unwrap();
    assert_eq!(lock.write_lock().hold_count(&owner).await.unwrap(), 2);
    assert_eq!(writing.unlock().await.unwrap(), Unlocked::StillHeld(1));
    again.check().await.unwrap();
    assert_eq!(again.unlock().await.unwrap(), Unlocked::Released);
    nothing_left(stage, name).await;
}

async fn a_dropped_reader_is_in_nobodys_way(stage: &Stage) {
    let client = stage.client().await;
    let name = &unique("shelf");
    for _ in 0..20 {
        drop(client.rw_lock(name).read().await.unwrap());
        let writing = client.rw_lock(name).try_write().await.unwrap();
        drop(writing.expect("the reader's release goes first"));
        let reading = client.rw_lock(name).try_read().await.unwrap();
        drop(reading.expect("the writer's release goes first"));
    }
    nothing_left(stage, name).await;
}

async fn each_side_shows_its_own_holders(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let lock = here.rw_lock(name).label("import");
    let sides = (
        there.rw_lock(name).read_lock(),
        there.rw_lock(name).write_lock(),
    );
    let reading = lock.read().await.unwrap();

    let readers = sides.0.holders().await.unwrap();
    assert_eq!(readers.len(), 1);
    assert_eq!(&readers[0].owner, reading.owner_id());
    assert_eq!(readers[0].label.as_deref(), Some("import"));
    assert!(sides.0.is_locked().await.unwrap());
    assert!(!sides.1.is_locked().await.unwrap());
    assert!(sides.1.holders().await.unwrap().is_empty());
    reading.unlock().await.unwrap();

    let writing = lock.write().await.unwrap();
    let writers = sides.1.holders().await.unwrap();
    assert_eq!(writers.len(), 1);
    assert_eq!(&writers[0].owner, writing.owner_id());
    assert_eq!(writers[0].label.as_deref(), Some("import"));
    assert!(!sides.0.is_locked().await.unwrap());
    writing.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_lock_that_was_forced_open_is_lost_to_its_readers(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let reading = here.rw_lock(name).read().await.unwrap();
    let writer = writes(&here.rw_lock(name));
    sleep(ms(50)).await;

    let begun = Instant::now();
    assert!(
        there
            .rw_lock(name)
            .read_lock()
            .force_unlock()
            .await
            .unwrap()
    );
    let writer = writer.await.unwrap().unwrap();

    stage.took_no_time("the writer gets in", begun);
    let lost = reading.check().await.unwrap_err();
    assert_eq!(lost.kind(), ferrolock::ErrorKind::Lost);
    writer.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

/// Each worker reads or writes by chance; who is inside is counted in this process.
async fn readers_and_writers_at_random_never_meet(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let inside = Arc::new(AtomicI64::new(0));
    let seed = testkit::seed("FERROLOCK_RW_SEED", || fastrand::u64(..1 << 32));
    let workers: Vec<_> = (0..8)
        .map(|worker| {
            let client = [&here, &there][worker % 2].clone();
            let lock = client.rw_lock(name);
            let lock = if worker % 3 == 0 {
                lock.prefer_writers()
            } else {
                lock
            };
            let (inside, mut random) = (
                inside.clone(),
                fastrand::Rng::with_seed(seed + worker as u64),
            );
            tokio::spawn(async move {
                for _ in 0..25 {
                    let pause = ms(random.u64(..3));
                    if random.u8(..4) == 0 {
                        let guard = lock.write().await.unwrap();
                        assert_eq!(inside.swap(-1, Ordering::SeqCst), 0, "a writer is alone");
                        sleep(pause).await;
                        assert_eq!(inside.swap(0, Ordering::SeqCst), -1);
                        drop(guard);
                    } else {
                        let guard = lock.read().await.unwrap();
                        assert!(
                            inside.fetch_add(1, Ordering::SeqCst) >= 0,
                            "no writer is inside"
                        );
                        sleep(pause).await;
                        inside.fetch_sub(1, Ordering::SeqCst);
                        guard.unlock().await.unwrap();
                    }
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    nothing_left(stage, name).await;
}
