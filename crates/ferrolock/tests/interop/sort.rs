//! The locks that are tested alike: of each sort the one of Java and the one of ours that share their keys.

use ferrolock::{AnyLock, Client, Quorum};
use testkit::Server;
use testkit::java::{JavaClient, JavaLock};

use crate::scene::Scene;

const MEMBERS: [&str; 2] = ["accounts", "orders"];
/// So many servers a majority is of.
const NODES: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sort {
    Fenced,
    Spin,
    /// Two plain locks.
    Multi,
    /// Redisson's red lock and our quorum: a plain and a fenced lock of one name on each of three servers.
    Red,
}

impl Sort {
    pub(crate) const ALL: [Self; 4] = [Self::Fenced, Self::Spin, Self::Multi, Self::Red];

    /// Of a lock with one name.
    fn name(self) -> &'static str {
        match self {
            Self::Fenced => "ledger",
            Self::Spin => "printer",
            Self::Multi => "accounts, orders",
            Self::Red => "vault",
        }
    }

    pub(crate) fn called(name: &str) -> Self {
        let named = |sort: &Self| format!("{sort:?}") == name;
        Self::ALL.into_iter().find(named).expect("a sort")
    }

    /// Java's lock of a thread.
    pub(crate) fn javas(self, clients: &[JavaClient], thread: &str) -> JavaLock {
        let caller = clients[0].thread(thread);
        let members: Vec<JavaLock> = match self {
            Self::Fenced => return caller.fenced(self.name()),
            Self::Spin => return caller.spin(self.name()),
            Self::Multi => MEMBERS.map(|name| caller.lock(name)).into(),
            Self::Red => {
                let nodes = clients.iter();
                nodes
                    .map(|client| client.thread(thread).lock(self.name()))
                    .collect()
            }
        };
        match self {
            Self::Red => caller.red(&members),
            _ => caller.multi(&members),
        }
    }

    pub(crate) fn ours(self, clients: &[Client]) -> AnyLock {
        let client = &clients[0];
        match self {
            Self::Fenced => client.fenced_lock(self.name()).erase(),
            Self::Spin => client.spin_lock(self.name()).erase(),
            Self::Multi => {
                let [one, other] = MEMBERS.map(|name| client.lock(name));
                one.and(other).erase()
            }
            Self::Red => Quorum::new(clients.to_vec())
                .node_limit(testkit::LIMIT)
                .lock(self.name())
                .erase(),
        }
    }
}

/// The servers of one sort, with clients of both sides on each.
pub(crate) struct Ground {
    pub(crate) sort: Sort,
    pub(crate) javas: Vec<JavaClient>,
    pub(crate) ours: Vec<Client>,
    /// Of a quorum, those that the scene has not.
    more: Vec<Server>,
}

impl Ground {
    pub(crate) async fn of(scene: &Scene, sort: Sort) -> Self {
        let more = match sort {
            Sort::Red => NODES - 1,
            _ => 0,
        };
        let more: Vec<Server> = (0..more)
            .map(|_| Server::start(scene.server.kind()))
            .collect();
        let mut ground = Self {
            sort,
            javas: vec![scene.java.clone()],
            ours: vec![scene.ours.clone()],
            more,
        };
        for server in &ground.more {
            ground.javas.push(scene.peer.open(server));
            ground
                .ours
                .push(Client::connect(server.url()).await.unwrap());
        }
        ground
    }

    /// Java's lock of a thread.
    pub(crate) fn java(&self, thread: &str) -> JavaLock {
        self.sort.javas(&self.javas, thread)
    }

    /// Our lock; every call of a handle has an owner of its own.
    pub(crate) fn our_lock(&self) -> AnyLock {
        self.sort.ours(&self.ours)
    }

    /// The addresses of all servers.
    pub(crate) fn urls(&self, scene: &Scene) -> Vec<String> {
        let servers = [&scene.server].into_iter().chain(&self.more);
        servers.map(Server::url).collect()
    }

    /// How often a caller was told, on any of the servers, that a lock is held.
    pub(crate) fn refused(&self, scene: &Scene) -> u64 {
        let servers = [&scene.server].into_iter().chain(&self.more);
        servers.map(crate::scene::refusals).sum()
    }
}
