//! The clients of a stage.

use std::future::poll_fn;
use std::ops::Deref;
use std::task::Poll;
use std::time::Duration;

use ferrolock::{Client, ClientBuilder, Result};

use super::kinds::LockKind;
use super::locks::TestLock;

/// Where a party connects to, and with which kind of lock: also for other processes.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) kind: LockKind,
    /// Of each engine.
    pub(super) urls: Vec<String>,
}

impl Place {
    /// The same, of the kind that excludes this one.
    pub(crate) fn opposite(mut self) -> Self {
        self.kind = self.kind.opposite();
        self
    }
}

/// A client whose locks are of one kind; of a quorum a client on each engine, the first of which stands for all.
#[derive(Clone, Debug)]
pub(crate) struct Party {
    clients: Vec<Client>,
    kind: LockKind,
}

impl Party {
    pub(crate) async fn connect(builder: ClientBuilder, place: &Place) -> Self {
        let mut clients = Vec::new();
        for url in &place.urls {
            let builder = builder.clone().url(url);
            clients.push(builder.connect().await.unwrap());
        }
        let kind = place.kind;
        Self { clients, kind }
    }

    /// In another process: what [`Stage::address`](super::Stage::address) gave to it.
    pub(crate) async fn at(address: &str) -> Self {
        let mut words = address.split(' ');
        let place = Place {
            kind: LockKind::of_name(words.next().expect("a kind")),
            urls: words.map(str::to_owned).collect(),
        };
        Self::connect(Client::builder(), &place).await
    }

    pub(crate) fn lock(&self, name: impl AsRef<str>) -> TestLock {
        self.kind.lock(&self.clients, name.as_ref())
    }

    /// The locks of one name and one engine each that a lock of this kind is made of.
    pub(crate) fn parts_of(&self, name: &str) -> Vec<TestLock> {
        self.kind.parts_of(&self.clients, name)
    }

    pub(crate) fn kind(&self) -> LockKind {
        self.kind
    }

    /// The answer of the last one, after all have answered.
    pub(crate) async fn ping(&self) -> Result<Duration> {
        let mut took = Duration::ZERO;
        for client in &self.clients {
            took = client.ping().await?;
        }
        Ok(took)
    }

    /// All at once. The error is that of the first that has one.
    pub(crate) fn shutdown(
        &self,
        limit: Duration,
    ) -> impl Future<Output = Result<()>> + Send + use<> {
        let ends = self.clients.iter().map(|client| client.shutdown(limit));
        let mut ends: Vec<_> = ends.map(|end| (Box::pin(end), None)).collect();
        poll_fn(move |cx| {
            for (end, ended) in &mut ends {
                if ended.is_none()
                    && let Poll::Ready(result) = end.as_mut().poll(cx)
                {
                    *ended = Some(result);
                }
            }
            if ends.iter().any(|(_, ended)| ended.is_none()) {
                return Poll::Pending;
            }
            Poll::Ready(
                ends.iter_mut()
                    .filter_map(|(_, ended)| ended.take())
                    .collect(),
            )
        })
    }
}

/// Of the plain lock.
impl From<Client> for Party {
    fn from(client: Client) -> Self {
        let kind = LockKind::Plain;
        let clients = vec![client];
        Self { clients, kind }
    }
}

impl Deref for Party {
    type Target = Client;

    fn deref(&self) -> &Client {
        self.clients.first().expect("a client")
    }
}
