//! What other clients see of a lock, with and without details; key prefixes.

use std::time::Duration;

use ferrolock::{Owner, Remaining};
use testkit::{Server, Value};

use crate::stage::{Stage, TestGuard, assert_led_to, unique, waits};

stories!(
    a_free_lock_shows_nothing,
    a_holder_without_a_label_is_shown_without_details,
    a_holder_with_a_label_is_shown_with_host_process_and_time,
    the_name_of_the_client_replaces_a_missing_label,
    counts_are_those_of_the_owner_asked_about,
    a_key_prefix_stands_before_every_name,
);

async fn a_free_lock_shows_nothing(stage: &Stage) {
    let client = stage.client().await;
    let (lock, owner) = (client.lock("x"), Owner::new());

    assert!(!lock.is_locked().await.unwrap());
    assert_eq!(lock.remaining().await.unwrap(), Remaining::Free);
    assert_eq!(lock.holders().await.unwrap(), []);
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 0);
    assert!(!lock.is_held_by(&owner).await.unwrap());
}

async fn a_holder_without_a_label_is_shown_without_details(stage: &Stage) {
    let (ours, theirs) = (stage.client().await, stage.client().await);
    let guard = ours
        .lock("x")
        .lease(Duration::from_secs(20))
        .lock()
        .await
        .unwrap();

    let holders = theirs.lock("x").holders().await.unwrap();

    // A quorum lists what each of its nodes shows.
    assert_eq!(holders.len(), stage.kind().engines());
    let holder = &holders[0];
    assert_eq!(Some(&holder.owner), guard.owner_id());
    assert_eq!(holder.owner.client(), ours.id());
    assert_eq!(holder.count, 1);
    assert!(
        matches!(holder.remaining, Remaining::Left(left) if left <= Duration::from_secs(20) && left > Duration::from_secs(10)),
        "{holder:?}"
    );
    assert_eq!((&holder.host, holder.pid), (&None, None));
    assert_eq!((&holder.label, holder.held_for), (&None, None));
    if let Some(server) = stage.server() {
        assert_eq!(server.keys(), ["x"], "no details are kept");
    }
    guard.unlock().await.unwrap();
}

async fn a_holder_with_a_label_is_shown_with_host_process_and_time(stage: &Stage) {
    let theirs = stage.client().await;
    // The label takes precedence over the client's name.
    let ours = stage.connect(stage.builder().name("worker 7")).await;
    let guard = ours.lock("x").label("nightly import").lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(30)).await;

    let holder = theirs.lock("x").holders().await.unwrap().remove(0);

    assert_eq!(Some(&holder.owner), guard.owner_id());
    assert_eq!(holder.label.as_deref(), Some("nightly import"));
    assert_eq!(holder.pid, Some(std::process::id()));
    assert!(holder.host.is_some_and(|host| !host.is_empty()));
    let held_for = holder.held_for.unwrap();
    assert!(
        (Duration::from_millis(20)..Duration::from_secs(60)).contains(&held_for),
        "{held_for:?}"
    );
    if let Some(server) = stage.server() {
        assert_details_live_as_long_as_the_lock(server, &guard);
    }
    let inner = guard.relock().await.unwrap();
    let holder = theirs.lock("x").holders().await.unwrap().remove(0);
    assert_eq!(holder.count, 2);
    assert_eq!(holder.label.as_deref(), Some("nightly import"));
    inner.unlock().await.unwrap();
    if let Some(server) = stage.server() {
        assert_details_live_as_long_as_the_lock(server, &guard);
    }
    guard.unlock().await.unwrap();
    assert_eq!(theirs.lock("x").holders().await.unwrap(), []);
    stage.no_keys("details go with it").await;
}

fn assert_details_live_as_long_as_the_lock(server: &Server, guard: &TestGuard) {
    let field = guard.owner_id().unwrap().as_str();
    let dump = server.dump();
    let keys: Vec<_> = dump.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["ferrolock_holder:{x}", "x"]);
    let Value::Hash(details) = &dump[0].value else {
        panic!("no hash: {dump:?}");
    };
    assert_eq!(details.keys().collect::<Vec<_>>(), [field]);
    let (details, lock) = (dump[0].ttl.unwrap(), dump[1].ttl.unwrap());
    // The server sets both at the same moment, and reads both at the same moment.
    assert!(
        details.abs_diff(lock) <= Duration::from_millis(2),
        "{dump:?}"
    );
}

async fn the_name_of_the_client_replaces_a_missing_label(stage: &Stage) {
    let theirs = stage.client().await;
    let ours = stage.connect(stage.builder().name("worker 7")).await;
    let guard = ours.lock("x").lock().await.unwrap();

    let holder = theirs.lock("x").holders().await.unwrap().remove(0);

    assert_eq!(holder.label.as_deref(), Some("worker 7"));
    assert_eq!(holder.pid, Some(std::process::id()));
    guard.unlock().await.unwrap();
    stage.no_keys("details go with it").await;
}

async fn counts_are_those_of_the_owner_asked_about(stage: &Stage) {
    let (ours, theirs) = (stage.client().await, stage.client().await);
    let (owner, other) = (Owner::new(), Owner::new());
    let lock = ours.lock("x").owned_by(&owner);
    let guards = [lock.lock().await.unwrap(), lock.lock().await.unwrap()];

    assert_eq!(lock.hold_count(&owner).await.unwrap(), 2);
    assert!(lock.is_held_by(&owner).await.unwrap());
    assert_eq!(lock.hold_count(&other).await.unwrap(), 0);
    assert!(!lock.is_held_by(&other).await.unwrap());
    assert_eq!(theirs.lock("x").hold_count(&owner).await.unwrap(), 0);
    assert!(theirs.lock("x").is_locked().await.unwrap());

    for guard in guards {
        guard.unlock().await.unwrap();
    }
    assert_eq!(lock.hold_count(&owner).await.unwrap(), 0);
}

async fn a_key_prefix_stands_before_every_name(stage: &Stage) {
    let (plain, name) = (stage.opposite().await, unique("x"));
    let whole = format!("app:{name}");
    let ours = stage.connect(stage.builder().key_prefix("app:")).await;
    let lock = ours.lock(&name).label("import");
    assert_eq!(lock.name(), whole);

    let guard = lock.lock().await.unwrap();

    assert_eq!(guard.name(), whole);
    if let Some(server) = stage.server() {
        let details = format!("ferrolock_holder:{{{whole}}}");
        assert_eq!(server.keys(), [whole.clone(), details]);
    }
    let unrelated = plain.lock(&name).try_lock().await.unwrap().unwrap();
    let same = plain.lock(&whole);
    assert!(same.try_lock().await.unwrap().is_none());
    let waiter = waits(&plain, &whole);
    stage.rests(&plain, &whole).await;
    guard.unlock().await.unwrap();
    let next = waiter.await.unwrap();
    assert_led_to("message", &next);
    next.unlock().await.unwrap();
    unrelated.unlock().await.unwrap();
}

server_stories!(a_holder_of_another_library_is_shown_without_details);

async fn a_holder_of_another_library_is_shown_without_details(server: &Server) {
    let client = ferrolock::Client::connect(server.url()).await.unwrap();
    let lock = client.lock("x");
    let field = "8743c9c0-0795-4907-87fd-6c719a6b4586:42";
    server.command(&["HSET", "x", field, "3"]);

    let holder = lock.holders().await.unwrap().remove(0);

    assert_eq!(holder.owner.as_str(), field);
    assert_eq!((holder.owner.number(), holder.count), (42, 3));
    assert_eq!(holder.remaining, Remaining::NoExpiry);
    assert_eq!(
        (holder.host, holder.pid, holder.held_for),
        (None, None, None)
    );
    assert_eq!(lock.remaining().await.unwrap(), Remaining::NoExpiry);
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(server.keys(), Vec::<String>::new());
}
