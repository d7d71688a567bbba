//! `memory:` and `memory:NAME`: a server inside the process.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use super::emulator::channels::ListenerId;
use super::emulator::lua::Interpreter;
use super::emulator::server::Server;
use crate::engine::{
    Boxed, Calling, Clock, Engine, Failure, Lane, Listener, SHUT_DOWN, Subscription, Tick,
    unpoisoned,
};
use crate::protocol::call::{Call, Value};

/// One client's access to a server inside the process.
///
/// Any thread may use it, with a runtime or without. A call runs as a whole when its future is first polled, and returns
/// its reply at the next poll: if the future is dropped in between, the call has run.
#[derive(Debug)]
pub(crate) struct MemoryEngine {
    space: Arc<Space>,
    id: u64,
    closed: Arc<AtomicBool>,
    address: String,
}

impl MemoryEngine {
    /// Opens the space of that name, which lives while an engine has it open; without a name, a private one.
    pub(crate) fn open(name: Option<&str>) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            space: name.map_or_else(Arc::default, Space::shared),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            closed: Arc::default(),
            address: format!("memory:{}", name.unwrap_or_default()),
        })
    }

    /// Whether a space may have that name: letters, digits and `-_./`, at least one.
    pub(crate) fn is_name(name: &str) -> bool {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
        !name.is_empty() && name.bytes().all(allowed)
    }

    /// Loses all keys at once, as a server that was restarted without its data. No message is sent.
    #[cfg(test)]
    pub(crate) fn flush(&self) {
        self.space.state().server.keys.clear();
    }

    /// Sets the clock of the server back, and that of no client: a server's time is that of its machine, which is set.
    #[cfg(test)]
    pub(crate) fn set_back(&self, by: Duration) {
        self.space.state().server.set_back(by);
    }

    /// The server's time, in microseconds.
    #[cfg(test)]
    pub(crate) fn micros(&self) -> i64 {
        let now = self.space.epoch().micros();
        let mut state = self.space.state();
        state.server.begin(now);
        state.server.micros()
    }
}

impl Engine for MemoryEngine {
    fn call(&self, _lane: Lane, call: Call) -> Calling {
        let (space, closed) = (self.space.clone(), self.closed.clone());
        Box::pin(async move {
            if closed.load(Ordering::Acquire) {
                return Err(shut_down());
            }
            let reply = space.run(&call);
            next_poll().await;
            reply
        })
    }

    fn ready(&self, _lane: Lane) -> Boxed<()> {
        Box::pin(std::future::ready(()))
    }

    fn reconnected(&self, _lane: Lane) -> Boxed<()> {
        Box::pin(std::future::pending())
    }

    fn trouble(&self) -> Option<Failure> {
        None
    }

    fn listen(
        &self,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Boxed<Result<Subscription, Failure>> {
        let (space, closed, id) = (self.space.clone(), self.closed.clone(), self.id);
        Box::pin(async move {
            let subscription = {
                let mut state = space.state();
                // Under the lock, so that `close` leaves no listener behind.
                if closed.load(Ordering::Acquire) {
                    return Err(shut_down());
                }
                let added = state.server.channels.add(channel.as_bytes(), id, listener);
                end_on_drop(&space, channel, added)
            };
            next_poll().await;
            Ok(subscription)
        })
    }

    fn clock(&self) -> Clock {
        self.space.epoch().clock.clone()
    }

    fn is_shared_with_processes(&self) -> bool {
        false
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    fn close(&self) {
        let mut state = self.space.state();
        self.closed.store(true, Ordering::Release);
        state.server.channels.remove_engine(self.id);
    }
}

/// A server that several engines may share.
#[derive(Debug, Default)]
struct Space {
    state: Mutex<State>,
    /// Its time; decided by the first engine that needs it.
    epoch: OnceLock<Epoch>,
}

#[derive(Debug, Default)]
struct State {
    server: Server,
    /// Made by the first call.
    interpreter: Option<Interpreter>,
}

impl Space {
    /// The space of that name in this process.
    fn shared(name: &str) -> Arc<Self> {
        static SPACES: Mutex<BTreeMap<String, Weak<Space>>> = Mutex::new(BTreeMap::new());
        let mut spaces = unpoisoned(&SPACES);
        spaces.retain(|_, space| space.strong_count() > 0);
        if let Some(space) = spaces.get(name).and_then(Weak::upgrade) {
            return space;
        }
        let space = Arc::<Space>::default();
        spaces.insert(name.to_owned(), Arc::downgrade(&space));
        space
    }

    /// Runs a call, then delivers what it published.
    fn run(&self, call: &Call) -> Result<Value, Failure> {
        let epoch = self.epoch();
        let mut guard = self.state();
        let State {
            server,
            interpreter,
        } = &mut *guard;
        let interpreter = match interpreter {
            Some(interpreter) => interpreter,
            None => interpreter.insert(Interpreter::new()?),
        };
        server.begin(epoch.micros());
        let reply = interpreter.run(server, call);
        let mail = server.take_mail();
        // A listener may call back into the engine.
        drop(guard);
        for (listener, signal) in mail {
            listener.hear(signal);
        }
        reply
    }

    fn epoch(&self) -> &Epoch {
        self.epoch.get_or_init(Epoch::begin)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        unpoisoned(&self.state)
    }
}

/// Where the server's time began, on its clock and in the world.
#[derive(Debug)]
struct Epoch {
    clock: Clock,
    origin: Tick,
    origin_micros: i64,
}

impl Epoch {
    /// In virtual time every space begins at the same moment, so that a simulation repeats.
    fn begin() -> Self {
        const VIRTUAL_MICROS: i64 = 1_700_000_000_000_000;
        let clock = Clock::detect();
        let origin_micros = if clock.is_virtual() {
            VIRTUAL_MICROS
        } else {
            wall_micros()
        };
        Self {
            origin: clock.now(),
            clock,
            origin_micros,
        }
    }

    /// Unix time by the space's clock: a wall clock that is set does not move it.
    fn micros(&self) -> i64 {
        let elapsed = self.clock.now().since(self.origin).as_micros();
        self.origin_micros
            .saturating_add(i64::try_from(elapsed).unwrap_or(i64::MAX))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "read once, where the server's time begins; no deadline is judged by it"
)]
pub(super) fn wall_micros() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

/// A subscription that takes its listener off the channel, if the space is still there.
fn end_on_drop(space: &Arc<Space>, channel: Arc<str>, id: ListenerId) -> Subscription {
    let space = Arc::downgrade(space);
    Subscription::new(move || {
        if let Some(space) = space.upgrade() {
            let mut state = space.state();
            state.server.channels.remove(channel.as_bytes(), id);
        }
    })
}

/// Pending once: the point at which a call can be dropped between its run and its reply.
async fn next_poll() {
    let mut polled = false;
    poll_fn(|context| {
        if polled {
            return Poll::Ready(());
        }
        polled = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

pub(super) fn shut_down() -> Failure {
    Failure::Closed(SHUT_DOWN.to_owned())
}
