//! Nodes that are stopped, killed, or come back empty.

use std::time::Duration;

use ferrolock::{ErrorKind, Quorum};
use testkit::{Kind, LIMIT, Server, eventually};
use tokio::time::Instant;

on_each_server!(
    two_stopped_or_killed_nodes_of_five_cost_no_time_limit,
    three_stopped_nodes_of_five_are_a_clear_error_and_nothing_is_left,
    nodes_that_lost_their_data_do_not_make_two_holders,
    connecting_is_content_with_a_majority,
);

const NODE_LIMIT: Duration = Duration::from_millis(1000);

fn five(kind: Kind) -> Vec<Server> {
    (0..5).map(|_| Server::start(kind)).collect()
}

async fn quorum(servers: &[Server]) -> Quorum {
    let quorum = Quorum::connect(servers.iter().map(Server::url))
        .await
        .unwrap();
    let quorum = quorum.node_limit(NODE_LIMIT);
    // All are connected to.
    for client in quorum.clients() {
        client.ping().await.unwrap();
    }
    quorum
}

fn is_held(server: &Server) -> bool {
    server.keys().iter().any(|key| key == "x")
}

async fn two_stopped_or_killed_nodes_of_five_cost_no_time_limit(kind: Kind) {
    let servers = five(kind);
    let quorum = quorum(&servers).await;
    servers[0].stop_signal();
    servers[3].kill();

    for _ in 0..10 {
        let begun = Instant::now();
        let guard = quorum.lock("x").lock().await.unwrap();
        guard.unlock().await.unwrap();
        assert!(begun.elapsed() < NODE_LIMIT, "{:?}", begun.elapsed());
    }

    servers[0].cont_signal();
    for server in [0, 1, 2, 4] {
        eventually(LIMIT, "it is given back", || !is_held(&servers[server]));
    }
}

async fn three_stopped_nodes_of_five_are_a_clear_error_and_nothing_is_left(kind: Kind) {
    let servers = five(kind);
    let quorum = quorum(&servers).await;
    for server in [0, 2, 4] {
        servers[server].stop_signal();
    }

    let begun = Instant::now();
    let error = quorum.lock("x").lock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
    assert_eq!(error.nodes().len(), 3, "{error}");
    assert!(begun.elapsed() < NODE_LIMIT * 3, "{:?}", begun.elapsed());
    for server in [0, 2, 4] {
        servers[server].cont_signal();
    }
    for server in &servers {
        eventually(LIMIT, "it is given back", || !is_held(server));
    }
    quorum
        .lock("x")
        .lock()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
}

async fn nodes_that_lost_their_data_do_not_make_two_holders(kind: Kind) {
    let servers: Vec<Server> = (0..3).map(|_| Server::start(kind)).collect();
    let connect = async || quorum(&servers).await.rejoin_after(Duration::from_secs(60));
    let (us, them) = (connect().await, connect().await);
    us.initialise().await.unwrap();
    let guard = us.lock("x").lock().await.unwrap();
    for server in [0, 1] {
        servers[server].command(&["FLUSHALL"]);
    }

    // Busy, if the node that remembers answers before one that does not.
    match them.lock("x").try_lock().await {
        Ok(taken) => assert!(taken.is_none()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}"),
    }
    drop(guard);
}

async fn connecting_is_content_with_a_majority(kind: Kind) {
    let servers: Vec<Server> = (0..3).map(|_| Server::start(kind)).collect();
    servers[1].kill();
    let quorum = Quorum::connect(servers.iter().map(Server::url))
        .await
        .unwrap();
    let guard = quorum.lock("x").lock().await.unwrap();
    guard.unlock().await.unwrap();

    servers[2].kill();
    let error = Quorum::connect(servers.iter().map(Server::url))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoQuorum);
    assert_eq!(error.nodes().len(), 2, "{error}");
}
