//! One client's connection through the proxy.
//!
//! Four tasks: one reads and one writes on each side, with a queue between them. So a request can wait here
//! while its client is already gone, and a delayed piece does not delay the next one more.

use super::Shared;
use super::relay::{self, Answers, Awaited, Faults, Requests};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(super) struct Link {
    faults: watch::Sender<Faults>,
    client: Arc<Client>,
    /// The tasks that own the two halves of the client's socket: without them it is closed.
    client_tasks: [AbortHandle; 2],
    server_tasks: [AbortHandle; 2],
}

/// What is known of a link's client.
#[derive(Debug, Default)]
pub(super) struct Client {
    gone: AtomicBool,
    sent: Mutex<Vec<u8>>,
}

impl Link {
    /// Starts to pass bytes on; called with the proxy's state locked, so that the tasks find the link there.
    pub(super) fn start(
        id: u64,
        client: TcpStream,
        server: TcpStream,
        faults: Faults,
        shared: &Arc<Shared>,
    ) -> Self {
        let (faults, watched) = watch::channel(faults);
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let (requests, requests_queue) = mpsc::unbounded_channel();
        let (answers, answers_queue) = mpsc::unbounded_channel();
        let known = Arc::new(Client::default());
        let awaited = Awaited::default();

        let read_client = tokio::spawn(relay::read_client(
            from_client,
            requests,
            Arc::clone(&known),
            Arc::clone(shared),
        ));
        let write_server = tokio::spawn(
            Requests {
                queue: requests_queue,
                faults: watched.clone(),
                awaited: Arc::clone(&awaited),
                shared: Arc::clone(shared),
            }
            .forward(to_server),
        );
        let read_server =
            tokio::spawn(relay::read_server(from_server, answers, Arc::clone(shared)));
        let answers = Answers {
            queue: answers_queue,
            faults: watched,
            awaited,
            shared: Arc::clone(shared),
        };
        let write_client = tokio::spawn({
            let shared = Arc::clone(shared);
            async move {
                let ended = answers.forward(to_client).await;
                shared.answers_ended(id, ended);
            }
        });

        let link = Self {
            faults,
            client: known,
            client_tasks: [read_client.abort_handle(), write_client.abort_handle()],
            server_tasks: [write_server.abort_handle(), read_server.abort_handle()],
        };
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            let _ = tokio::join!(write_server, read_server, write_client);
            shared.state().links.remove(&id);
        });
        link
    }

    pub(super) fn is_open(&self) -> bool {
        !self.client.gone.load(Ordering::SeqCst)
    }

    pub(super) fn sent(&self) -> MutexGuard<'_, Vec<u8>> {
        self.client.sent()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Faults)) {
        self.faults.send_modify(change);
    }

    /// Closes the client's side; the server's too, unless requests are held for it.
    pub(super) fn cut(&self) {
        self.close_client();
        if !self.faults.borrow().held {
            self.server_tasks.iter().for_each(AbortHandle::abort);
        }
    }

    fn close_client(&self) {
        self.client.leave();
        self.client_tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Client {
    pub(super) fn sent(&self) -> MutexGuard<'_, Vec<u8>> {
        self.sent
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }
}

impl Shared {
    fn answers_ended(&self, id: u64, ended: relay::Ended) {
        if let Some(link) = self.state().links.get(&id) {
            match ended {
                relay::Ended::ServerClosed => link.close_client(),
                relay::Ended::ReplyDropped => link.cut(),
                // The other task reads the client's own end, after everything that the client has sent.
                relay::Ended::ClientGone => {}
            }
        }
    }
}
