//! Servers that refuse: they are too old, or the user has no rights.

use std::time::Duration;

use ferrolock::{Client, Error, ErrorKind};
use testkit::{Server, StubServer, servers};

use crate::runtime;

#[track_caller]
fn assert_too_old(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.code(), Some("VERSION"), "{error}");
    let text = error.to_string();
    assert!(text.contains("6.2.14") && text.contains('7'), "{text}");
    assert!(!error.is_transient());
}

#[test]
fn a_redis_before_version_7_is_refused_at_connect_with_the_reason() {
    let old = StubServer::old();
    runtime().block_on(async {
        assert_too_old(&Client::connect(old.url()).await.unwrap_err());
    });
    assert_eq!(old.count("EVALSHA") + old.count("EVAL"), 0);
}

#[test]
fn a_lazy_client_of_an_old_redis_is_refused_at_its_first_call() {
    let old = StubServer::old();
    runtime().block_on(async {
        let client = Client::builder()
            .url(old.url())
            .command_limit(Duration::from_millis(500))
            .unreachable_after(Duration::from_secs(1))
            .connect_lazy()
            .unwrap();
        assert_too_old(&client.lock("orders").try_lock().await.unwrap_err());
        assert_too_old(&client.lock("orders").lock().await.unwrap_err());
        assert_too_old(&client.lock("orders").holders().await.unwrap_err());
        assert_too_old(&client.ping().await.unwrap_err());
    });
    assert_eq!(old.count("EVALSHA") + old.count("EVAL"), 0);
}

#[track_caller]
fn refused(error: &Error, code: &str) {
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.code(), Some(code), "{error}");
}

#[test]
fn a_user_without_the_right_to_a_key_gets_noperm_and_may_use_its_own() {
    for kind in servers() {
        let server = Server::builder(kind)
            .acl("alice on >secret ~orders ~redisson_lock__channel:{orders} &* +@all")
            .start();
        runtime().block_on(async {
            let client = Client::builder()
                .url(format!("redis://127.0.0.1:{}", server.port()))
                .username("alice")
                .password("secret")
                .connect()
                .await
                .unwrap();
            let stranger = client.lock("accounts");

            refused(&stranger.lock().await.unwrap_err(), "NOPERM");
            refused(&stranger.try_lock().await.unwrap_err(), "NOPERM");
            refused(&stranger.holders().await.unwrap_err(), "NOPERM");
            refused(&stranger.force_unlock().await.unwrap_err(), "NOPERM");
            let guard = client.lock("orders").lock().await.unwrap();
            guard.unlock().await.unwrap();
        });
        assert_eq!(server.keys(), [""; 0]);
    }
}

#[test]
fn a_refused_release_fails_at_once_and_run_still_returns_its_result() {
    for kind in servers() {
        // The release script also names the channel, as a key to which this user has no right.
        let server = Server::builder(kind)
            .acl("alice on >secret ~orders &* +@all")
            .start();
        runtime().block_on(async {
            let client = Client::builder()
                .url(format!("redis://alice:secret@127.0.0.1:{}", server.port()))
                .command_limit(Duration::from_secs(3600))
                .connect()
                .await
                .unwrap();
            let lock = client.lock("orders").lease(Duration::from_millis(300));

            let guard = lock.lock().await.unwrap();
            refused(&guard.unlock().await.unwrap_err(), "NOPERM");
            // The lock is free when the lease is over, as if the holder had died.
            assert_eq!(lock.run(async |_| 42).await.unwrap(), 42);
        });
    }
}

/// A lock whose lease cannot be set is not taken.
#[test]
fn a_user_without_the_right_to_set_a_lease_leaves_nothing_behind() {
    for kind in servers() {
        let server = Server::builder(kind)
            .acl("alice on >secret ~* &* +@all -pexpire -time")
            .acl("bob on >secret ~* &* +@all -time")
            .start();
        runtime().block_on(async {
            let client = |user: &str| {
                Client::connect(format!("redis://{user}:secret@127.0.0.1:{}", server.port()))
            };
            let alice = client("alice").await.unwrap();
            let error = alice.lock("orders").lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
            assert_eq!(server.keys(), [""; 0]);

            // Details are only for people: without the right to `TIME` none are written.
            let bob = client("bob").await.unwrap();
            let guard = bob.lock("orders").label("night run").lock().await.unwrap();
            guard.unlock().await.unwrap();
        });
        assert_eq!(server.keys(), [""; 0]);
    }
}

/// The user in docs/operations.md can do everything with its locks.
#[test]
fn the_rights_that_the_manual_lists_are_enough() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let user = manual
        .lines()
        .find_map(|line| line.strip_prefix("user "))
        .expect("a user in docs/operations.md");
    for kind in servers() {
        let server = Server::builder(kind).acl(user).start();
        runtime().block_on(async {
            let connect = || async {
                let builder = Client::builder()
                    .url(format!("redis://app:secret@127.0.0.1:{}", server.port()))
                    .name("worker");
                builder.connect().await.unwrap()
            };
            let (ours, theirs) = (connect().await, connect().await);
            ours.ping().await.unwrap();
            let lock = ours.lock("orders/42").label("night run");

            let guard = lock.lock().await.unwrap();
            let again = guard.relock().await.unwrap();
            guard.check().await.unwrap();
            assert_eq!(lock.holders().await.unwrap().len(), 1);
            let waits = tokio::spawn(theirs.lock("orders/42").lock());
            again.unlock().await.unwrap();
            guard.unlock().await.unwrap();
            let theirs_now = waits.await.unwrap().unwrap();
            assert!(lock.force_unlock().await.unwrap());
            drop(theirs_now);
            let last = lock.lock().await.unwrap();
            last.unlock_after(Duration::from_millis(1)).await.unwrap();
        });
    }
}

#[test]
fn a_user_without_the_right_to_run_scripts_gets_noperm() {
    for kind in servers() {
        let server = Server::builder(kind)
            .acl("alice on >secret ~* &* +@all -@scripting")
            .start();
        runtime().block_on(async {
            let url = format!("redis://alice:secret@127.0.0.1:{}", server.port());
            let error = match Client::connect(url).await {
                Err(error) => error,
                Ok(client) => client.lock("orders").lock().await.unwrap_err(),
            };
            refused(&error, "NOPERM");
        });
    }
}

#[test]
fn a_wrong_password_is_refused_at_connect() {
    for kind in servers() {
        let server = Server::builder(kind).requirepass("right").start();
        runtime().block_on(async {
            let at = format!("127.0.0.1:{}", server.port());
            let wrong = Client::connect(format!("redis://:wrong@{at}")).await;
            let wrong = wrong.unwrap_err();
            refused(&wrong, "WRONGPASS");
            let said = format!("WRONGPASS redis://{at} refused the user or the password");
            assert!(wrong.to_string().ends_with(&said), "{wrong}");
            let none = Client::connect(format!("redis://{at}")).await;
            let none = none.unwrap_err();
            refused(&none, "NOAUTH");
            let said = format!("NOAUTH redis://{at} wants a password: ");
            assert!(none.to_string().contains(&said), "{none}");
            let over = Client::builder()
                .url(format!("redis://:wrong@{at}"))
                .password("right")
                .connect()
                .await;
            over.unwrap().ping().await.unwrap();
        });
    }
}

#[test]
fn an_error_does_not_reveal_a_password_that_is_a_common_word() {
    for kind in servers() {
        let server = Server::builder(kind).requirepass("right").start();
        runtime().block_on(async {
            let url = |password: &str| format!("redis://:{password}@127.0.0.1:{}", server.port());
            let error_for = async |password: &str| {
                let error = Client::connect(url(password)).await.unwrap_err();
                refused(&error, "WRONGPASS");
                error.to_string()
            };

            let other = error_for("zzzzzz").await;
            for password in ["pass", "password", "user", "WRONGPASS", "r"] {
                assert_eq!(error_for(password).await, other);
            }
        });
    }
}

#[test]
fn the_error_for_a_missing_database_names_the_address() {
    for kind in servers() {
        let server = Server::builder(kind).start();
        runtime().block_on(async {
            let at = format!("redis://127.0.0.1:{}/99", server.port());
            let error = Client::connect(&at).await.unwrap_err();

            refused(&error, "ERR");
            let text = error.to_string();
            assert!(
                text.contains(&at) && text.contains("out of range"),
                "{text}"
            );
        });
    }
}

#[test]
fn a_right_that_a_script_lacks_is_noperm_and_the_error_names_the_manual() {
    for kind in servers() {
        let server = Server::builder(kind)
            .acl("alice on >secret ~* &* +@all -pexpire")
            .acl("bob on >secret ~* resetchannels &none +@all")
            .start();
        runtime().block_on(async {
            let at = |user| format!("redis://{user}:secret@127.0.0.1:{}", server.port());
            let alice = Client::connect(at("alice")).await.unwrap();
            let bob = Client::connect(at("bob")).await.unwrap();

            let pexpire = alice.lock("orders").lock().await.unwrap_err();
            let guard = bob.lock("accounts").lock().await.unwrap();
            let publish = guard.unlock().await.unwrap_err();

            for error in [pexpire, publish] {
                refused(&error, "NOPERM");
                let text = error.to_string();
                assert!(text.contains("docs/operations.md"), "{text}");
                assert!(!text.contains("user_script"), "{text}");
            }
        });
        // Only the message was refused: bob's lock is free.
        assert!(!server.keys().contains(&"accounts".to_owned()));
    }
}
