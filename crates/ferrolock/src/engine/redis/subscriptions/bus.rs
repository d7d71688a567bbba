//! One connection for all subscriptions.
//!
//! Only the server's pushes count: a channel is confirmed by its `subscribe` push on the current connection. The crate's
//! `subscribe` returns when the next command may follow, or with the server's refusal.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use ::redis::{PushInfo, PushKind, Value as Raw};
use tokio::sync::Notify;

use super::super::address::config::Config;
use super::super::connection::link::{CLOSED, ENDED, Home, Link, LinkState, Watching, closed};
use super::super::connection::live::{Live, OnPush};
use super::table::ChannelTable;
use crate::engine::{Failure, Listener, Signal, Subscription, unpoisoned};

/// How many channels one SUBSCRIBE names: many for speed, few enough that other clients do not wait long for the server.
const BATCH_MAX: usize = 500;
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// The subscriptions of a client.
pub(in super::super) struct Bus {
    link: Arc<Link>,
    home: Home,
    channels: Arc<SharedChannels>,
    working: AtomicBool,
}

/// What listeners, the connection's pushes and the worker share.
struct SharedChannels {
    table: Mutex<ChannelTable>,
    /// There is something to subscribe to or to unsubscribe from.
    work: Notify,
    /// The server ended a subscription by itself.
    cut: AtomicBool,
}

/// A place in the table, given up when dropped.
struct ListenerPlace {
    channels: Arc<SharedChannels>,
    channel: Arc<str>,
    ticket: u64,
}

impl Bus {
    pub(in super::super) fn new(config: Arc<Config>, home: Home) -> Arc<Bus> {
        let channels = Arc::new(SharedChannels {
            table: Mutex::default(),
            work: Notify::new(),
            cut: AtomicBool::new(false),
        });
        let heard = channels.clone();
        let on_push: OnPush = Arc::new(move |generation, push| heard.take(generation, push));
        Arc::new(Bus {
            link: Link::new(
                "subscriptions",
                config,
                // Nothing is called over it.
                Arc::default(),
                home.clone(),
                Watching::Always,
                Some(on_push),
            ),
            home,
            channels,
            working: AtomicBool::new(false),
        })
    }

    /// Listens on a channel; resolves with the server's confirmation.
    pub(in super::super) async fn listen(
        &self,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Result<Subscription, Failure> {
        let entered = self
            .channels
            .lock()
            .enter(&channel, listener)
            .map_err(closed)?;
        let place = ListenerPlace {
            channels: self.channels.clone(),
            channel,
            ticket: entered.ticket,
        };
        self.start()?;
        self.channels.work.notify_one();
        entered.confirmed.await.map_err(|_| closed(ENDED))??;
        Ok(Subscription::new(move || drop(place)))
    }

    fn start(&self) -> Result<(), Failure> {
        if self.working.load(Ordering::Acquire) {
            return Ok(());
        }
        let Some(handle) = self.home.handle() else {
            return Err(closed(ENDED));
        };
        if !self.working.swap(true, Ordering::AcqRel) {
            self.link.start();
            let worker = Worker {
                channels: self.channels.clone(),
                link: self.link.clone(),
            };
            handle.spawn(worker.work());
        }
        Ok(())
    }

    pub(in super::super) fn trouble(&self) -> Option<Failure> {
        self.link.trouble()
    }

    pub(in super::super) fn close(&self) {
        let news = self.channels.lock().end(CLOSED);
        self.link.close();
        news.tell();
    }
}

impl fmt::Debug for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bus")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl SharedChannels {
    fn lock(&self) -> MutexGuard<'_, ChannelTable> {
        unpoisoned(&self.table)
    }

    /// Takes a push, in the task that reads the connection. The table is unlocked before a listener is called: it may
    /// listen or leave right there.
    fn take(&self, generation: u64, push: PushInfo) {
        let mut data = push.data.into_iter();
        let Some(Raw::BulkString(channel)) = data.next() else {
            return;
        };
        let Ok(channel) = std::str::from_utf8(&channel) else {
            return;
        };
        match push.kind {
            PushKind::Message => {
                let listeners = self.lock().listeners(generation, channel);
                if let Some(Raw::BulkString(payload)) = data.next() {
                    for listener in listeners {
                        listener.hear(Signal::Message(payload.clone()));
                    }
                }
            }
            PushKind::Subscribe => {
                let news = self.lock().confirm(generation, channel);
                news.tell();
            }
            PushKind::Unsubscribe => {
                let expected = self.lock().parted(generation, channel);
                if !expected {
                    self.cut.store(true, Ordering::Release);
                    self.work.notify_one();
                }
            }
            _ => {}
        }
    }
}

impl Drop for ListenerPlace {
    fn drop(&mut self) {
        let member = self.channels.lock().leave(&self.channel, self.ticket);
        drop(member);
        self.channels.work.notify_one();
    }
}

/// Sends what the table asks for, connection by connection.
struct Worker {
    channels: Arc<SharedChannels>,
    link: Arc<Link>,
}

impl Worker {
    async fn work(self) {
        let mut states = self.link.states();
        let mut served = 0;
        loop {
            let fresh = |state: &LinkState| match state {
                LinkState::Up(live) => live.generation > served,
                LinkState::Over(_) => true,
                LinkState::Idle | LinkState::Down(_) => false,
            };
            let live = match states.wait_for(fresh).await.as_deref() {
                Ok(LinkState::Up(live)) => live.clone(),
                _ => return,
            };
            served = live.generation;
            self.channels.cut.store(false, Ordering::Release);
            self.channels.lock().begin(served);
            let gone = |state: &LinkState| match state {
                LinkState::Up(live) => live.generation != served,
                LinkState::Idle | LinkState::Down(_) | LinkState::Over(_) => true,
            };
            tokio::select! {
                () = self.serve(&live) => {}
                _ = states.wait_for(gone) => {}
            }
            self.channels.lock().suspend();
        }
    }

    /// Returns when the connection has failed.
    async fn serve(&self, live: &Live) {
        let mut retry = RETRY_MIN;
        loop {
            if self.channels.cut.load(Ordering::Acquire) {
                // The crate has taken that push for the reply to some command of ours: its count is off by one.
                live.retire("the server ended a subscription by itself");
                return;
            }
            let asked = self.channels.lock().ask(BATCH_MAX);
            if !asked.is_empty() {
                if self.subscribe(live, asked).await.is_err() {
                    return;
                }
                continue;
            }
            let parting = self.channels.lock().part(BATCH_MAX);
            if !parting.is_empty() {
                if let Err(Failure::Unknown(_)) = live.unsubscribe(&parting).await {
                    return;
                }
                continue;
            }
            self.rest(&mut retry).await;
        }
    }

    /// Waits for work, or until postponed channels are due.
    async fn rest(&self, retry: &mut Duration) {
        if !self.channels.lock().has_postponed() {
            self.channels.work.notified().await;
            return;
        }
        if tokio::time::timeout(*retry, self.channels.work.notified())
            .await
            .is_err()
        {
            *retry = (*retry * 2).min(RETRY_MAX);
            self.channels.lock().resume();
        }
    }

    /// Subscribes to all of `channels`, or finds those that the server refuses. `Err`: the connection has failed.
    async fn subscribe(&self, live: &Live, channels: Vec<Arc<str>>) -> Result<(), ()> {
        let mut batches = vec![channels];
        while let Some(mut batch) = batches.pop() {
            let Err(failure) = live.subscribe(&batch).await else {
                continue;
            };
            let Failure::Refused { code, .. } = &failure else {
                return Err(());
            };
            match code.as_str() {
                // One forbidden channel is enough to refuse all that are named with it.
                "NOPERM" if batch.len() > 1 => {
                    batches.push(batch.split_off(batch.len() / 2));
                    batches.push(batch);
                }
                "BUSY" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => {
                    let mut table = self.channels.lock();
                    batch.iter().for_each(|channel| table.postpone(channel));
                }
                _ => {
                    // The waiter logs what follows from it, once.
                    tracing::debug!(%failure, "the server refuses a subscription");
                    for channel in &batch {
                        let news = self.channels.lock().refuse(channel, &failure);
                        news.tell();
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let news = self.channels.lock().end(ENDED);
        news.tell();
    }
}
