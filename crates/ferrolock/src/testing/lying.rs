//! An engine that lies, for tests of everything that uses an [`Engine`].
//!
//! It wraps any engine and does to its calls and messages what networks, proxies and servers do: on a test's order,
//! or by a seed. Times are those of the wrapped engine's clock, so in paused time nothing takes time.

mod orders;
#[cfg(feature = "embedded")]
mod tests;

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::{
    Boxed, Calling, Clock, Engine, Failure, Lane, Listener, Signal, Subscription, Tick, unpoisoned,
};
use crate::protocol::call::{Arg, Call, Value};
use orders::Orders;
pub(crate) use orders::{Match, Reach, Silence};

/// What happens to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// There was no connection.
    NotSent,
    /// It does not run; its sender cannot know.
    DropCall,
    /// It runs; its sender cannot know.
    DropReply,
    /// Its sender cannot know; it runs after that time.
    Late(Duration),
    /// It runs after that time, also if its caller no longer waits.
    DelayCall(Duration),
    /// It runs; the reply comes after that time.
    DelayReply(Duration),
    /// It runs at [`Lying::release`], also if its caller no longer waits.
    Hang,
    /// It runs; the reply comes at [`Lying::release`].
    HangReply,
    /// It runs twice and gives the second reply.
    Repeat,
    /// The server's error with that code: it does not run.
    Refuse(&'static str),
    /// The server loses all data, then it runs.
    Forget,
}

/// A call as it was handed over.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) at: Tick,
    pub(crate) lane: Lane,
    pub(crate) script: &'static str,
    pub(crate) args: Vec<Arg>,
    pub(crate) lie: Option<Lie>,
}

/// The engine that lies.
pub(crate) struct Lying {
    shared: Arc<Shared>,
}

impl Lying {
    /// Wraps an engine; honest until a test orders lies.
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Arc<Self> {
        Self::with_forget(inner, || panic!("this engine cannot forget"))
    }

    /// Wraps an engine whose data `forget` erases.
    pub(crate) fn with_forget(
        inner: Arc<dyn Engine>,
        forget: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared {
            inner,
            forget: Box::new(forget),
            orders: Mutex::default(),
            gate: watch::Sender::new(Gate::Open),
            count: watch::Sender::new(0),
            heals: watch::Sender::new(()),
            closed: AtomicBool::new(false),
            removed: AtomicBool::new(false),
            on_close: Mutex::default(),
        });
        Arc::new(Self { shared })
    }

    /// Wraps a memory engine.
    #[cfg(feature = "embedded")]
    pub(crate) fn over_memory(inner: Arc<crate::engine::embedded::MemoryEngine>) -> Arc<Self> {
        Self::with_forget(inner.clone(), move || inner.flush())
    }

    /// Lies about the next call.
    pub(crate) fn next(&self, lie: Lie) {
        self.next_of(Match::any(), lie);
    }

    /// Lies about the next call that matches; orders for the same calls are used up in turn.
    pub(crate) fn next_of(&self, which: Match, lie: Lie) {
        self.shared.orders().add_rule(which, lie, Some(1));
    }

    /// Lies about every call that matches, after the orders for single ones.
    pub(crate) fn always(&self, which: Match, lie: Lie) {
        self.shared.orders().add_rule(which, lie, None);
    }

    /// Lies about `per_mille` of a thousand calls, and drops as many messages, by a seed. Only what a network or a busy
    /// server does: no call runs twice and no data is lost. A client that is made after this draws its random numbers from
    /// the same seed, so that a second run with it does the same.
    pub(crate) fn random(&self, seed: u64, per_mille: u32) {
        self.shared.orders().set_random(seed, per_mille);
    }

    /// Forgets all orders for calls and messages. Partitions stay.
    pub(crate) fn honest(&self) {
        self.shared.orders().clear();
    }

    /// Lets all calls go on that hang now.
    pub(crate) fn release(&self) {
        self.shared.gate.send_replace(Gate::Open);
    }

    /// Ends all calls that hang now: those that have not run never will.
    pub(crate) fn lose_hanging(&self) {
        self.shared.gate.send_replace(Gate::Lost);
    }

    /// How many calls hang now.
    pub(crate) fn hanging(&self) -> usize {
        self.shared.orders().hanging
    }

    /// Cuts lanes off until [`Lying::heal`]; cutting all takes the subscriptions along.
    pub(crate) fn partition(&self, reach: Reach, silence: Silence) {
        self.shared.orders().cut(reach, silence);
    }

    /// Ends all partitions: calls that hang go on, and subscriptions that were cut get a gap.
    pub(crate) fn heal(&self) {
        let gapped = self.shared.orders().heal();
        self.release();
        self.shared.heals.send_replace(());
        for listener in gapped.iter().filter_map(Weak::upgrade) {
            listener.listener.hear(Signal::Gap);
        }
    }

    /// Interrupts all subscriptions until [`Lying::heal`].
    pub(crate) fn cut_subscriptions(&self) {
        self.shared.orders().cut_subscriptions();
    }

    /// Loses the next `count` messages without a gap.
    pub(crate) fn drop_messages(&self, count: u32) {
        self.shared.orders().drop_messages(count);
    }

    /// Refuses the next subscription with that code.
    pub(crate) fn refuse_listen(&self, code: &'static str) {
        self.shared.orders().refuse_listen(code);
    }

    /// The server loses all data.
    pub(crate) fn forget(&self) {
        (self.shared.forget)();
    }

    /// The next call of `is_removed` returns true, and only that one.
    pub(crate) fn removed_once(&self) {
        self.shared.removed.store(true, Ordering::Relaxed);
    }

    /// Sets what runs when the engine is closed.
    pub(crate) fn on_close(&self, what: impl Fn() + Send + Sync + 'static) {
        *unpoisoned(&self.shared.on_close) = Some(Box::new(what));
    }

    /// Every call that was handed over, in order.
    pub(crate) fn log(&self) -> Vec<Seen> {
        self.shared.orders().log.clone()
    }

    /// The calls of one script.
    pub(crate) fn log_of(&self, script: &str) -> Vec<Seen> {
        let mut log = self.log();
        log.retain(|seen| seen.script == script);
        log
    }

    /// Waits until `times` calls of a script were handed over.
    pub(crate) async fn seen(&self, script: &str, times: usize) {
        let mut count = self.shared.count.subscribe();
        let enough = |_: &usize| self.log_of(script).len() >= times;
        // The sender lives as long as this engine.
        let _ = count.wait_for(enough).await;
    }
}

impl Engine for Lying {
    fn call(&self, lane: Lane, call: Call) -> Calling {
        let shared = self.shared.clone();
        Box::pin(async move {
            let lie = shared.see(lane, &call);
            shared.perform(lie, lane, call).await
        })
    }

    fn ready(&self, lane: Lane) -> Boxed<()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            shared.connected(Some(lane)).await;
            shared.inner.ready(lane).await;
        })
    }

    fn reconnected(&self, _lane: Lane) -> Boxed<()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            // The sending half lives in `shared`.
            let _ = shared.heals.subscribe().changed().await;
        })
    }

    fn trouble(&self) -> Option<Failure> {
        if self.shared.orders().is_anything_cut() {
            return Some(not_sent());
        }
        self.shared.inner.trouble()
    }

    fn listen(
        &self,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Boxed<Result<Subscription, Failure>> {
        let shared = self.shared.clone();
        Box::pin(async move {
            shared.connected(None).await;
            if let Some(code) = shared.orders().take_listen_refusal() {
                return Err(refused(code));
            }
            let listener = Arc::new(Muffled {
                shared: Arc::downgrade(&shared),
                listener,
            });
            shared.orders().listeners.push(Arc::downgrade(&listener));
            shared.inner.listen(channel, listener).await
        })
    }

    fn clock(&self) -> Clock {
        self.shared.inner.clock()
    }

    fn is_removed(&self) -> bool {
        self.shared.removed.swap(false, Ordering::Relaxed)
    }

    fn seed(&self) -> Option<u64> {
        self.shared.orders().seed()
    }

    fn address(&self) -> &str {
        self.shared.inner.address()
    }

    fn round_trip(&self) -> Duration {
        self.shared.inner.round_trip()
    }

    fn close(&self) {
        self.shared.inner.close();
        self.shared.closed.store(true, Ordering::Release);
        self.lose_hanging();
        if let Some(what) = &*unpoisoned(&self.shared.on_close) {
            what();
        }
    }
}

impl fmt::Debug for Lying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lying").field(&self.shared.inner).finish()
    }
}

/// What the calls share.
struct Shared {
    inner: Arc<dyn Engine>,
    forget: Box<dyn Fn() + Send + Sync>,
    orders: Mutex<Orders>,
    gate: watch::Sender<Gate>,
    /// How many calls were seen.
    count: watch::Sender<usize>,
    /// Changes when partitions end: there are new connections.
    heals: watch::Sender<()>,
    closed: AtomicBool,
    removed: AtomicBool,
    on_close: Mutex<Option<Box<dyn Fn() + Send + Sync>>>,
}

/// What a test last decided about the calls that hang.
#[derive(Clone, Copy)]
enum Gate {
    Open,
    Lost,
}

impl Shared {
    fn orders(&self) -> MutexGuard<'_, Orders> {
        unpoisoned(&self.orders)
    }

    /// Writes a call down and decides what happens to it.
    fn see(&self, lane: Lane, call: &Call) -> Option<Lie> {
        let at = self.inner.clock().now();
        let mut orders = self.orders();
        let lie = orders.decide(lane, call);
        orders.log.push(Seen {
            at,
            lane,
            script: call.script.name,
            args: call.args.to_vec(),
            lie: lie.clone(),
        });
        let count = orders.log.len();
        drop(orders);
        self.count.send_replace(count);
        lie
    }

    async fn perform(
        self: Arc<Self>,
        lie: Option<Lie>,
        lane: Lane,
        call: Call,
    ) -> Result<Value, Failure> {
        match lie {
            None => self.inner.call(lane, call).await,
            Some(Lie::NotSent) => Err(not_sent()),
            Some(Lie::DropCall) => Err(unknown()),
            Some(Lie::DropReply) => {
                drop(self.inner.call(lane, call).await);
                Err(unknown())
            }
            Some(Lie::Late(time)) => {
                tokio::spawn(self.after(time, lane, call));
                Err(unknown())
            }
            Some(Lie::DelayCall(time)) => in_background(self.after(time, lane, call)).await,
            Some(Lie::DelayReply(time)) => {
                let reply = self.inner.call(lane, call).await;
                self.pass(time).await;
                reply
            }
            Some(Lie::Hang) => {
                let hang = self.hang();
                in_background(async move {
                    hang.end().await?;
                    self.inner.call(lane, call).await
                })
                .await
            }
            Some(Lie::HangReply) => {
                let hang = self.hang();
                let reply = self.inner.call(lane, call).await;
                hang.end().await?;
                reply
            }
            Some(Lie::Repeat) => {
                drop(self.inner.call(lane, call.clone()).await);
                self.inner.call(lane, call).await
            }
            Some(Lie::Refuse(code)) => Err(refused(code)),
            Some(Lie::Forget) => {
                (self.forget)();
                self.inner.call(lane, call).await
            }
        }
    }

    async fn after(
        self: Arc<Self>,
        time: Duration,
        lane: Lane,
        call: Call,
    ) -> Result<Value, Failure> {
        self.pass(time).await;
        self.inner.call(lane, call).await
    }

    async fn pass(&self, time: Duration) {
        let clock = self.inner.clock();
        clock.sleep_until(clock.now().after(time)).await;
    }

    /// Hangs from now on.
    fn hang(self: &Arc<Self>) -> Hanging {
        self.orders().hanging += 1;
        Hanging {
            gate: self.gate.subscribe(),
            shared: self.clone(),
        }
    }

    /// Waits until there is a connection: of a lane, or for subscriptions.
    async fn connected(&self, lane: Option<Lane>) {
        let mut gate = self.gate.subscribe();
        while self.orders().is_disconnected(lane) && !self.closed.load(Ordering::Acquire) {
            // The sender lives in `self`.
            let _ = gate.changed().await;
        }
    }
}

/// A call that hangs.
struct Hanging {
    gate: watch::Receiver<Gate>,
    shared: Arc<Shared>,
}

impl Hanging {
    async fn end(mut self) -> Result<(), Failure> {
        let _ = self.gate.changed().await;
        match *self.gate.borrow() {
            Gate::Open => Ok(()),
            Gate::Lost => Err(unknown()),
        }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.shared.orders().hanging -= 1;
    }
}

/// A listener that drops messages as the orders say.
struct Muffled {
    shared: Weak<Shared>,
    listener: Arc<dyn Listener>,
}

impl Listener for Muffled {
    fn hear(&self, signal: Signal) {
        let passes = match self.shared.upgrade() {
            Some(shared) => shared.orders().lets_message_pass(),
            None => true,
        };
        if passes {
            self.listener.hear(signal);
        }
    }
}

/// Runs to its end even if the caller drops its future: a call that was handed over belongs to the engine.
async fn in_background(
    work: impl Future<Output = Result<Value, Failure>> + Send + 'static,
) -> Result<Value, Failure> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(unknown()))
}

fn not_sent() -> Failure {
    Failure::NotSent("there is no connection".to_owned())
}

fn unknown() -> Failure {
    Failure::Unknown("the connection was lost".to_owned())
}

fn refused(code: &str) -> Failure {
    Failure::Refused {
        code: code.to_owned(),
        message: "refused by order of the test".to_owned(),
    }
}
