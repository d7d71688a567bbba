//! A key of another type under a lock's name: the error names the type, and the key is not changed.

use std::time::Duration;

use ferrolock::{Error, ErrorKind, Owner};
use testkit::Server;

use crate::{connect, on_each_server};

const OTHERS: [(&str, &[&str]); 4] = [
    ("string", &["SET", "orders", "7"]),
    ("list", &["RPUSH", "orders", "a", "b"]),
    ("set", &["SADD", "orders", "a"]),
    ("zset", &["ZADD", "orders", "1", "a"]),
];

#[track_caller]
fn check(verb: &str, kind: &str, error: Option<Error>) {
    let error = error.unwrap_or_else(|| panic!("{verb} took a {kind} for a lock"));
    assert_eq!(error.kind(), ErrorKind::Refused, "{verb}: {error}");
    assert_eq!(error.code(), Some("WRONGTYPE"), "{verb}: {error}");
    assert_eq!(error.lock_name(), Some("orders"), "{verb}: {error}");
    assert!(!error.is_transient());
    let text = error.to_string();
    assert!(text.contains(&format!("a {kind}")), "{verb}: {text}");
}

fn put(server: &Server, words: &[&str]) {
    server.command(&["DEL", "orders"]);
    server.command(words);
}

#[test]
fn every_method_of_a_handle_names_the_type_it_found_and_keeps_the_key() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let lock = client.lock("orders");
        let labelled = client.lock("orders").label("import");
        let me = Owner::new();
        for (kind, words) in OTHERS {
            put(server, words);
            let before = server.dump();

            check("lock", kind, lock.lock().await.err());
            check("lock", kind, labelled.lock().await.err());
            check("try_lock", kind, lock.try_lock().await.err());
            let wait = Duration::from_secs(20);
            check("try_lock_for", kind, lock.try_lock_for(wait).await.err());
            check("run", kind, lock.run(async |_| ()).await.err());
            check("is_locked", kind, lock.is_locked().await.err());
            check("is_held_by", kind, lock.is_held_by(&me).await.err());
            check("hold_count", kind, lock.hold_count(&me).await.err());
            check("remaining", kind, lock.remaining().await.err());
            check("holders", kind, lock.holders().await.err());
            check("force_unlock", kind, lock.force_unlock().await.err());

            assert_eq!(server.dump(), before);
        }
    });
}

#[test]
fn methods_of_a_guard_name_the_type_that_its_key_became_and_keep_the_key() {
    on_each_server(async |server| {
        let client = connect(server).await;
        for (kind, words) in OTHERS {
            server.command(&["DEL", "orders"]);
            let guard = client.lock("orders").lock().await.unwrap();
            put(server, words);
            let before = server.dump();

            check("check", kind, guard.check().await.err());
            check(
                "renew",
                kind,
                guard.renew(Duration::from_secs(60)).await.err(),
            );
            check("relock", kind, guard.relock().await.err());
            check("unlock", kind, guard.unlock().await.err());
            assert_eq!(server.dump(), before);

            server.command(&["DEL", "orders"]);
            let guard = client.lock("orders").lock().await.unwrap();
            put(server, words);
            let delay = Duration::from_secs(1);
            check("unlock_after", kind, guard.unlock_after(delay).await.err());

            server.command(&["DEL", "orders"]);
            let lock = client.lock("orders");
            let ran = lock.run(async |_| put(server, words)).await;
            check("run", kind, ran.err());
            assert_eq!(server.dump(), before);
        }
    });
}

#[test]
fn a_waiter_fails_when_the_key_becomes_another_type() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let guard = client.lock("orders").lock().await.unwrap();
        let lock = client.lock("orders");
        let waiter = tokio::spawn(async move { lock.lock().await });
        server.wait_for_subscribers("redisson_lock__channel:{orders}", 1);

        put(server, &["SET", "orders", "7"]);
        server.command(&["PUBLISH", "redisson_lock__channel:{orders}", "0"]);

        check("lock", "string", waiter.await.unwrap().err());
        drop(guard);
    });
}

/// Details are only for people: a key of another type in their place is not changed, and the lock works.
#[test]
fn a_labelled_lock_works_if_its_details_key_has_another_type() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let details = "ferrolock_holder:{orders}";
        server.command(&["SET", details, "7"]);
        let lock = client.lock("orders").label("import");

        let guard = lock.lock().await.unwrap();
        let inner = guard.relock().await.unwrap();
        inner.unlock().await.unwrap();
        guard.check().await.unwrap();
        let holders = lock.holders().await.unwrap();
        assert_eq!((holders.len(), holders[0].label.as_deref()), (1, None));
        let waiter = {
            let lock = client.lock("orders");
            tokio::spawn(async move { lock.lock().await })
        };
        server.wait_for_subscribers("redisson_lock__channel:{orders}", 1);
        guard.unlock().await.unwrap();

        waiter.await.unwrap().unwrap().unlock().await.unwrap();
        assert!(!lock.is_locked().await.unwrap());
        server.command(&["DEL", details]);
    });
}
