//! A connection that is kept: opened when it is first needed, watched, and replaced when it ends.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::super::address::config::Config;
use super::super::trouble::{Class, Trouble};
use super::live::{self, Driver, Live, OnPush};
use super::report::Report;
use super::scripts::Scripts;
use crate::engine::{Clock, Failure, ShortestLease};
use crate::protocol::script::{Call, Value};

pub(in super::super) use crate::engine::{RUNTIME_ENDED as ENDED, SHUT_DOWN as CLOSED};
const NO_RUNTIME: &str = "the client needs a tokio runtime to connect in";

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// A connection that keeps leases is tried again so often within the shortest of them, as a renewal is.
const TRIES_PER_LEASE: u32 = 30;
/// A connection that lived this long was a good one: the next pause is short again. Less than a second, or one that is
/// killed every second would come back ever more slowly, and those who wait would poll.
const GOOD_LIFE: Duration = Duration::from_millis(250);
/// How many times within the command limit a connection is looked at.
const LOOKS: u32 = 4;

/// One supervised connection.
pub(in super::super) struct Link {
    /// For the log.
    role: &'static str,
    config: Arc<Config>,
    scripts: Arc<Scripts>,
    home: Home,
    watching: Watching,
    on_push: Option<OnPush>,
    state: watch::Sender<State>,
    generation: AtomicU64,
    /// Nanoseconds, smoothed.
    round_trip: AtomicU64,
    /// Set for connections that renewals go over.
    hurry: OnceLock<Arc<ShortestLease>>,
    closing: CancellationToken,
}

/// Where the tasks of a link live.
#[derive(Clone, Debug)]
pub(in super::super) enum Home {
    /// In the client's runtime, named by `start` or found at the first use.
    Client(Arc<OnceLock<Handle>>),
    /// In the runtime of whoever uses it first, and again after that one has ended.
    FirstUser,
}

/// When the server is asked for signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Watching {
    /// While a reply is owed.
    Replies,
    /// All the time: nothing is owed where one only listens.
    Always,
}

#[derive(Clone, Debug)]
pub(in super::super) enum State {
    /// Nobody needed it yet.
    Idle,
    /// Being connected; what stood in the way last.
    Down(Option<Trouble>),
    Up(Arc<Live>),
    /// For good (or, with [`Home::FirstUser`] and [`ENDED`], until the next use).
    Over(&'static str),
}

/// How a connection came to its end.
enum End {
    Broken(Trouble),
    Silent,
    Retired(&'static str),
}

impl Link {
    pub(in super::super) fn new(
        role: &'static str,
        config: Arc<Config>,
        scripts: Arc<Scripts>,
        home: Home,
        watching: Watching,
        on_push: Option<OnPush>,
    ) -> Arc<Link> {
        Arc::new(Link {
            role,
            config,
            scripts,
            home,
            watching,
            on_push,
            state: watch::Sender::new(State::Idle),
            generation: AtomicU64::new(0),
            round_trip: AtomicU64::new(0),
            hurry: OnceLock::new(),
            closing: CancellationToken::new(),
        })
    }

    /// Pauses between connections follow the leases that depend on them.
    pub(in super::super) fn hurried_by(&self, shortest_lease: Arc<ShortestLease>) {
        let _ = self.hurry.set(shortest_lease);
    }

    /// Runs a call over the connection that there is now, or says that there is none.
    pub(in super::super) async fn call(&self, call: &Call) -> Result<Value, Failure> {
        let live = self.live()?;
        let (reply, took) = live.run(call).await;
        if reply.is_ok()
            && let Some(took) = took
        {
            self.measure(took);
        }
        reply
    }

    fn live(&self) -> Result<Arc<Live>, Failure> {
        match &*self.state.borrow() {
            State::Up(live) if !live.is_over() => Ok(live.clone()),
            State::Up(_) => not_sent("the connection has just ended"),
            State::Idle if !self.home.exists() => Err(closed(NO_RUNTIME)),
            State::Idle | State::Down(None) => not_sent("not connected yet"),
            State::Down(Some(trouble)) if trouble.class == Class::Version => {
                Err(trouble.failure.clone())
            }
            State::Down(Some(trouble)) => not_sent(&trouble.failure.to_string()),
            State::Over(why) if self.can_restart(why) => not_sent("not connected yet"),
            State::Over(why) => Err(closed(why)),
        }
    }

    fn measure(&self, took: Duration) {
        let sample = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let smooth = match self.round_trip.load(Ordering::Relaxed) {
            0 => sample,
            before => before - before / 8 + sample / 8,
        };
        self.round_trip.store(smooth, Ordering::Relaxed);
    }

    pub(in super::super) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Ordering::Relaxed))
    }

    /// Resolves when a call would be sent, or would be told why it never will.
    pub(in super::super) async fn ready(self: &Arc<Self>) {
        self.start();
        if !self.home.exists() {
            return;
        }
        let settled = |state: &State| match state {
            State::Up(live) => !live.is_over(),
            State::Down(Some(trouble)) => trouble.class == Class::Version,
            State::Over(_) => true,
            State::Idle | State::Down(None) => false,
        };
        // The sender is in `self`, so it cannot be gone.
        let _ = self.state.subscribe().wait_for(settled).await;
    }

    /// Resolves when there is another connection than the one there is, or was last.
    pub(in super::super) async fn reconnected(&self) {
        let mut state = self.state.subscribe();
        let before = match &*state.borrow() {
            State::Up(live) => Some(live.generation),
            _ => None,
        };
        // The sender is in `self`, so it cannot be gone.
        let _ = state
            .wait_for(|state| matches!(state, State::Up(live) if Some(live.generation) != before))
            .await;
    }

    /// Resolves with the outcome of the first attempt to connect, or with the state that is.
    pub(in super::super) async fn first_outcome(self: &Arc<Self>) -> State {
        self.start();
        if !self.home.exists() {
            return State::Over(NO_RUNTIME);
        }
        let mut state = self.state.subscribe();
        let outcome = state
            .wait_for(|state| !matches!(state, State::Idle | State::Down(None)))
            .await;
        outcome.map_or(State::Over(ENDED), |state| state.clone())
    }

    pub(in super::super) fn trouble(&self) -> Option<Failure> {
        match &*self.state.borrow() {
            State::Down(trouble) => trouble.as_ref().map(|trouble| trouble.failure.clone()),
            State::Over(why) if !self.can_restart(why) => Some(closed(why)),
            State::Idle | State::Up(_) | State::Over(_) => None,
        }
    }

    pub(in super::super) fn states(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Begins to connect if nothing does so yet.
    pub(in super::super) fn start(self: &Arc<Self>) {
        if matches!(*self.state.borrow(), State::Down(_) | State::Up(_)) {
            return;
        }
        let Some(handle) = self.home.handle() else {
            return;
        };
        let begins = self.state.send_if_modified(|state| {
            let begins = match state {
                State::Idle => true,
                State::Over(why) => self.can_restart(why),
                State::Down(_) | State::Up(_) => false,
            };
            if begins {
                *state = State::Down(None);
            }
            begins
        });
        if begins {
            let life = Life(self.clone());
            handle.spawn(async move {
                let link = &life.0;
                tokio::select! {
                    () = link.closing.cancelled() => {}
                    () = link.supervise() => {}
                }
            });
        }
    }

    fn can_restart(&self, why: &'static str) -> bool {
        why == ENDED && matches!(self.home, Home::FirstUser)
    }

    /// Ends it for good. What is under way becomes unknown.
    pub(in super::super) fn close(&self) {
        if let State::Up(live) = self.state.send_replace(State::Over(CLOSED)) {
            live.pulse.fail(Trouble::new(Class::Other, CLOSED));
        }
        self.closing.cancel();
    }

    fn set(&self, next: State) {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, State::Over(_));
            if open {
                *state = next;
            }
            open
        });
    }

    async fn supervise(&self) {
        let mut pause = PAUSE_MIN;
        let mut report = Report::default();
        let address = self.config.address();
        loop {
            let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
            let on_push = self.on_push.clone();
            match live::open(&self.config, &self.scripts, generation, on_push).await {
                Ok((live, driver)) => {
                    report.up(address, self.role);
                    let began = Clock::Boot.now();
                    let trouble = self.serve(Arc::new(live), driver).await;
                    let lived = Clock::Boot.now().since(began);
                    if lived >= GOOD_LIFE {
                        pause = PAUSE_MIN;
                    }
                    report.lived(lived);
                    report.down(address, self.role, &trouble);
                }
                Err(trouble) => {
                    report.down(address, self.role, &trouble);
                    self.set(State::Down(Some(trouble)));
                }
            }
            let lease = self.hurry.get().and_then(|shortest_lease| shortest_lease());
            pause = pause.min(pause_max(lease));
            tokio::time::sleep(jittered(pause)).await;
            pause *= 2;
        }
    }

    /// Offers the connection until it ends or has to go.
    async fn serve(&self, live: Arc<Live>, mut driver: Driver) -> Trouble {
        self.set(State::Up(live.clone()));
        let end = self.watch(&live, &mut driver).await;
        let retired = matches!(end, End::Retired(_));
        let trouble = match end {
            End::Broken(trouble) => trouble,
            End::Silent => Trouble::new(
                Class::Silent,
                format!(
                    "the server said nothing for {:?}",
                    self.config.command_limit * 2
                ),
            ),
            End::Retired(why) => Trouble::new(Class::Other, why),
        };
        self.set(State::Down(Some(trouble.clone())));
        if retired {
            drain(live, driver, self.config.command_limit);
        } else {
            // What those who still wait are told, unless the stream knew why.
            live.pulse.fail(trouble.clone());
        }
        trouble
    }

    async fn watch(&self, live: &Live, driver: &mut Driver) -> End {
        let limit = self.config.command_limit;
        let mut ping = None;
        loop {
            let asked = async {
                match &mut ping {
                    Some((_, reply)) => std::pin::Pin::as_mut(reply).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = driver.ended() => return End::Broken(why_broken(live)),
                why = live.retired() => return End::Retired(why),
                () = asked => { ping = None; continue }
                () = tokio::time::sleep(limit / LOOKS) => {}
            }
            let now = Clock::Boot.now();
            let silence = match self.watching {
                Watching::Replies => live.pulse.silence(now),
                Watching::Always => live.pulse.quiet(now),
            };
            match &ping {
                // Counted from the question too: after a suspend of this machine the silence alone says nothing.
                Some((since, _)) if silence >= 2 * limit && now.since(*since) >= limit => {
                    return End::Silent;
                }
                None if silence >= limit => ping = Some((now, Box::pin(live.ping()))),
                _ => {}
            }
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("role", &self.role)
            .field("state", &*self.state.borrow())
            .finish_non_exhaustive()
    }
}

impl Home {
    fn exists(&self) -> bool {
        let named = matches!(self, Home::Client(named) if named.get().is_some());
        named || Handle::try_current().is_ok()
    }

    /// The runtime, which from now on is the client's.
    pub(in super::super) fn handle(&self) -> Option<Handle> {
        match self {
            Home::FirstUser => Handle::try_current().ok(),
            Home::Client(named) => {
                if let Some(handle) = named.get() {
                    return Some(handle.clone());
                }
                let current = Handle::try_current().ok()?;
                Some(named.get_or_init(|| current).clone())
            }
        }
    }
}

/// In the supervisor's task as long as that exists: a runtime that ends drops it.
struct Life(Arc<Link>);

impl Drop for Life {
    fn drop(&mut self) {
        self.0.set(State::Over(ENDED));
    }
}

/// Lets a connection that nobody new uses give the replies it still owes: they come before that of a last PING.
fn drain(live: Arc<Live>, driver: Driver, limit: Duration) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(limit, live.ping()).await;
        drop(driver);
    });
}

fn why_broken(live: &Live) -> Trouble {
    match live.pulse.fault() {
        Some(trouble) => trouble.clone(),
        None => Trouble::new(Class::Other, "the connection ended"),
    }
}

/// The longest pause before a connection that keeps leases, of which this is the shortest.
fn pause_max(lease: Option<Duration>) -> Duration {
    lease.map_or(PAUSE_MAX, |lease| {
        (lease / TRIES_PER_LEASE).clamp(PAUSE_MIN, PAUSE_MAX)
    })
}

fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(0.5 + fastrand::f64() / 2.0)
}

fn not_sent<T>(text: &str) -> Result<T, Failure> {
    Err(Failure::NotSent(text.to_owned()))
}

pub(in super::super) fn closed(text: &str) -> Failure {
    Failure::Closed(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_follow_the_shortest_lease_within_their_bounds() {
        let ms = Duration::from_millis;

        assert_eq!(pause_max(None), ms(2000));
        assert_eq!(pause_max(Some(ms(3_600_000))), ms(2000));
        assert_eq!(pause_max(Some(ms(30_000))), ms(1000));
        assert_eq!(pause_max(Some(ms(3000))), ms(100));
        assert_eq!(pause_max(Some(ms(200))), ms(20));
    }
}
