//! From writing to reading, with nobody writing in between.

use std::sync::Arc;

use ferrolock::{ErrorKind, Owner};
use tokio::sync::Barrier;
use tokio::time::{Instant, sleep};

use crate::stage::{Stage, ms, unique};
use crate::support::{nothing_left, read_together, writes};

stories_of_one_kind!(
    a_downgrade_lets_readers_in_and_keeps_writers_out,
    a_hold_that_was_downgraded_is_renewed_and_released_as_a_reader,
    a_write_side_that_was_entered_twice_is_not_downgraded,
    a_write_hold_that_was_lost_is_not_downgraded,
    a_downgrade_beside_a_read_hold_of_the_same_owner_keeps_both,
);

/// Redisson's own downgrade sends no message, and readers sleep on.
async fn a_downgrade_lets_readers_in_and_keeps_writers_out(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let writing = here.rw_lock(name).write().await.unwrap();
    let all = Arc::new(Barrier::new(10));
    let mut readers = read_together(&here, name, 5, &all);
    readers.extend(read_together(&there, name, 5, &all));
    let writer = writes(&there.rw_lock(name));
    sleep(ms(100)).await;

    let begun = Instant::now();
    let reading = writing.downgrade().await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }

    stage.took_no_time("readers come and go", begun);
    assert!(!writer.is_finished());
    assert!(reading.is_held());
    reading.unlock().await.unwrap();
    writer.await.unwrap().unwrap().unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_hold_that_was_downgraded_is_renewed_and_released_as_a_reader(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, lease) = (&unique("shelf"), stage.lease());
    let lock = here.rw_lock(name).watchdog_lease(lease).label("import");
    let reading = lock.write().await.unwrap().downgrade().await.unwrap();

    sleep(lease * 2).await;

    reading.check().await.unwrap();
    assert!(there.rw_lock(name).try_write().await.unwrap().is_none());
    let readers = there.rw_lock(name).read_lock().holders().await.unwrap();
    assert_eq!(readers.len(), 1);
    assert_eq!(readers[0].label.as_deref(), Some("import"));
    drop(reading);
    nothing_left(stage, name).await;
}

async fn a_write_side_that_was_entered_twice_is_not_downgraded(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let writing = here.rw_lock(name).write().await.unwrap();
    let again = writing.relock().await.unwrap();

    let error = again.downgrade().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(name), "{error}");
    assert!(there.rw_lock(name).try_read().await.unwrap().is_none());
    // The hold that was to be downgraded goes back like a dropped one.
    let reading = writing.downgrade().await;
    match reading {
        Ok(reading) => drop(reading),
        Err(error) => assert_eq!(
            error.kind(),
            ErrorKind::Invalid,
            "its release may be under way"
        ),
    }
    nothing_left(stage, name).await;
}

async fn a_write_hold_that_was_lost_is_not_downgraded(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let writing = here.rw_lock(name).write().await.unwrap();
    assert!(
        there
            .rw_lock(name)
            .write_lock()
            .force_unlock()
            .await
            .unwrap()
    );
    let other = there.rw_lock(name).write().await.unwrap();

    let error = writing.downgrade().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
    other.check().await.unwrap();
    other.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_downgrade_beside_a_read_hold_of_the_same_owner_keeps_both(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = here.rw_lock(name).owned_by(&owner);
    let writing = lock.write().await.unwrap();
    let first = lock.read().await.unwrap();

    let second = writing.downgrade().await.unwrap();

    first.unlock().await.unwrap();
    assert!(there.rw_lock(name).try_write().await.unwrap().is_none());
    second.check().await.unwrap();
    second.unlock().await.unwrap();
    nothing_left(stage, name).await;
}
