//! The fair lock: what a hand-over costs the server, with few and with many that wait, beside Redisson's flow; and how many
//! scripts an acquisition takes.

use super::crowd::{self, Crowd};
use super::redisson::FairReplay;
use super::{plain_row, sizes};
use crate::lock::redisson::Acquired;
use crate::reference::{connect, one_thread};
use crate::report::{Must, Row};
use crate::seen::Scripts;
use crate::stage::Stage;
use ferrolock::kind::Fair;
use ferrolock::{Client, FairLock, Guard};
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use testkit::{Server, eventually_async};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

const ROUNDS: usize = 7;
const HAND_OVERS: usize = 15;
/// Until ten thousand callers stand in a queue, or have left it.
const LIMIT: Duration = Duration::from_secs(120);

const CLIENTS: usize = 4;
const TASKS_EACH: usize = 4;
const ACQUISITIONS_EACH: u64 = 200;

pub(crate) fn hand_over(stage: &Stage) -> Vec<Row> {
    let sizes = sizes(stage, [10, 1_000, 10_000]);
    let turns = one_thread().block_on(async {
        let server = &stage.server;
        let client = Client::connect(server.url()).await.unwrap();
        let mut crowds = Vec::new();
        for size in sizes {
            let name = format!("fair/{size}");
            let ours = Waiters::gather(&client, server, &name, size).await;
            let replay = ReplayedWaiters::gather(server, format!("{name}/replay"), size).await;
            crowds.push((ours, replay));
        }
        let steps = (stage.rounds(ROUNDS), stage.scaled(HAND_OVERS, 3));
        let turns = crowd::in_turns(server, &mut crowds, steps).await;
        drop(crowds);
        client.shutdown(LIMIT).await.unwrap();
        turns
    });
    let what = |size| {
        format!(
            "fair lock, {size} waiters: server time in the scripts of release and take, ÷ Redisson's flow"
        )
    };
    crowd::rows(stage, sizes, &turns, what, Must::AtMost(0.01))
}

/// Callers of ours that wait for a lock, and one that holds it.
struct Waiters {
    lock: FairLock,
    queue: String,
    size: usize,
    connection: MultiplexedConnection,
    holder: Option<Guard<Fair>>,
    served: UnboundedReceiver<Guard<Fair>>,
    serves: UnboundedSender<Guard<Fair>>,
    tasks: JoinSet<()>,
}

impl Waiters {
    async fn gather(client: &Client, server: &Server, name: &str, size: usize) -> Self {
        let lock = client.fair_lock(name);
        let (serves, served) = unbounded_channel();
        let mut waiters = Self {
            queue: format!("redisson_lock_queue:{{{name}}}"),
            size,
            connection: connect(server).await,
            holder: Some(lock.lock().await.unwrap()),
            lock,
            served,
            serves,
            tasks: JoinSet::new(),
        };
        for _ in 0..size {
            waiters.come();
        }
        waiters.are_there().await;
        waiters
    }

    /// One more waits.
    fn come(&mut self) {
        let (lock, serves) = (self.lock.clone(), self.serves.clone());
        self.tasks.spawn(async move {
            let guard = lock.lock().await.unwrap();
            serves.send(guard).unwrap();
        });
    }

    async fn are_there(&mut self) {
        let (size, queue, connection) = (self.size, &self.queue, &mut self.connection);
        let mut asked = redis::cmd("LLEN");
        asked.arg(queue);
        eventually_async(LIMIT, "all waiters have a place", async || {
            asked.query_async::<usize>(connection).await.unwrap() == size
        })
        .await;
    }
}

impl Crowd for Waiters {
    async fn step(&mut self, server: &Server) -> Scripts {
        let before = Scripts::so_far(server);
        self.holder.take().unwrap().unlock().await.unwrap();
        self.holder = self.served.recv().await;
        let spent = Scripts::so_far(server).since(before);
        while self.tasks.try_join_next().is_some() {}
        self.come();
        self.are_there().await;
        spent
    }
}

/// The same of Redisson's flow: its waiters sleep, so only the two that act are played.
struct ReplayedWaiters {
    name: String,
    replay: FairReplay,
    connection: MultiplexedConnection,
    /// Who holds it: the waiters behind it have the numbers that follow.
    holder: u64,
    newest: u64,
}

impl ReplayedWaiters {
    async fn gather(server: &Server, name: String, size: usize) -> Self {
        let mut connection = connect(server).await;
        let mut waiters = Self {
            replay: FairReplay::load(&mut connection).await,
            name,
            connection,
            holder: 0,
            newest: 0,
        };
        assert_eq!(waiters.attempt(0).await, Acquired::Granted);
        for _ in 0..size {
            waiters.come().await;
        }
        waiters
    }

    async fn attempt(&mut self, thread: u64) -> Acquired {
        let (replay, name) = (&self.replay, &self.name);
        replay.acquire(&mut self.connection, name, thread).await
    }

    async fn come(&mut self) {
        self.newest += 1;
        let waits = self.attempt(self.newest).await;
        assert!(matches!(waits, Acquired::Busy(_)), "it was free");
    }
}

impl Crowd for ReplayedWaiters {
    async fn step(&mut self, server: &Server) -> Scripts {
        let before = Scripts::so_far(server);
        let (replay, name) = (&self.replay, &self.name);
        replay.unlock(&mut self.connection, name, self.holder).await;
        self.holder += 1;
        assert_eq!(self.attempt(self.holder).await, Acquired::Granted);
        let spent = Scripts::so_far(server).since(before);
        self.come().await;
        spent
    }
}

pub(crate) fn scripts(stage: &Stage) -> Vec<Row> {
    let each = stage.count(ACQUISITIONS_EACH);
    let spent = one_thread().block_on(async {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            clients.push(Client::connect(stage.server.url()).await.unwrap());
        }
        let before = Scripts::so_far(&stage.server);
        let mut tasks = JoinSet::new();
        for client in clients.iter().cycle().take(CLIENTS * TASKS_EACH) {
            let lock = client.fair_lock("fair/scripts");
            tasks.spawn(async move {
                for _ in 0..each {
                    lock.lock().await.unwrap().unlock().await.unwrap();
                }
            });
        }
        tasks.join_all().await;
        Scripts::so_far(&stage.server).since(before)
    });
    let acquisitions = (CLIENTS * TASKS_EACH) as u64 * each;
    vec![plain_row(
        format!(
            "fair lock, {CLIENTS} clients with {TASKS_EACH} tasks each: scripts per acquisition and release"
        ),
        "",
        spent.calls as f64 / acquisitions as f64,
        stage.must(Must::AtMost(3.1)),
    )]
}
