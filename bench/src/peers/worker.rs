//! A process of ours in a comparison: it carries out the same commands as `Bench` in `interop/java`.

use super::party::{Whose, figure};
use super::replay::Waiter;
use crate::lock::handover::hear;
use crate::lock::renewal::hold_all;
use crate::reference::{connect_hearing, one_thread};
use crate::rounds::now;
use ferrolock::{Client, Guard, Lock};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::process::Role;
use tokio::task::JoinSet;

/// Carries out commands until its parent is gone.
pub(crate) fn help(role: &Role) {
    let [whose, address] = role.args() else {
        panic!("whose locks, and an address");
    };
    one_thread().block_on(async {
        let mut worker = Worker::new(whose, address.parse().unwrap()).await;
        loop {
            let asked: Value = serde_json::from_str(&hear(role).await).unwrap();
            role.say(&worker.obey(&asked).await.to_string());
        }
    });
}

/// Everything that a process does which needs a lock once.
pub(crate) fn once(url: &str, name: &str) {
    one_thread().block_on(async {
        let client = Client::connect(url).await.unwrap();
        let guard = client.lock(name).lock().await.unwrap();
        guard.unlock().await.unwrap();
    });
}

struct Worker {
    address: SocketAddr,
    client: Client,
    is_replay: bool,
    taken: Option<Guard>,
    held: Vec<Guard>,
}

impl Worker {
    async fn new(whose: &str, address: SocketAddr) -> Self {
        let client = Client::connect(format!("redis://{address}")).await;
        Self {
            address,
            client: client.unwrap(),
            is_replay: whose == Whose::Replay.name(),
            taken: None,
            held: Vec::new(),
        }
    }

    async fn obey(&mut self, asked: &Value) -> Value {
        match asked["do"].as_str().unwrap() {
            "pairs" => self.pairs(asked).await,
            "contend" => self.contend(asked).await,
            "holds" => {
                let names = figure(asked, "names").try_into().unwrap();
                self.held = hold_all(&self.client, names).await;
                json!({})
            }
            "take" => {
                self.taken = Some(self.lock(asked).lock().await.unwrap());
                json!({"at_ns": now()})
            }
            "leave" => {
                let at = now();
                self.taken.take().unwrap().unlock().await.unwrap();
                json!({"at_ns": at})
            }
            other => panic!("no such command: {other}"),
        }
    }

    fn lock(&self, asked: &Value) -> Lock {
        self.client.lock(asked["object"]["name"].as_str().unwrap())
    }

    /// Each task takes and releases one of many locks at random.
    async fn pairs(&self, asked: &Value) -> Value {
        let (begun, deadline) = span(asked);
        let names = figure(asked, "names");
        let mut tasks = JoinSet::new();
        for task in 0..figure(asked, "workers") {
            let client = self.client.clone();
            let prefix = asked["prefix"].as_str().unwrap().to_owned();
            tasks.spawn(async move {
                let mut random = fastrand::Rng::with_seed(task);
                let mut took = Vec::new();
                loop {
                    let asked = now();
                    if asked >= deadline {
                        return took;
                    }
                    let name = format!("{prefix}{}", random.u64(..names));
                    let guard = client.lock(name).lock().await.unwrap();
                    guard.unlock().await.unwrap();
                    took.push(now() - asked);
                }
            });
        }
        let mut took = tasks.join_all().await.concat();
        took.sort_unstable();
        json!({
            "pairs": took.len(),
            "p50_ns": took[took.len() / 2],
            "elapsed_ns": now() - begun,
        })
    }

    /// All tasks want one lock and release it at once, or as soon as they have raised the counter.
    async fn contend(&self, asked: &Value) -> Value {
        let mut contenders = Vec::new();
        for task in 0..figure(asked, "workers") {
            contenders.push(self.contender(asked, task).await);
        }
        let (_, deadline) = span(asked);
        let mut tasks = JoinSet::new();
        for mut contender in contenders {
            tasks.spawn(async move {
                let (mut acquisitions, mut in_time) = (0, 0);
                while now() < deadline {
                    contender.visit().await;
                    acquisitions += 1;
                    in_time += u64::from(now() < deadline);
                }
                [acquisitions, in_time]
            });
        }
        let done: Vec<[u64; 2]> = tasks.join_all().await;
        let sum = |which: usize| done.iter().map(|task| task[which]).sum::<u64>();
        json!({"acquisitions": sum(0), "in_time": sum(1)})
    }

    async fn contender(&self, asked: &Value, task: u64) -> Contender {
        let name = asked["object"]["name"].as_str().unwrap();
        let counter = match asked["counter"]["key"].as_str() {
            Some(key) => Some((connect_hearing(self.address).await.0, key.to_owned())),
            None => None,
        };
        let lock = if self.is_replay {
            assert_eq!(task, 0, "a replay waits for one at a time");
            Contended::Replay(Box::new(Waiter::new(self.address, name).await))
        } else {
            Contended::Ours(self.client.lock(name))
        };
        Contender { lock, counter }
    }
}

enum Contended {
    Ours(Lock),
    Replay(Box<Waiter>),
}

/// A task that wants a lock that other tasks want too.
struct Contender {
    lock: Contended,
    /// Where to count under the lock, and over which connection.
    counter: Option<(MultiplexedConnection, String)>,
}

impl Contender {
    async fn visit(&mut self) {
        match &mut self.lock {
            Contended::Ours(lock) => {
                let guard = lock.lock().await.unwrap();
                bump(&mut self.counter).await;
                guard.unlock().await.unwrap();
            }
            Contended::Replay(waiter) => {
                waiter.lock().await;
                bump(&mut self.counter).await;
                waiter.unlock().await;
            }
        }
    }
}

/// Reads the counter and writes it one higher: that loses counts unless the lock excludes all other tasks.
async fn bump(counter: &mut Option<(MultiplexedConnection, String)>) {
    let Some((connection, key)) = counter else {
        return;
    };
    let count: Option<u64> = redis::cmd("GET")
        .arg(&*key)
        .query_async(connection)
        .await
        .unwrap();
    let more = count.unwrap_or(0) + 1;
    let set = redis::cmd("SET").arg(&*key).arg(more).to_owned();
    set.exec_async(connection).await.unwrap();
}

/// The time span that begins now and lasts as long as the command asks.
fn span(asked: &Value) -> (u64, u64) {
    let time = Duration::from_millis(figure(asked, "for_ms"));
    let begun = now();
    (begun, begun + u64::try_from(time.as_nanos()).unwrap())
}
