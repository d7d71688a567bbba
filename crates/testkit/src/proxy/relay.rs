//! Passing bytes on, or not.

use super::Shared;
use super::link::Client;
use crate::frames::{Frames, is_message_push, is_push, is_subscription};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::Instant;

/// What goes wrong on a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Faults {
    pub(super) silent: bool,
    pub(super) held: bool,
    pub(super) drop_pushes: bool,
    pub(super) delay: Duration,
}

/// How much was received and how much was swallowed, over all connections.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) from_clients: AtomicU64,
    pub(super) from_server: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) replies_dropped: AtomicU64,
    pub(super) pushes_dropped: AtomicU64,
}

/// Which replies the proxy will swallow.
#[derive(Debug, Default)]
pub(super) struct Fates {
    doomed: Mutex<Doomed>,
}

#[derive(Debug, Default)]
struct Doomed {
    any: usize,
    to: Vec<String>,
}

/// What becomes of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Pass,
    Drop,
}

/// The fates of the replies for which a connection's requests still wait, oldest first.
pub(super) type Awaited = Arc<Mutex<VecDeque<Fate>>>;

/// Why the server's side of a connection is no longer passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    ServerClosed,
    ReplyDropped,
    ClientGone,
}

/// Bytes with the moment they came.
#[derive(Debug)]
pub(super) struct Piece {
    came: Instant,
    bytes: Vec<u8>,
    /// Counts a request as held until it is passed on or lost.
    _held: Option<Held>,
}

#[derive(Debug)]
struct Held {
    len: u64,
    shared: Arc<Shared>,
}

/// Reads what a client sends until its end.
pub(super) async fn read_client(
    mut from: OwnedReadHalf,
    queue: UnboundedSender<Piece>,
    client: Arc<Client>,
    shared: Arc<Shared>,
) {
    while let Some(bytes) = read(&mut from).await {
        // Held before it is counted: so bytes that are counted and not held were already passed on or lost.
        let held = Held::new(bytes.len() as u64, &shared);
        count(&bytes, &shared.counts.from_clients);
        client.sent().extend_from_slice(&bytes);
        let _ = queue.send(Piece::now(bytes, Some(held)));
    }
    client.leave();
}

/// Reads what the server sends until its end, also when the client is gone: the server must not be blocked.
pub(super) async fn read_server(
    mut from: OwnedReadHalf,
    queue: UnboundedSender<Piece>,
    shared: Arc<Shared>,
) {
    while let Some(bytes) = read(&mut from).await {
        count(&bytes, &shared.counts.from_server);
        let _ = queue.send(Piece::now(bytes, None));
    }
}

/// From a client to the server.
pub(super) struct Requests {
    pub(super) queue: UnboundedReceiver<Piece>,
    pub(super) faults: watch::Receiver<Faults>,
    pub(super) awaited: Awaited,
    pub(super) shared: Arc<Shared>,
}

impl Requests {
    /// Passes requests on until the last one of a client that is gone.
    pub(super) async fn forward(mut self, mut to: OwnedWriteHalf) {
        let mut frames = Frames::default();
        while let Some(piece) = self.queue.recv().await {
            due(&piece, &mut self.faults).await;
            until(&mut self.faults, |faults| !faults.held).await;
            frames.push(&piece.bytes);
            while let Some(frame) = frames.take() {
                if self.pass(&frame, &mut to).await.is_err() {
                    return;
                }
            }
        }
        until(&mut self.faults, |faults| !faults.held && !faults.silent).await;
        if let Some(rest) = frames.take_rest() {
            let _ = to.write_all(&rest).await;
        }
        let _ = to.shutdown().await;
    }

    async fn pass(&self, frame: &[u8], to: &mut OwnedWriteHalf) -> io::Result<()> {
        if self.faults.borrow().silent {
            return Ok(());
        }
        if !is_subscription(frame) {
            let fate = self.shared.fates.of_reply_to(frame);
            lock(&self.awaited).push_back(fate);
        }
        to.write_all(frame).await
    }
}

/// From the server to a client.
pub(super) struct Answers {
    pub(super) queue: UnboundedReceiver<Piece>,
    pub(super) faults: watch::Receiver<Faults>,
    pub(super) awaited: Awaited,
    pub(super) shared: Arc<Shared>,
}

impl Answers {
    /// Passes replies and pushes on until one of the sides ends or a reply is to be dropped.
    pub(super) async fn forward(mut self, mut to: OwnedWriteHalf) -> Ended {
        let mut frames = Frames::default();
        while let Some(piece) = self.queue.recv().await {
            due(&piece, &mut self.faults).await;
            frames.push(&piece.bytes);
            while let Some(frame) = frames.take() {
                if let Some(ended) = self.pass(&frame, &mut to).await {
                    return ended;
                }
            }
        }
        until(&mut self.faults, |faults| !faults.silent).await;
        if let Some(rest) = frames.take_rest() {
            let _ = to.write_all(&rest).await;
        }
        Ended::ServerClosed
    }

    async fn pass(&self, frame: &[u8], to: &mut OwnedWriteHalf) -> Option<Ended> {
        if !is_push(frame) && self.fate_of_reply() == Fate::Drop {
            self.shared
                .counts
                .replies_dropped
                .fetch_add(1, Ordering::SeqCst);
            return Some(Ended::ReplyDropped);
        }
        if self.faults.borrow().drop_pushes && is_message_push(frame) {
            self.shared
                .counts
                .pushes_dropped
                .fetch_add(1, Ordering::SeqCst);
            return None;
        }
        if self.faults.borrow().silent {
            return None;
        }
        to.write_all(frame)
            .await
            .is_err()
            .then_some(Ended::ClientGone)
    }

    fn fate_of_reply(&self) -> Fate {
        match lock(&self.awaited).pop_front() {
            Some(Fate::Drop) => Fate::Drop,
            // Version 2 of the protocol confirms subscriptions with replies for which no request is known.
            Some(Fate::Pass) | None => self.shared.fates.of_next(),
        }
    }
}

impl Fates {
    pub(super) fn doom_next(&self, n: usize) {
        lock(&self.doomed).any = n;
    }

    pub(super) fn doom_reply_to(&self, text: &str) {
        lock(&self.doomed).to.push(text.to_owned());
    }

    fn of_reply_to(&self, request: &[u8]) -> Fate {
        let mut doomed = lock(&self.doomed);
        let found = doomed
            .to
            .iter()
            .position(|text| contains(request, text.as_bytes()));
        match found {
            Some(place) => {
                doomed.to.remove(place);
                Fate::Drop
            }
            None => Fate::Pass,
        }
    }

    fn of_next(&self) -> Fate {
        let mut doomed = lock(&self.doomed);
        if doomed.any == 0 {
            return Fate::Pass;
        }
        doomed.any -= 1;
        Fate::Drop
    }
}

impl Piece {
    fn now(bytes: Vec<u8>, held: Option<Held>) -> Self {
        Self {
            came: Instant::now(),
            bytes,
            _held: held,
        }
    }
}

impl Held {
    fn new(len: u64, shared: &Arc<Shared>) -> Self {
        shared.counts.held.fetch_add(len, Ordering::SeqCst);
        Self {
            len,
            shared: Arc::clone(shared),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.shared
            .counts
            .held
            .fetch_sub(self.len, Ordering::SeqCst);
    }
}

/// The next bytes; `None` at the end, however it came.
async fn read(from: &mut OwnedReadHalf) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 16 * 1024];
    match from.read(&mut bytes).await {
        Ok(0) | Err(_) => None,
        Ok(len) => {
            bytes.truncate(len);
            Some(bytes)
        }
    }
}

fn count(bytes: &[u8], counter: &AtomicU64) {
    counter.fetch_add(bytes.len() as u64, Ordering::SeqCst);
}

/// Waits until a piece has taken as long as it has to; a delay that is taken back ends at once.
async fn due(piece: &Piece, faults: &mut watch::Receiver<Faults>) {
    loop {
        let delay = faults.borrow_and_update().delay;
        if delay.is_zero() {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep_until(piece.came + delay) => return,
            changed = faults.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits for a change of the faults; for ever, if the link is being taken down.
async fn until(faults: &mut watch::Receiver<Faults>, good: impl FnMut(&Faults) -> bool) {
    if faults.wait_for(good).await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}
