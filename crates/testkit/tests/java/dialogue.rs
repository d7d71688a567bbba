//! Clients, threads and calls.

use super::{Stage, stage};
use testkit::java::{MS, json};
use testkit::{JavaPeer, Reply, Server, Value, servers};

#[test]
fn a_lock_belongs_to_the_thread_that_took_it() {
    let Some(java) = JavaPeer::here() else { return };
    for kind in servers() {
        let server = Server::start(kind);
        let client = java.open(&server);
        let (a, b) = (client.thread("a"), client.thread("b"));
        let (ours, theirs) = (a.lock("orders"), b.lock("orders"));

        ours.lock().unwrap();
        ours.lock().unwrap();

        let held = &server.dump()[0];
        assert_eq!(held.key, "orders");
        assert_eq!(held.value, Value::hash([(&a.owner(), "2")]));
        assert_eq!(ours.hold_count(), Ok(2));
        assert_eq!(theirs.hold_count(), Ok(0));
        assert_eq!((ours.is_held(), theirs.is_held()), (Ok(true), Ok(false)));
        assert_eq!(theirs.is_held_by(a.id()), Ok(true));
        assert_eq!(theirs.is_locked(), Ok(true));
        assert_eq!(theirs.try_lock(), Ok(false));
    }
}

#[test]
fn unlocking_the_lock_of_another_thread_throws_and_the_thread_goes_on() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let (a, b) = (client.thread("a"), client.thread("b"));
    a.lock("orders").lock().unwrap();

    let thrown = b.lock("orders").unlock().unwrap_err();

    assert_eq!(thrown.class, "java.lang.IllegalMonitorStateException");
    assert!(thrown.is("IllegalMonitorStateException"));
    let owner = format!("node id: {} thread-id: {}", client.uuid(), b.id());
    assert!(thrown.message.contains(&owner), "{thrown}");
    assert_eq!(b.lock("orders").force_unlock(), Ok(true));
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn a_lock_call_that_waits_is_answered_when_it_gets_the_lock() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let (ours, theirs) = (
        client.thread("a").lock("orders"),
        client.thread("b").lock("orders"),
    );
    ours.lock().unwrap();

    let waiting = theirs.begin_lock();
    server.wait_for_subscribers("redisson_lock__channel:{orders}", 1);
    assert!(!waiting.is_done());
    ours.unlock().unwrap();

    assert_eq!(waiting.wait(), Ok(()));
    assert_eq!(theirs.is_held(), Ok(true));
}

#[tokio::test]
async fn an_answer_can_be_awaited_on_a_runtime_with_one_thread() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let ours = client.thread("a").lock("orders");
    ours.lock().unwrap();

    let waiting = tokio::spawn(client.thread("b").lock("orders").begin_lock().done());
    let subscribed = tokio::task::spawn_blocking(move || {
        server.wait_for_subscribers("redisson_lock__channel:{orders}", 1);
        server
    });
    let _server = subscribed.await.unwrap();
    assert!(!waiting.is_finished());
    ours.unlock().unwrap();

    assert_eq!(waiting.await.unwrap(), Ok(()));
}

#[test]
fn an_asynchronous_call_has_the_owner_that_it_names() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let lock = client.thread("a").lock("orders");

    lock.call::<()>("lockAsync", json!([4711])).unwrap();

    let owner = format!("{}:4711", client.uuid());
    assert_eq!(server.dump()[0].value, Value::hash([(&owner, "1")]));
    let taken = lock.call::<bool>("tryLockAsync", json!([100, 5000, MS, 4712]));
    assert_eq!(taken, Ok(false));
    let thrown = lock.call::<()>("unlockAsync", json!([4712])).unwrap_err();
    assert!(thrown.is("IllegalMonitorStateException"), "{thrown}");
    assert_eq!(lock.call::<()>("unlockAsync", json!([4711])), Ok(()));
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn threads_of_one_name_in_two_clients_are_different_owners() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let java = JavaPeer::here().unwrap();
    let other = java.open(&server);

    client.thread("a").lock("orders").lock().unwrap();

    assert_ne!(client.uuid(), other.uuid());
    assert_eq!(other.thread("a").lock("orders").try_lock(), Ok(false));
    other.close().unwrap();
    assert_eq!(client.thread("a").lock("orders").hold_count(), Ok(1));
}

#[test]
fn a_client_has_the_settings_that_it_was_given() {
    let Some(Stage { client: _, server }) = stage() else {
        return;
    };
    let java = JavaPeer::here().unwrap();
    let named = java.client(&server.url()).server("clientName", "peer");

    let _named = named.open();
    let refused = java.client(&server.url()).config("noSuchThing", 1);
    let refused = refused.try_open().unwrap_err();

    let Reply::Text(listing) = server.command(&["CLIENT", "LIST"]) else {
        panic!("no list");
    };
    assert!(listing.contains("name=peer"), "{listing}");
    assert!(refused.is_not_in_this_version(), "{refused}");
    assert!(refused.message.contains("setNoSuchThing"), "{refused}");
}

#[test]
fn connecting_to_a_missing_server_is_an_exception() {
    let Some(java) = JavaPeer::here() else { return };
    let nowhere = java.client("redis://127.0.0.1:1");

    let thrown = nowhere.server("retryAttempts", 0).try_open().unwrap_err();

    assert!(thrown.is("RedisConnectionException"), "{thrown}");
}

#[test]
fn an_answer_that_is_not_what_was_expected_shows_the_command() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let lock = client.thread("a").lock("orders");

    let panicked = std::panic::catch_unwind(|| lock.call::<String>("isLocked", json!([])));

    let panic = panicked.unwrap_err();
    let message = panic.downcast_ref::<String>().unwrap();
    assert!(message.contains("\"method\":\"isLocked\""), "{message}");
}

#[test]
fn names_in_any_language_come_back_as_they_went() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let name = "Aufträge/заказы/注文";

    let lock = client.thread("a").lock(name);
    let returned = lock.call::<String>("getName", json!([]));

    assert_eq!(returned.as_deref(), Ok(name));
}

#[test]
fn a_waiting_call_is_interrupted_when_its_client_is_closed() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let java = JavaPeer::here().unwrap();
    let other = java.open(&server);
    client.thread("a").lock("orders").lock().unwrap();
    let waiting = other.thread("b").lock("orders");
    let waiting = waiting.begin::<()>("lockInterruptibly", json!([]));
    server.wait_for_subscribers("redisson_lock__channel:{orders}", 1);

    other.close().unwrap();

    let thrown = waiting.wait().unwrap_err();
    let text = thrown.to_string();
    assert!(text.contains("java.lang.InterruptedException"), "{text}");
}
