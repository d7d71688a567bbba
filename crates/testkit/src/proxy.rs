//! A TCP proxy that breaks the network on demand.
//!
//! It runs on a thread and a runtime of its own, so it goes on while the test's runtime is blocked or its
//! time is paused. Bytes are cut into frames of the servers' protocol on their way; a TLS stream passes
//! uncut, and faults that need frames (dropped replies and pushes) have no effect on it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

mod link;
mod relay;

use link::Link;
use relay::{Counts, Fates, Faults};

/// Stands between clients and one server.
///
/// Controls that take a `bool` hold for open and new connections alike until they are taken back.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    runtime: Option<Runtime>,
}

#[derive(Debug)]
struct Shared {
    target: SocketAddr,
    state: Mutex<State>,
    fates: Fates,
    counts: Counts,
}

#[derive(Debug, Default)]
struct State {
    refusing: bool,
    /// What new connections begin with.
    faults: Faults,
    links: BTreeMap<u64, Link>,
    next_id: u64,
}

impl Proxy {
    /// Listens on a port of its own for clients of `target`.
    #[track_caller]
    pub fn start(target: SocketAddr) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("proxy")
            .enable_all()
            .build()
            .expect("a runtime for the proxy");
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        listener.set_nonblocking(true).expect("a plain socket");
        let shared = Arc::new(Shared {
            target,
            state: Mutex::default(),
            fates: Fates::default(),
            counts: Counts::default(),
        });
        let accepting = Arc::clone(&shared);
        runtime.spawn(async move {
            let listener = TcpListener::from_std(listener).expect("the runtime is enabled");
            accept(listener, accepting).await;
        });
        Self {
            port,
            shared,
            runtime: Some(runtime),
        }
    }

    /// The port for clients.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address for clients.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// The URL for clients of a server without password and TLS; for others see [`Server::url_at`].
    ///
    /// [`Server::url_at`]: crate::Server::url_at
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Closes all connections now. Requests that are held stay with their server connection.
    pub fn cut(&self) {
        self.cut_matching(|_| true);
    }

    /// Closes the connections whose clients have sent something that fits, and returns how many.
    ///
    /// `fits` gets everything a client has sent so far: `SUBSCRIBE` in it marks a subscriber's connection.
    pub fn cut_matching(&self, fits: impl Fn(&[u8]) -> bool) -> usize {
        let state = self.shared.state();
        let chosen = |link: &&Link| link.is_open() && fits(&link.sent());
        let links: Vec<_> = state.links.values().filter(chosen).collect();
        links.iter().for_each(|link| link.cut());
        links.len()
    }

    /// Closes new connections as soon as they are made.
    pub fn refuse(&self, on: bool) {
        self.shared.state().refusing = on;
    }

    /// Swallows everything in both directions, ends of connections included; the sockets stay.
    pub fn silence(&self, on: bool) {
        self.everywhere(|faults| faults.silent = on);
    }

    /// As [`Proxy::silence`], but new connections work. Taken back by `silence(false)`.
    pub fn silence_open(&self) {
        self.shared.state().on_open(|faults| faults.silent = true);
    }

    /// Keeps requests back, to be forwarded later, even when their connection is closed by then.
    pub fn hold_requests(&self, on: bool) {
        self.everywhere(|faults| faults.held = on);
    }

    /// As [`Proxy::hold_requests`], but new connections work. Taken back by `hold_requests(false)`.
    pub fn hold_open(&self) {
        self.shared.state().on_open(|faults| faults.held = true);
    }

    /// Removes published messages from what the server sends; confirmations of subscriptions pass.
    pub fn drop_pushes(&self, on: bool) {
        self.everywhere(|faults| faults.drop_pushes = on);
    }

    /// Delays every piece by this time, in each direction.
    pub fn delay(&self, each_way: Duration) {
        self.everywhere(|faults| faults.delay = each_way);
    }

    /// Swallows each of the next `n` replies and closes its connection: the server has executed the command,
    /// and the client does not know.
    pub fn drop_replies(&self, n: usize) {
        self.shared.fates.doom_next(n);
    }

    /// Swallows the next reply and closes its connection.
    pub fn drop_next_reply_and_cut(&self) {
        self.drop_replies(1);
    }

    /// Swallows the reply to the next request that contains `text` and closes its connection.
    pub fn drop_reply_to(&self, text: &str) {
        self.shared.fates.doom_reply_to(text);
    }

    /// How many clients are connected.
    pub fn connections(&self) -> usize {
        let state = self.shared.state();
        state.links.values().filter(|link| link.is_open()).count()
    }

    /// How many connections were accepted so far, refused ones left out.
    pub fn accepted(&self) -> u64 {
        self.shared.state().next_id
    }

    /// Bytes that have come from clients.
    pub fn bytes_from_clients(&self) -> u64 {
        self.shared.counts.from_clients.load(Ordering::SeqCst)
    }

    /// Bytes that have come from the server.
    pub fn bytes_from_server(&self) -> u64 {
        self.shared.counts.from_server.load(Ordering::SeqCst)
    }

    /// Bytes that clients have sent and that are still here: held, delayed or on their way.
    pub fn bytes_held(&self) -> u64 {
        self.shared.counts.held.load(Ordering::SeqCst)
    }

    /// How many replies were swallowed by [`Proxy::drop_replies`] and [`Proxy::drop_reply_to`].
    pub fn replies_dropped(&self) -> u64 {
        self.shared.counts.replies_dropped.load(Ordering::SeqCst)
    }

    /// How many published messages were swallowed by [`Proxy::drop_pushes`].
    pub fn pushes_dropped(&self) -> u64 {
        self.shared.counts.pushes_dropped.load(Ordering::SeqCst)
    }

    fn everywhere(&self, change: impl Fn(&mut Faults)) {
        let mut state = self.shared.state();
        change(&mut state.faults);
        state.on_open(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // Waiting for the runtime's thread would panic when dropped on the test's runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl State {
    fn on_open(&self, change: impl Fn(&mut Faults)) {
        for link in self.links.values() {
            link.change(&change);
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        // A client that is gone before it was accepted needs nothing.
        let Ok((client, _)) = listener.accept().await else {
            continue;
        };
        if !shared.state().refusing {
            tokio::spawn(connect(client, Arc::clone(&shared)));
        }
    }
}

/// Links a client to the server; where the server refuses, the client sees its connection closed.
async fn connect(client: TcpStream, shared: Arc<Shared>) {
    let Ok(server) = TcpStream::connect(shared.target).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let mut state = shared.state();
    // Refused meanwhile: no client may get through after `refuse` has returned.
    if state.refusing {
        return;
    }
    let id = state.next_id;
    state.next_id += 1;
    let link = Link::start(id, client, server, state.faults.clone(), &shared);
    state.links.insert(id, link);
}
