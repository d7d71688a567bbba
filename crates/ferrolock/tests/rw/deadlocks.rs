//! A write by an owner that reads would wait for itself.

use ferrolock::{ErrorKind, Owner};
use tokio::time::sleep;

use crate::stage::{Stage, ms, unique};
use crate::support::{nothing_left, writes};

stories_of_one_kind!(
    a_write_by_an_owner_that_reads_fails_at_once,
    a_write_that_waits_fails_when_its_owner_begins_to_read,
    a_read_that_waits_gets_in_when_its_owner_begins_to_write,
);

async fn a_write_by_an_owner_that_reads_fails_at_once(stage: &Stage) {
    let client = stage.client().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = client.rw_lock(name).owned_by(&owner).prefer_writers();
    let reading = lock.read().await.unwrap();

    let waited = lock.write().await.unwrap_err();
    let tried = lock.try_write().await.unwrap_err();
    let timed = lock.try_write_for(ms(50)).await.unwrap_err();
    for error in [waited, tried, timed] {
        assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    }
    let other = client
        .rw_lock(name)
        .prefer_writers()
        .try_read()
        .await
        .unwrap();
    drop(other.expect("no writer is said to wait"));
    reading.unlock().await.unwrap();
    let writing = lock.try_write().await.unwrap().unwrap();
    let _again = lock.read().await.unwrap();
    let nested = lock.write().await.unwrap();
    assert_eq!(nested.hold_count(), 2, "it writes already");
    drop((writing, nested, _again));
    nothing_left(stage, name).await;
}

async fn a_write_that_waits_fails_when_its_owner_begins_to_read(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = here.rw_lock(name).owned_by(&owner);
    let other = there.rw_lock(name).read().await.unwrap();
    let writing = writes(&lock);
    sleep(ms(50)).await;

    let reading = lock.read().await.unwrap();
    let error = writing.await.unwrap().unwrap_err();

    assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}");
    reading.unlock().await.unwrap();
    other.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn a_read_that_waits_gets_in_when_its_owner_begins_to_write(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (name, owner) = (&unique("shelf"), Owner::new());
    let lock = here.rw_lock(name).owned_by(&owner);
    let other = there.rw_lock(name).write().await.unwrap();
    let writing = writes(&lock);
    let reading = tokio::spawn(lock.read());
    sleep(ms(50)).await;

    other.unlock().await.unwrap();

    // Either may be first; if it is the read, the write would wait for its own owner.
    let reading = reading.await.unwrap().unwrap();
    match writing.await.unwrap() {
        Ok(writing) => writing.unlock().await.map(drop).unwrap(),
        Err(error) => assert_eq!(error.kind(), ErrorKind::WouldDeadlock, "{error}"),
    }
    reading.unlock().await.unwrap();
    nothing_left(stage, name).await;
}
