//! Leases of both sides: renewed, lost, left for a while.

use ferrolock::{ErrorKind, LostReason};
use tokio::time::sleep;

use crate::stage::{Stage, ms, unique};
use crate::support::nothing_left;

stories_of_one_kind!(
    both_sides_are_renewed,
    a_fixed_lease_of_either_side_ends,
    a_reader_whose_lease_ended_is_not_in_a_writers_way_beside_one_that_ended_earlier,
    unlock_after_leaves_either_side_taken_for_a_while,
);

async fn both_sides_are_renewed(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (read, write, lease) = (&unique("shelf"), &unique("shelf"), stage.lease());
    let reading = here
        .rw_lock(read)
        .watchdog_lease(lease)
        .read()
        .await
        .unwrap();
    let writing = here
        .rw_lock(write)
        .watchdog_lease(lease)
        .write()
        .await
        .unwrap();

    sleep(lease * 2).await;

    assert!(reading.is_held() && writing.is_held());
    assert!(there.rw_lock(read).try_write().await.unwrap().is_none());
    assert!(there.rw_lock(write).try_read().await.unwrap().is_none());
    reading.unlock().await.unwrap();
    writing.unlock().await.unwrap();
    nothing_left(stage, read).await;
    nothing_left(stage, write).await;
}

async fn a_fixed_lease_of_either_side_ends(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (read, write) = (&unique("shelf"), &unique("shelf"));
    let reading = here.rw_lock(read).lease(ms(400)).read().await.unwrap();
    let writing = here.rw_lock(write).lease(ms(400)).write().await.unwrap();

    assert_eq!(reading.lost().await, LostReason::Expired);
    assert_eq!(writing.lost().await, LostReason::Expired);
    let next = there.rw_lock(read).write().await.unwrap();
    let other = there.rw_lock(write).read().await.unwrap();

    for lost in [reading.unlock().await, writing.unlock().await] {
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::Lost);
    }
    next.check().await.unwrap();
    other.check().await.unwrap();
    drop((next, other));
    nothing_left(stage, read).await;
    nothing_left(stage, write).await;
}

async fn a_reader_whose_lease_ended_is_not_in_a_writers_way_beside_one_that_ended_earlier(
    stage: &Stage,
) {
    let (here, there) = stage.clients().await;
    let name = &unique("shelf");
    let long = here
        .rw_lock(name)
        .lease(stage.lease() * 4)
        .read()
        .await
        .unwrap();
    let short = there.rw_lock(name).lease(ms(400)).read().await.unwrap();
    let writer = tokio::spawn(there.rw_lock(name).write());
    short.lost().await;
    sleep(ms(100)).await;

    assert!(!writer.is_finished());
    long.unlock().await.unwrap();
    let writer = writer.await.unwrap().unwrap();

    assert_eq!(short.unlock().await.unwrap_err().kind(), ErrorKind::Lost);
    writer.check().await.unwrap();
    writer.unlock().await.unwrap();
    nothing_left(stage, name).await;
}

async fn unlock_after_leaves_either_side_taken_for_a_while(stage: &Stage) {
    let (here, there) = stage.clients().await;
    let (read, write) = (&unique("shelf"), &unique("shelf"));
    let reading = here.rw_lock(read).read().await.unwrap();
    reading.unlock_after(ms(900)).await.unwrap();
    let writing = here.rw_lock(write).write().await.unwrap();
    writing.unlock_after(ms(900)).await.unwrap();

    assert!(there.rw_lock(read).try_write().await.unwrap().is_none());
    assert!(there.rw_lock(write).try_read().await.unwrap().is_none());
    let also = there.rw_lock(read).try_read().await.unwrap();
    drop(also.expect("readers share it"));
    there
        .rw_lock(read)
        .write()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    there
        .rw_lock(write)
        .read()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    nothing_left(stage, read).await;
    nothing_left(stage, write).await;
}
