//! Nodes that are stopped, killed, slow, or come back empty.

use std::time::Duration;

use ferrolock::{ErrorKind, Quorum};
use testkit::{Kind, LIMIT, Proxy, Server, eventually};
use tokio::time::Instant;

on_each_server!(
    two_bad_nodes_of_five_cost_no_time_limit,
    three_bad_nodes_of_five_are_a_clear_error_and_nothing_is_left,
    nodes_that_lost_their_data_do_not_make_two_holders,
    connecting_is_content_with_a_majority,
);

const NODE_LIMIT: Duration = Duration::from_millis(1000);

async fn quorum(urls: impl IntoIterator<Item = String>) -> Quorum {
    let quorum = Quorum::connect(urls).await.unwrap();
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

/// What is wrong with a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Killed,
    Stopped,
    /// Its answers come later than the limit.
    Slow,
}

use Trouble::{Killed, Slow, Stopped};

/// A server behind a proxy, which can make it slow.
struct Node {
    server: Server,
    proxy: Proxy,
}

impl Node {
    fn start(kind: Kind) -> Self {
        let server = Server::start(kind);
        let proxy = Proxy::start(server.address());
        Self { server, proxy }
    }

    fn suffers(&self, trouble: Trouble) {
        match trouble {
            Killed => self.server.kill(),
            Stopped => self.server.stop_signal(),
            Slow => self.proxy.delay(NODE_LIMIT),
        }
    }

    fn recovers(&self, trouble: Trouble) {
        match trouble {
            Killed => self.server.restart(),
            Stopped => self.server.cont_signal(),
            Slow => self.proxy.delay(Duration::ZERO),
        }
    }
}

async fn two_bad_nodes_of_five_cost_no_time_limit(kind: Kind) {
    let nodes: Vec<Node> = (0..5).map(|_| Node::start(kind)).collect();
    let pairs = [
        [Killed, Killed],
        [Stopped, Stopped],
        [Slow, Slow],
        [Stopped, Killed],
        [Slow, Stopped],
        [Killed, Slow],
    ];
    for troubles in pairs {
        let quorum = quorum(nodes.iter().map(|node| node.proxy.url())).await;
        for (node, trouble) in [0, 3].into_iter().zip(troubles) {
            nodes[node].suffers(trouble);
        }

        for _ in 0..5 {
            let begun = Instant::now();
            let guard = quorum.lock("x").lock().await.unwrap();
            guard.unlock().await.unwrap();
            assert!(
                begun.elapsed() < NODE_LIMIT,
                "{troubles:?}: {:?}",
                begun.elapsed()
            );
        }

        for (node, trouble) in [0, 3].into_iter().zip(troubles) {
            nodes[node].recovers(trouble);
        }
        for node in &nodes {
            eventually(LIMIT, "it is given back", || !is_held(&node.server));
        }
    }
}

async fn three_bad_nodes_of_five_are_a_clear_error_and_nothing_is_left(kind: Kind) {
    let nodes: Vec<Node> = (0..5).map(|_| Node::start(kind)).collect();
    for troubles in [[Stopped; 3], [Slow; 3], [Killed, Slow, Stopped]] {
        let quorum = quorum(nodes.iter().map(|node| node.proxy.url())).await;
        let bad = || [0, 2, 4].into_iter().zip(troubles);
        for (node, trouble) in bad() {
            nodes[node].suffers(trouble);
        }

        let begun = Instant::now();
        let error = quorum.lock("x").lock().await.unwrap_err();

        assert_eq!(error.kind(), ErrorKind::NoQuorum, "{error}");
        assert_eq!(error.nodes().len(), 3, "{error}");
        assert!(
            begun.elapsed() < NODE_LIMIT * 3,
            "{troubles:?}: {:?}",
            begun.elapsed()
        );
        for (node, trouble) in bad() {
            nodes[node].recovers(trouble);
        }
        for node in &nodes {
            eventually(LIMIT, "it is given back", || !is_held(&node.server));
        }
        let guard = quorum.lock("x").max_wait(LIMIT).lock().await.unwrap();
        guard.unlock().await.unwrap();
    }
}

async fn nodes_that_lost_their_data_do_not_make_two_holders(kind: Kind) {
    let servers: Vec<Server> = (0..3).map(|_| Server::start(kind)).collect();
    let connect = async || {
        quorum(servers.iter().map(Server::url))
            .await
            .rejoin_after(Duration::from_secs(60))
    };
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
