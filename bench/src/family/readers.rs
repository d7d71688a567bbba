//! What reading and ceasing to read costs the server, beside few and beside many other readers.

use super::crowd::{self, Crowd};
use super::redisson::{ReadWriteReplay, Side};
use super::sizes;
use crate::lock::redisson::Acquired;
use crate::reference::{connect, one_thread};
use crate::report::{Must, Row};
use crate::seen::Scripts;
use crate::stage::Stage;
use ferrolock::{Client, ReadGuard, RwLock};
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::time::Duration;
use testkit::Server;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

const ROUNDS: usize = 7;
const PAIRS: usize = 15;
/// How many begin to read at once.
const BEGINNING: usize = 512;
/// So long that the readers beside which is measured need no renewal.
const LEASE: Duration = Duration::from_secs(3600);

pub(crate) fn measure(stage: &Stage) -> Vec<Row> {
    let sizes = sizes(stage, [1, 1_000, 10_000]);
    let turns = one_thread().block_on(async {
        let server = &stage.server;
        let client = Client::connect(server.url()).await.unwrap();
        let mut crowds = Vec::new();
        for size in sizes {
            let name = format!("readers/{size}");
            let ours = Readers::gather(client.rw_lock(&name), size).await;
            let replay = ReplayedReaders::gather(server, format!("{name}/replay"), size).await;
            crowds.push((ours, replay));
        }
        let steps = (stage.rounds(ROUNDS), stage.scaled(PAIRS, 3));
        crowd::in_turns(server, &mut crowds, steps).await
    });
    let what = |size| {
        format!(
            "read-write lock, beside {size} readers: server time in the scripts of read and release, ÷ Redisson's flow"
        )
    };
    crowd::rows(stage, sizes, &turns, what, Must::Stated)
}

/// Readers of ours.
struct Readers {
    lock: RwLock,
    _reading: Vec<ReadGuard>,
}

impl Readers {
    async fn gather(lock: RwLock, size: usize) -> Self {
        let lock = lock.watchdog_lease(LEASE);
        let at_once = Arc::new(Semaphore::new(BEGINNING));
        let mut tasks = JoinSet::new();
        for _ in 0..size {
            let (lock, at_once) = (lock.clone(), at_once.clone());
            tasks.spawn(async move {
                let _turn = at_once.acquire().await.unwrap();
                lock.read().await.unwrap()
            });
        }
        let reading = tasks.join_all().await;
        Self {
            lock,
            _reading: reading,
        }
    }
}

impl Crowd for Readers {
    async fn step(&mut self, server: &Server) -> Scripts {
        let before = Scripts::so_far(server);
        self.lock.read().await.unwrap().unlock().await.unwrap();
        Scripts::so_far(server).since(before)
    }
}

/// The same of Redisson's flow.
struct ReplayedReaders {
    name: String,
    replay: ReadWriteReplay,
    connection: MultiplexedConnection,
    /// The number of a thread that has not read yet.
    next: u64,
}

impl ReplayedReaders {
    async fn gather(server: &Server, name: String, size: usize) -> Self {
        let mut connection = connect(server).await;
        let mut readers = Self {
            replay: ReadWriteReplay::load(&mut connection).await,
            name,
            connection,
            next: 0,
        };
        for _ in 0..size {
            readers.read().await;
        }
        readers
    }

    async fn read(&mut self) -> u64 {
        let (replay, name, thread) = (&self.replay, &self.name, self.next);
        let read = replay.acquire(&mut self.connection, name, thread, Side::Read);
        assert_eq!(read.await, Acquired::Granted);
        self.next += 1;
        thread
    }
}

impl Crowd for ReplayedReaders {
    async fn step(&mut self, server: &Server) -> Scripts {
        let before = Scripts::so_far(server);
        let thread = self.read().await;
        let (replay, name, request) = (&self.replay, &self.name, thread.into());
        let connection = &mut self.connection;
        replay
            .unlock(connection, name, thread, Side::Read, request)
            .await;
        Scripts::so_far(server).since(before)
    }
}
