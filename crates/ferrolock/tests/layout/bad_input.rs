//! Mistakes of the caller: the call fails at once with a typed error, and nothing is sent.

use std::time::Duration;

use ferrolock::{Client, ClientBuilder, Error, ErrorKind, Lock, LockName, Owner};
use testkit::Server;

use crate::{connect, on_each_server, runtime};

const LONG: Duration = Duration::MAX;

/// The commands that clients have sent for their locks so far.
///
/// Without the commands that every new connection sends: the keeper's connection is made at some time beside the first hold.
fn sent(server: &Server) -> Vec<(String, u64)> {
    let stats = server.commandstats();
    let of_locks = |name: &String| ["eval", "subscribe"].iter().any(|of| name.starts_with(of));
    stats
        .into_iter()
        .filter(|(name, _)| of_locks(name))
        .collect()
}

/// Every method of a handle, and its error.
async fn all_verbs(lock: &Lock) -> Vec<(&'static str, Option<Error>)> {
    let me = Owner::new();
    let mut verbs = acquiring_verbs(lock).await;
    verbs.extend([
        ("is_locked", lock.is_locked().await.err()),
        ("is_held_by", lock.is_held_by(&me).await.err()),
        ("hold_count", lock.hold_count(&me).await.err()),
        ("remaining", lock.remaining().await.err()),
        ("holders", lock.holders().await.err()),
        ("force_unlock", lock.force_unlock().await.err()),
    ]);
    verbs
}

/// Every method that acquires, and its error.
async fn acquiring_verbs(lock: &Lock) -> Vec<(&'static str, Option<Error>)> {
    vec![
        ("lock", lock.lock().await.err()),
        ("try_lock", lock.try_lock().await.err()),
        (
            "try_lock_for",
            lock.try_lock_for(Duration::ZERO).await.err(),
        ),
        ("run", lock.run(async |_| ()).await.err()),
    ]
}

#[track_caller]
fn assert_all_invalid(what: &str, verbs: Vec<(&'static str, Option<Error>)>) {
    for (verb, error) in verbs {
        let error = error.unwrap_or_else(|| panic!("{what}: {verb} took it"));
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {verb}: {error}");
        assert!(
            !error.is_transient() && !error.to_string().contains('\n'),
            "{error}"
        );
    }
}

#[test]
fn a_bad_name_is_invalid_for_every_verb_and_nothing_is_sent() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let prefixed = Client::builder()
            .url(server.url())
            .key_prefix("{p}")
            .connect()
            .await
            .unwrap();
        let before = sent(server);

        let long = "x".repeat(513);
        for name in [
            "", "a\nb", "a\0", "a{b", "a}b", "a{}", "}a{", "{a}", "{a}{b}", &long,
        ] {
            assert_eq!(LockName::new(name).unwrap_err().kind(), ErrorKind::Invalid);
            assert_all_invalid(name, all_verbs(&client.lock(name)).await);
        }
        assert_all_invalid("with its prefix", all_verbs(&prefixed.lock("{a}b")).await);

        assert_eq!(sent(server), before);
        assert_eq!(server.keys(), [""; 0]);
    });
}

#[test]
fn bad_leases_and_waits_are_invalid_and_nothing_is_sent() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let lock = || client.lock("orders");
        let before = sent(server);

        for bad in [Duration::ZERO, Duration::from_millis(199), LONG] {
            assert_all_invalid("lease", acquiring_verbs(&lock().lease(bad)).await);
            assert_all_invalid(
                "watchdog_lease",
                acquiring_verbs(&lock().watchdog_lease(bad)).await,
            );
        }
        for bad in [Duration::ZERO, LONG] {
            assert_all_invalid("max_hold", acquiring_verbs(&lock().max_hold(bad)).await);
        }
        assert_all_invalid("max_wait", acquiring_verbs(&lock().max_wait(LONG)).await);
        assert_all_invalid("label", acquiring_verbs(&lock().label("a\nb")).await);
        assert_all_invalid(
            "label",
            acquiring_verbs(&lock().label("x".repeat(257))).await,
        );
        let error = lock().try_lock_for(LONG).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.lock_name()),
            (ErrorKind::Invalid, Some("orders"))
        );

        assert_eq!(sent(server), before);
        assert_eq!(server.keys(), [""; 0]);
    });
}

#[test]
fn bad_times_given_to_a_guard_or_to_shutdown_are_invalid_and_change_nothing() {
    on_each_server(async |server| {
        let client = connect(server).await;
        let guard = client.lock("orders").lock().await.unwrap();
        let before = sent(server);

        for bad in [Duration::ZERO, Duration::from_millis(199), LONG] {
            let error = guard.renew(bad).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.lock_name()),
                (ErrorKind::Invalid, Some("orders"))
            );
        }
        assert_eq!(
            client.shutdown(LONG).await.unwrap_err().kind(),
            ErrorKind::Invalid
        );
        assert_eq!(sent(server), before);
        assert!(guard.is_held());
        guard.unlock().await.unwrap();

        for bad in [Duration::ZERO, LONG] {
            let guard = client.lock("orders").lock().await.unwrap();
            let error = guard.unlock_after(bad).await.unwrap_err();
            assert_eq!(
                (error.kind(), error.lock_name()),
                (ErrorKind::Invalid, Some("orders"))
            );
        }
        // The guards were dropped, and so released: the next call does not wait.
        client
            .lock("orders")
            .lock()
            .await
            .unwrap()
            .unlock()
            .await
            .unwrap();
    });
}

#[test]
fn bad_settings_are_invalid_before_anything_is_connected() {
    type Setting = fn(ClientBuilder) -> ClientBuilder;
    let settings: [(&str, Setting); 19] = [
        ("watchdog_lease 0", |b| b.watchdog_lease(Duration::ZERO)),
        ("watchdog_lease 199", |b| {
            b.watchdog_lease(Duration::from_millis(199))
        }),
        ("watchdog_lease max", |b| b.watchdog_lease(LONG)),
        ("renew_every 0", |b| b.renew_every(Duration::ZERO)),
        ("renew_every max", |b| b.renew_every(LONG)),
        ("safety_margin 0", |b| b.safety_margin(Duration::ZERO)),
        ("safety_margin max", |b| b.safety_margin(LONG)),
        ("connect_limit 0", |b| b.connect_limit(Duration::ZERO)),
        ("command_limit 0", |b| b.command_limit(Duration::ZERO)),
        ("command_limit max", |b| b.command_limit(LONG)),
        ("unreachable_after 0", |b| {
            b.unreachable_after(Duration::ZERO)
        }),
        ("drop_limit max", |b| b.drop_limit(LONG)),
        ("name", |b| b.name("a\nb")),
        ("long name", |b| b.name("x".repeat(257))),
        ("key_prefix", |b| b.key_prefix("a\nb")),
        ("key_prefix {", |b| b.key_prefix("{x")),
        ("key_prefix }", |b| b.key_prefix("x}")),
        ("two tags", |b| b.key_prefix("{a}{b}")),
        ("long key_prefix", |b| b.key_prefix("x".repeat(512))),
    ];
    on_each_server(async |server| {
        let accepted = server.info("stats")["total_connections_received"].clone();
        for (what, setting) in settings {
            let builder = setting(Client::builder().url(server.url()));
            let error = builder.clone().connect_lazy().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
            let error = builder.connect().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        }
        // Each question of this test to the server is a connection.
        let accepted: u64 = accepted.parse().unwrap();
        assert_eq!(
            server.info("stats")["total_connections_received"],
            (accepted + 1).to_string()
        );
    });
}

#[test]
fn a_client_with_a_name_that_the_server_refuses_connects_and_logs_it() {
    let log = crate::secrets::log();
    on_each_server(async |server| {
        let client = Client::builder()
            .url(server.url())
            .name("billing service, größe")
            .connect()
            .await
            .unwrap();

        let guard = client.lock("orders").lock().await.unwrap();
        let seen = client.lock("orders").holders().await.unwrap();
        assert_eq!(seen[0].label.as_deref(), Some("billing service, größe"));
        guard.unlock().await.unwrap();
        let is_logged = log.lock().unwrap().contains("`CLIENT LIST` will not show");
        assert!(is_logged);
    });
}

#[test]
fn a_bad_address_is_invalid_and_shows_no_password() {
    let urls = [
        "",
        "localhost",
        "http://hunter2@host",
        "redis:host",
        "redis://",
        "redis://:hunter2@",
        "redis://u:hun/ter2@host",
        "redis://:hunter2@host:port",
        "redis://:hunter2@host:0",
        "redis://:hunter2@host:70000",
        "redis://:hunter2@host/x",
        "redis://:hunter2@host/-1",
        "redis://:hunter2@host?pas=hunter2",
        "redis://:hunter2%zz@host",
        "redis://:hunter2@[::1",
        "redis://:hunter2@ho st",
        "unix:relative.sock?pass=hunter2",
        "unix:",
        "memory:a b",
        "memory:a\n",
        "file:",
        "file://host/x",
    ];
    runtime().block_on(async {
        for url in urls {
            let errors = [
                Client::connect(url).await.unwrap_err(),
                Client::builder().url(url).connect_lazy().unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
                assert!(!format!("{error} {error:?}").contains("ter2"), "{error}");
            }
        }
        let error = Client::builder().connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    });
}

#[test]
fn the_error_for_an_unknown_kind_of_address_lists_the_known_kinds() {
    for url in ["", "memory", "localhost", "localhost:6379", "files:/x"] {
        let text = Client::builder()
            .url(url)
            .connect_lazy()
            .unwrap_err()
            .to_string();

        for known in ["memory:", "redis://", "unix:"] {
            assert!(text.contains(known), "{url}: {text}");
        }
        assert_eq!(text.contains("rediss://"), cfg!(feature = "tls"), "{text}");
    }
}

#[test]
fn credentials_for_a_memory_space_are_invalid() {
    let memory = || Client::builder().url("memory:");

    for builder in [memory().password("secret"), memory().username("alice")] {
        let error = builder.connect_lazy().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("memory:"), "{error}");
    }
}

#[test]
fn the_error_for_a_bad_time_says_which_times_are_valid() {
    let half = Duration::from_secs(20);
    runtime().block_on(async {
        let client = Client::connect("memory:").await.unwrap();
        let guard = || client.lock("orders").lock();
        let built = |builder: ClientBuilder| builder.url("memory:").connect_lazy().unwrap_err();
        let texts = [
            (
                guard().await.unwrap().unlock_after(Duration::ZERO).await.unwrap_err(),
                "lock \"orders\": a delay of zero: use unlock",
            ),
            (
                guard().await.unwrap().renew(Duration::from_millis(1)).await.unwrap_err(),
                "lock \"orders\": a lease of 1ms is too short: the least is 200ms",
            ),
            (
                client.lock("orders").max_hold(Duration::ZERO).lock().await.unwrap_err(),
                "lock \"orders\": a max_hold of zero: leave it out for no limit",
            ),
            (
                built(Client::builder().command_limit(Duration::ZERO)),
                "a command_limit of zero: give it some time, 3s is usual",
            ),
            (
                built(Client::builder().safety_margin(half)),
                "a safety margin of 20s does not fit a lease of 30s: more than zero, at most half of the lease",
            ),
            (
                built(Client::builder().renew_every(Duration::from_secs(29))),
                "renewing every 29s does not keep a lease of 30s: more than zero, less than 28.5s; a third of the lease is usual",
            ),
            (
                built(Client::builder().key_prefix("{x")),
                "the key prefix \"{x\" has braces that do not match: a {tag} decides the cluster slot",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
        }
    });
}
