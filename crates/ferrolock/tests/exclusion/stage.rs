//! Where a story happens: an engine, and a look at it from outside.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ferrolock::{Client, ClientBuilder, Remaining};
use testkit::{Kind, Server, Value};

/// Runs each story on every engine.
macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod memory {
            $(
                #[tokio::test(start_paused = true)]
                async fn $story() {
                    let stage = crate::stage::Stage::memory();
                    crate::stage::to_its_end(super::$story(&stage)).await;
                }
            )+
        }

        mod file {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    let stage = crate::stage::Stage::file();
                    crate::stage::to_its_end(super::$story(&stage)).await;
                }
            )+
        }

        mod redis {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(stage) = crate::stage::Stage::on(testkit::Kind::Redis) {
                        crate::stage::to_its_end(super::$story(&stage)).await;
                    }
                }
            )+
        }

        mod valkey {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(stage) = crate::stage::Stage::on(testkit::Kind::Valkey) {
                        crate::stage::to_its_end(super::$story(&stage)).await;
                    }
                }
            )+
        }
    };
}

/// Runs each story on every server.
macro_rules! server_stories {
    ($($story:ident),+ $(,)?) => {
        mod on_redis {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(stage) = crate::stage::Stage::on(testkit::Kind::Redis) {
                        crate::stage::to_its_end(super::$story(stage.server().unwrap())).await;
                    }
                }
            )+
        }

        mod on_valkey {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if let Some(stage) = crate::stage::Stage::on(testkit::Kind::Valkey) {
                        crate::stage::to_its_end(super::$story(stage.server().unwrap())).await;
                    }
                }
            )+
        }
    };
}

/// Only ends a story that would hang.
pub(crate) async fn to_its_end(story: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(120), story)
        .await
        .expect("the story comes to its end");
}

/// An engine of the story's own.
#[derive(Debug)]
pub(crate) enum Stage {
    /// In paused time; the name of the space.
    Memory(String),
    /// The directory of the store.
    File(tempfile::TempDir),
    Server(Box<Server>),
}

/// A lock as somebody outside sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Look {
    /// Fields and counts.
    pub(crate) holds: BTreeMap<String, u32>,
    pub(crate) ttl: Duration,
}

impl Stage {
    pub(crate) fn memory() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self::Memory(format!("memory:{}", NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    pub(crate) fn file() -> Self {
        Self::File(testkit::store_folder())
    }

    /// `None` if that server is not here, which has been said then.
    pub(crate) fn on(kind: Kind) -> Option<Self> {
        let here = kind.is_here();
        here.then(|| Self::Server(Box::new(Server::start(kind))))
    }

    pub(crate) fn server(&self) -> Option<&Server> {
        match self {
            Self::Memory(_) | Self::File(_) => None,
            Self::Server(server) => Some(server),
        }
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(match self {
            Self::Memory(url) => url.clone(),
            Self::File(folder) => format!("file:{}", folder.path().display()),
            Self::Server(server) => server.url(),
        })
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// Two clients, as two machines have them.
    pub(crate) async fn clients(&self) -> (Client, Client) {
        (self.client().await, self.client().await)
    }

    /// What the lock's key holds; `None`: there is none.
    pub(crate) async fn look(&self, name: &str) -> Option<Look> {
        match self {
            Self::Memory(_) | Self::File(_) => {
                let lock = self.client().await.lock(name);
                let Remaining::Left(ttl) = lock.remaining().await.unwrap() else {
                    return None;
                };
                let holders = lock.holders().await.unwrap().into_iter();
                let holds = holders.map(|holder| (holder.owner.to_string(), holder.count));
                Some(Look {
                    holds: holds.collect(),
                    ttl,
                })
            }
            Self::Server(server) => {
                let entry = server.dump().into_iter().find(|entry| entry.key == name)?;
                let Value::Hash(fields) = entry.value else {
                    panic!("no lock: {entry:?}");
                };
                let holds = fields
                    .into_iter()
                    .map(|(field, count)| (field, count.parse().unwrap()));
                Some(Look {
                    holds: holds.collect(),
                    ttl: entry.ttl.expect("a lock has an end"),
                })
            }
        }
    }

    /// The counts under the lock's key, of whomever.
    pub(crate) async fn counts(&self, name: &str) -> Vec<u32> {
        let look = self.look(name).await;
        look.map_or_else(Vec::new, |look| look.holds.into_values().collect())
    }

    pub(crate) async fn ttl(&self, name: &str) -> Duration {
        self.look(name).await.expect("it is held").ttl
    }

    /// The key goes, and not by an unlock.
    pub(crate) async fn vanish(&self, name: &str) {
        match self {
            Self::Memory(_) | Self::File(_) => {
                assert!(self.client().await.lock(name).force_unlock().await.unwrap());
            }
            Self::Server(server) => {
                assert_eq!(server.command(&["DEL", name]), testkit::Reply::Int(1));
            }
        }
    }

    /// The lease runs down by some seconds: by waiting where that costs nothing.
    pub(crate) async fn run_down(&self, name: &str, by: Duration) {
        match self {
            Self::Memory(_) | Self::File(_) => tokio::time::sleep(by).await,
            Self::Server(server) => {
                let left = self.ttl(name).await - by;
                server.command(&["PEXPIRE", name, &left.as_millis().to_string()]);
            }
        }
    }
}
