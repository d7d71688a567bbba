//! The launchers, on every server that is here.
#![allow(
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::time::Duration;
use testkit::{Connection, Counter, LIMIT, Reply, Server, Value, eventually, servers};

#[test]
fn a_server_answers_on_its_port_and_on_its_socket() {
    for kind in servers() {
        let server = Server::start(kind);
        let mut client = Connection::open(&testkit::Address::Tcp(server.address())).unwrap();

        assert_eq!(client.command(&["PING"]), "PONG".into());
        assert_eq!(server.command(&["PING"]), "PONG".into());
        assert_eq!(server.url(), format!("redis://127.0.0.1:{}", server.port()));
    }
}

#[test]
fn servers_run_side_by_side() {
    for kind in servers() {
        let (one, other) = (Server::start(kind), Server::start(kind));

        one.command(&["SET", "only", "here"]);

        assert_ne!(one.port(), other.port());
        assert_eq!(other.keys(), [""; 0]);
    }
}

#[test]
fn a_server_may_listen_on_a_unix_socket_only() {
    for kind in servers() {
        let server = Server::builder(kind).unix_socket().start();

        assert_eq!(server.command(&["PING"]), "PONG".into());
        assert_eq!(server.info("server")["tcp_port"], "0");
        assert_eq!(
            server.url(),
            format!("unix://{}", server.folder().join("server.sock").display())
        );
    }
}

#[test]
fn a_password_is_required_of_clients_and_not_of_the_tests() {
    for kind in servers() {
        let server = Server::builder(kind).requirepass("secret").start();
        let mut stranger = Connection::open(&testkit::Address::Tcp(server.address())).unwrap();

        let Reply::Error(refusal) = stranger.command(&["GET", "x"]) else {
            panic!("a stranger was let in");
        };
        assert!(refusal.starts_with("NOAUTH"), "{refusal}");
        assert_eq!(stranger.command(&["AUTH", "secret"]), "OK".into());
        assert_eq!(server.keys(), [""; 0]);
        assert!(server.url().starts_with("redis://:secret@127.0.0.1:"));
    }
}

#[test]
fn users_have_the_rights_they_were_given() {
    for kind in servers() {
        let server = Server::builder(kind)
            .acl("default off")
            .acl("alice on >pw ~orders* +get +set")
            .start();
        let mut alice = Connection::open(&testkit::Address::Tcp(server.address())).unwrap();

        assert_eq!(alice.command(&["AUTH", "alice", "pw"]), "OK".into());
        assert_eq!(alice.command(&["SET", "orders", "1"]), "OK".into());
        assert!(matches!(alice.command(&["DEL", "orders"]), Reply::Error(_)));
        assert!(matches!(alice.command(&["GET", "bills"]), Reply::Error(_)));
        assert_eq!(server.keys(), ["orders"]);
    }
}

#[test]
fn a_full_server_refuses_writes_and_can_still_be_inspected() {
    for kind in servers() {
        let server = Server::builder(kind).start();
        server.command(&["SET", "old", "1"]);
        server.command(&["CONFIG", "SET", "maxmemory", "1"]);

        let Reply::Error(refusal) = server.command(&["SET", "new", "1"]) else {
            panic!("a full server took a write");
        };
        assert!(refusal.starts_with("OOM"), "{refusal}");
        assert_eq!(server.dump()[0].key, "old");
    }
}

#[test]
fn settings_reach_the_server() {
    for kind in servers() {
        let server = Server::builder(kind)
            .maxmemory(50_000_000)
            .config("databases 3")
            .start();

        let settings = server.command(&["CONFIG", "GET", "maxmemory"]).texts();
        assert_eq!(settings, ["maxmemory", "50000000"]);
        let settings = server.command(&["CONFIG", "GET", "databases"]).texts();
        assert_eq!(settings, ["databases", "3"]);
        let settings = server.command(&["CONFIG", "GET", "save"]).texts();
        assert_eq!(settings, ["save", ""]);
    }
}

#[test]
#[should_panic(expected = "did not start")]
fn a_wrong_setting_fails_with_the_output_of_the_server() {
    let Some(kind) = servers().first().copied() else {
        panic!("did not start: there is none");
    };
    Server::builder(kind).config("no-such-setting 1").start();
}

#[test]
fn a_killed_server_comes_back_empty_on_its_port() {
    for kind in servers() {
        let server = Server::start(kind);
        let (port, pid) = (server.port(), server.pid());
        server.command(&["SET", "name", "value"]);

        server.kill();
        assert!(!server.is_running());
        assert!(Connection::open(&testkit::Address::Tcp(server.address())).is_err());

        server.restart();
        assert!(server.is_running());
        assert_eq!(server.keys(), [""; 0]);
        assert_eq!(server.port(), port);
        assert_ne!(server.pid(), pid);
    }
}

#[test]
fn a_stopped_server_answers_when_it_goes_on() {
    for kind in servers() {
        let server = Server::start(kind);
        let mut client = server.connect();

        server.stop_signal();
        assert_eq!(state(server.pid()), "T");
        client.send(&["PING"]).unwrap();
        server.cont_signal();

        assert_eq!(client.receive().unwrap(), "PONG".into());
    }
}

#[test]
fn nothing_is_left_of_a_dropped_server() {
    for kind in servers() {
        let server = Server::start(kind);
        let (folder, group) = (server.folder().to_owned(), server.pid());
        assert_eq!(alive_in(group), 3, "the server, the watcher and its cat");

        server.stop_signal();
        drop(server);

        assert!(!folder.exists());
        eventually(LIMIT, "the server's processes are gone", || {
            alive_in(group) == 0
        });
    }
}

#[test]
fn a_dump_shows_every_type_of_key_sorted() {
    for kind in servers() {
        let server = Server::start(kind);
        server.command(&["SET", "text", "a"]);
        server.command(&["HSET", "hash", "b", "2", "a", "1"]);
        server.command(&["PEXPIRE", "hash", "30000"]);
        server.command(&["RPUSH", "list", "x", "y"]);
        server.command(&["SADD", "set", "m"]);
        server.command(&["ZADD", "zset", "2", "late", "1", "early"]);

        let dump = server.dump();

        let seen: Vec<_> = dump.iter().map(|e| (&*e.key, &*e.kind)).collect();
        assert_eq!(
            seen,
            [
                ("hash", "hash"),
                ("list", "list"),
                ("set", "set"),
                ("text", "string"),
                ("zset", "zset")
            ]
        );
        assert_eq!(dump[0].value, Value::hash([("a", "1"), ("b", "2")]));
        assert!(dump[0].ttl.unwrap() <= Duration::from_secs(30));
        assert_eq!(dump[1].value, Value::List(vec!["x".into(), "y".into()]));
        assert_eq!(dump[2].value, Value::Set(["m".to_owned()].into()));
        assert_eq!(dump[3].value, Value::Text("a".to_owned()));
        assert_eq!(dump[3].ttl, None);
        let scores = [("early", "1"), ("late", "2")].map(|(m, s)| (m.to_owned(), s.to_owned()));
        assert_eq!(dump[4].value, Value::SortedSet(scores.into()));
    }
}

#[test]
fn a_monitor_sees_commands_in_their_order() {
    for kind in servers() {
        let server = Server::start(kind);
        let monitor = server.monitor();

        server.command(&["SET", "name", "1"]);
        server.command(&["GET", "name"]);

        let get = monitor.wait_for(|line| line.contains(r#""GET" "name""#), LIMIT);
        assert!(get.contains("[0 unix:"), "{get}");
        let lines = monitor.lines();
        assert!(lines.iter().any(|l| l.contains(r#""SET" "name" "1""#)));
        assert_eq!(lines.last(), Some(&get));
    }
}

#[test]
#[should_panic(expected = "no such command")]
fn a_monitor_that_does_not_find_a_line_shows_all_lines() {
    let Some(kind) = servers().first().copied() else {
        panic!("no such command: there is no server");
    };
    let server = Server::start(kind);

    server.monitor().wait_for(|_| false, Duration::ZERO);
}

#[test]
fn calls_are_counted_by_command() {
    for kind in servers() {
        let server = Server::start(kind);

        server.command(&["SET", "name", "1"]);
        server.command(&["SET", "name", "2"]);
        server.command(&["CLIENT", "ID"]);

        let stats = server.commandstats();
        assert_eq!(stats["set"], 2);
        assert_eq!(stats["client|id"], 1);
        assert_eq!(stats.get("get"), None);
    }
}

#[test]
fn subscribers_are_waited_for() {
    for kind in servers() {
        let server = Server::start(kind);
        let mut subscriber = server.connect();
        subscriber.send(&["SUBSCRIBE", "news"]).unwrap();

        server.wait_for_subscribers("news", 1);

        server.command(&["PUBLISH", "news", "hello"]);
        subscriber.receive().unwrap();
        assert_eq!(
            subscriber.receive().unwrap().texts(),
            ["message", "news", "hello"]
        );
    }
}

#[test]
fn a_counter_lives_in_a_key() {
    for kind in servers() {
        let server = Server::start(kind);
        let counter = Counter::key(&server, "count");

        counter.bump();
        counter.bump();

        assert_eq!(counter.read(), 2);
        assert_eq!(server.command(&["GET", "count"]), "2".into());
    }
}

/// The number of running processes in a group, without those that have ended and are only waiting to be reaped.
fn alive_in(group: u32) -> usize {
    let is_member = |pid: u32| {
        let fields = stat(pid);
        fields.get(2) == Some(&group.to_string()) && fields[0] != "Z"
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| is_member(*pid))
        .count()
}

fn state(pid: u32) -> String {
    stat(pid).swap_remove(0)
}

/// The fields of `/proc/PID/stat` from the state on; none for a process that is gone.
fn stat(pid: u32) -> Vec<String> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields = line.rsplit_once(") ").map_or("", |(_, fields)| fields);
    fields.split_whitespace().map(str::to_owned).collect()
}
