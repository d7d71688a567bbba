//! The faults of the proxy, with a stub that counts and with real servers.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use testkit::{
    Address, Answer, Connection, LIMIT, Proxy, Reply, Server, StubServer, eventually, servers,
};

/// A server that counts up with every command but `PING`.
fn counting_stub() -> StubServer {
    let count = AtomicI64::new(0);
    StubServer::start(move |command| match command[0].as_str() {
        "PING" => Answer::Status("PONG".to_owned()),
        _ => Answer::Int(count.fetch_add(1, Ordering::SeqCst) + 1),
    })
}

fn through(proxy: &Proxy) -> Connection {
    Connection::open(&Address::Tcp(proxy.address())).unwrap()
}

/// A client of version 3 of the protocol, which can be read only as bytes.
fn client_of_version_3(proxy: &Proxy) -> TcpStream {
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    client.set_read_timeout(Some(LIMIT)).unwrap();
    client.write_all(b"HELLO 3\r\n").unwrap();
    read_until(&mut client, "modules");
    client
}

fn read_until(client: &mut TcpStream, end: &str) -> String {
    let mut seen = String::new();
    while !seen.contains(end) {
        let mut bytes = [0; 1024];
        let len = client.read(&mut bytes).expect("an answer in time");
        assert_ne!(len, 0, "closed after {seen:?}");
        seen.push_str(str::from_utf8(&bytes[..len]).unwrap());
    }
    seen
}

#[test]
fn connections_and_bytes_are_counted() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);

    assert_eq!(client.command(&["PING"]), "PONG".into());

    assert_eq!(proxy.connections(), 1);
    assert_eq!(proxy.accepted(), 1);
    assert_eq!(proxy.bytes_from_clients(), 14);
    assert_eq!(proxy.bytes_from_server(), 7);
    drop(client);
    eventually(LIMIT, "the client's end is seen", || {
        proxy.connections() == 0
    });
}

#[test]
fn a_cut_closes_every_connection_and_new_ones_work() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut clients = [through(&proxy), through(&proxy)];
    for client in &mut clients {
        client.command(&["PING"]);
    }

    proxy.cut();

    assert_eq!(proxy.connections(), 0);
    for client in &mut clients {
        assert!(client.receive().is_err());
    }
    assert_eq!(through(&proxy).command(&["PING"]), "PONG".into());
}

#[test]
fn a_cut_may_choose_by_what_was_sent() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let (mut subscriber, mut other) = (through(&proxy), through(&proxy));
    subscriber.command(&["SUBSCRIBE", "news"]);
    other.command(&["PING"]);

    let cut = proxy.cut_matching(|sent| sent.windows(9).any(|word| word == b"SUBSCRIBE"));

    assert_eq!(cut, 1);
    assert!(subscriber.receive().is_err());
    assert_eq!(other.command(&["PING"]), "PONG".into());
}

#[test]
fn new_connections_are_refused_and_old_ones_stay() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut old = through(&proxy);
    old.command(&["PING"]);

    proxy.refuse(true);
    assert!(through(&proxy).try_command(&["PING"]).is_err());
    assert_eq!(old.command(&["PING"]), "PONG".into());

    proxy.refuse(false);
    assert_eq!(through(&proxy).command(&["PING"]), "PONG".into());
}

#[test]
fn a_client_of_a_dead_server_is_closed() {
    let stub = counting_stub();
    let address = stub.address();
    drop(stub);
    let proxy = Proxy::start(address);

    assert!(through(&proxy).try_command(&["PING"]).is_err());
}

#[test]
fn a_servers_end_reaches_the_client() {
    let stub = StubServer::start(|_| Answer::Close);
    let proxy = Proxy::start(stub.address());

    assert!(through(&proxy).try_command(&["PING"]).is_err());
    eventually(LIMIT, "the connection is gone", || proxy.connections() == 0);
}

#[test]
fn silence_swallows_requests_for_good_and_keeps_the_socket() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["COUNT"]);

    proxy.silence(true);
    client.send(&["COUNT"]).unwrap();
    eventually(LIMIT, "the request is swallowed", || {
        proxy.bytes_from_clients() == 30 && proxy.bytes_held() == 0
    });
    proxy.silence(false);

    assert_eq!(client.command(&["COUNT"]), Reply::Int(2));
    assert_eq!(stub.count("COUNT"), 2);
}

#[test]
fn silence_hides_the_end_of_the_server() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["PING"]);

    proxy.silence(true);
    drop(stub);
    assert_eq!(proxy.connections(), 1);

    proxy.silence(false);
    assert!(client.receive().is_err());
}

#[test]
fn only_open_connections_may_fall_silent() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut old = through(&proxy);
    old.command(&["COUNT"]);

    proxy.silence_open();
    old.send(&["COUNT"]).unwrap();

    assert_eq!(through(&proxy).command(&["PING"]), "PONG".into());
    eventually(LIMIT, "the request is swallowed", || {
        proxy.bytes_from_clients() == 44 && proxy.bytes_held() == 0
    });
    assert_eq!(stub.count("COUNT"), 1);
}

#[test]
fn a_lost_reply_was_executed_and_closes_its_connection() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["COUNT"]);

    proxy.drop_next_reply_and_cut();

    assert!(client.try_command(&["COUNT"]).is_err());
    assert_eq!(through(&proxy).command(&["COUNT"]), Reply::Int(3));
    assert_eq!(proxy.replies_dropped(), 1);
}

#[test]
fn as_many_replies_are_lost_as_were_asked_for() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    proxy.drop_replies(2);

    assert!(through(&proxy).try_command(&["COUNT"]).is_err());
    assert!(through(&proxy).try_command(&["COUNT"]).is_err());
    assert_eq!(through(&proxy).command(&["COUNT"]), Reply::Int(3));
}

#[test]
fn the_reply_to_one_request_is_lost_and_those_before_it_arrive() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    proxy.drop_reply_to("orders");

    for words in [["COUNT", "bills"], ["COUNT", "orders"], ["COUNT", "late"]] {
        client.send(&words).unwrap();
    }

    assert_eq!(client.receive().unwrap(), Reply::Int(1));
    assert!(client.receive().is_err());
    assert_eq!(proxy.replies_dropped(), 1);
    assert!(through(&proxy).try_command(&["COUNT", "orders"]).is_ok());
}

#[test]
fn a_held_request_is_forwarded_later() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["PING"]);

    proxy.hold_requests(true);
    client.send(&["COUNT"]).unwrap();
    eventually(LIMIT, "the request is held", || proxy.bytes_held() == 15);
    assert_eq!(stub.count("COUNT"), 0);
    proxy.hold_requests(false);

    assert_eq!(client.receive().unwrap(), Reply::Int(1));
    eventually(LIMIT, "nothing is held", || proxy.bytes_held() == 0);
}

#[test]
fn a_held_request_outlives_its_client() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["PING"]);
    proxy.hold_requests(true);
    client.send(&["COUNT"]).unwrap();
    eventually(LIMIT, "the request is held", || proxy.bytes_held() == 15);

    drop(client);
    eventually(LIMIT, "the client's end is seen", || {
        proxy.connections() == 0
    });
    assert_eq!(stub.count("COUNT"), 0);
    proxy.hold_requests(false);

    eventually(LIMIT, "the late request", || stub.count("COUNT") == 1);
}

#[test]
fn a_held_request_outlives_a_cut_while_new_connections_work() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["PING"]);
    proxy.hold_open();
    client.send(&["COUNT"]).unwrap();
    eventually(LIMIT, "the request is held", || proxy.bytes_held() == 15);

    proxy.cut();
    assert!(client.receive().is_err());
    assert_eq!(through(&proxy).command(&["COUNT"]), Reply::Int(1));
    proxy.hold_requests(false);

    eventually(LIMIT, "the late request", || stub.count("COUNT") == 2);
}

#[test]
fn a_delay_holds_requests_back_and_ends_when_it_is_taken_back() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    client.command(&["PING"]);

    proxy.delay(Duration::from_secs(3600));
    client.send(&["COUNT"]).unwrap();
    eventually(LIMIT, "the request is delayed", || proxy.bytes_held() == 15);
    assert_eq!(stub.count("COUNT"), 0);
    proxy.delay(Duration::ZERO);

    assert_eq!(client.receive().unwrap(), Reply::Int(1));
}

#[test]
fn delayed_requests_and_replies_keep_their_order() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());
    let mut client = through(&proxy);
    proxy.delay(Duration::from_millis(20));

    for _ in 0..100 {
        client.send(&["COUNT"]).unwrap();
    }

    let replies: Vec<_> = (0..100).map(|_| client.receive().unwrap().int()).collect();
    assert_eq!(replies, (1..=100).collect::<Vec<_>>());
}

#[test]
fn opaque_streams_pass() {
    let stub = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(stub.local_addr().unwrap());
    let mut client = TcpStream::connect(proxy.address()).unwrap();
    let (mut server, _) = stub.accept().unwrap();

    client.write_all(b"\x16\x03*").unwrap();
    let mut seen = [0; 3];
    server.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"\x16\x03*");
    server.write_all(b"\x16$9").unwrap();
    client.read_exact(&mut seen).unwrap();
    assert_eq!(&seen, b"\x16$9");
}

#[tokio::test]
async fn the_proxy_works_while_the_tests_runtime_is_blocked_and_is_dropped_on_it() {
    let stub = counting_stub();
    let proxy = Proxy::start(stub.address());

    assert_eq!(through(&proxy).command(&["PING"]), "PONG".into());
    drop(proxy);
}

#[test]
fn messages_are_removed_and_confirmations_pass() {
    for kind in servers() {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut subscriber = client_of_version_3(&proxy);
        proxy.drop_pushes(true);

        subscriber.write_all(b"SUBSCRIBE news\r\n").unwrap();
        read_until(&mut subscriber, "subscribe\r\n$4\r\nnews\r\n:1\r\n");
        server.command(&["PUBLISH", "news", "lost"]);
        eventually(LIMIT, "the message is dropped", || {
            proxy.pushes_dropped() == 1
        });
        proxy.drop_pushes(false);
        server.command(&["PUBLISH", "news", "found"]);

        let seen = read_until(&mut subscriber, "found");
        assert!(!seen.contains("lost"), "{seen}");
    }
}

#[test]
fn a_reply_is_lost_after_the_server_did_what_was_asked() {
    for kind in servers() {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut client = through(&proxy);
        client.command(&["PING"]);
        proxy.drop_reply_to("orders");

        assert!(client.try_command(&["INCR", "orders"]).is_err());

        assert_eq!(server.command(&["GET", "orders"]), "1".into());
    }
}

#[test]
fn a_late_request_reaches_a_real_server_after_its_client_is_gone() {
    for kind in servers() {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut client = through(&proxy);
        client.command(&["PING"]);
        proxy.hold_requests(true);
        client.send(&["INCR", "orders"]).unwrap();
        eventually(LIMIT, "the request is held", || proxy.bytes_held() > 0);

        drop(client);
        assert_eq!(server.keys(), [""; 0]);
        proxy.hold_requests(false);

        eventually(LIMIT, "the late request", || server.keys() == ["orders"]);
    }
}

#[test]
fn a_restarted_server_is_reached_through_the_same_proxy() {
    for kind in servers() {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        let mut client = through(&proxy);
        client.command(&["PING"]);

        server.kill();
        assert!(client.try_command(&["PING"]).is_err());
        server.restart();

        assert_eq!(through(&proxy).command(&["PING"]), "PONG".into());
    }
}
