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
use super::live::{self, ConnectionTask, Live, OnPush};
use super::report::Report;
use super::scripts::Scripts;
use crate::engine::{Clock, Failure, ShortestLease};
use crate::protocol::call::{Call, Value};

pub(in super::super) use crate::engine::{RUNTIME_ENDED as ENDED, SHUT_DOWN as CLOSED};
const NO_RUNTIME: &str = "the client needs a tokio runtime to connect in";

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How often a connection for renewals is tried again within the shortest lease, as a renewal is.
const TRIES_PER_LEASE: u32 = 30;
/// A connection that lived this long was a good one: the next pause is short again. Less than a second, or one that is
/// killed every second would come back ever more slowly, and waiters would poll.
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
    state: watch::Sender<LinkState>,
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
    /// In the runtime of its first caller; after that one has ended, in that of the next caller.
    FirstUser,
}

/// When the server is asked for signs of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Watching {
    /// While a reply is owed.
    Replies,
    /// All the time: no reply is owed on a connection that only listens.
    Always,
}

#[derive(Clone, Debug)]
pub(in super::super) enum LinkState {
    /// Not used yet.
    Idle,
    /// Connecting; why the last attempt failed.
    Down(Option<Trouble>),
    Up(Arc<Live>),
    /// For good (or, with [`Home::FirstUser`] and [`ENDED`], until the next use).
    Over(&'static str),
}

/// How a connection came to its end.
enum ConnectionEnd {
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
            state: watch::Sender::new(LinkState::Idle),
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
            LinkState::Up(live) if !live.is_over() => Ok(live.clone()),
            LinkState::Up(_) => not_sent("the connection has just ended"),
            LinkState::Idle if !self.home.exists() => Err(closed(NO_RUNTIME)),
            LinkState::Idle | LinkState::Down(None) => not_sent("not connected yet"),
            LinkState::Down(Some(trouble)) if trouble.class == Class::Version => {
                Err(trouble.failure.clone())
            }
            LinkState::Down(Some(trouble)) => not_sent(&trouble.failure.to_string()),
            LinkState::Over(why) if self.can_restart(why) => not_sent("not connected yet"),
            LinkState::Over(why) => Err(closed(why)),
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

    /// Resolves when a call would be sent, or would fail because the link is over.
    pub(in super::super) async fn ready(self: &Arc<Self>) {
        self.start();
        if !self.home.exists() {
            return;
        }
        let settled = |state: &LinkState| match state {
            LinkState::Up(live) => !live.is_over(),
            LinkState::Down(Some(trouble)) => trouble.class == Class::Version,
            LinkState::Over(_) => true,
            LinkState::Idle | LinkState::Down(None) => false,
        };
        // The sender is in `self`, so it cannot be gone.
        let _ = self.state.subscribe().wait_for(settled).await;
    }

    /// Resolves when there is another connection than the one there is, or was last.
    pub(in super::super) async fn reconnected(&self) {
        let mut state = self.state.subscribe();
        let before = match &*state.borrow() {
            LinkState::Up(live) => Some(live.generation),
            _ => None,
        };
        // The sender is in `self`, so it cannot be gone.
        let _ = state
            .wait_for(
                |state| matches!(state, LinkState::Up(live) if Some(live.generation) != before),
            )
            .await;
    }

    /// Resolves with the outcome of the first attempt to connect, or with the state that is.
    pub(in super::super) async fn first_outcome(self: &Arc<Self>) -> LinkState {
        self.start();
        if !self.home.exists() {
            return LinkState::Over(NO_RUNTIME);
        }
        let mut state = self.state.subscribe();
        let outcome = state
            .wait_for(|state| !matches!(state, LinkState::Idle | LinkState::Down(None)))
            .await;
        outcome.map_or(LinkState::Over(ENDED), |state| state.clone())
    }

    pub(in super::super) fn trouble(&self) -> Option<Failure> {
        match &*self.state.borrow() {
            LinkState::Down(trouble) => trouble.as_ref().map(|trouble| trouble.failure.clone()),
            LinkState::Over(why) if !self.can_restart(why) => Some(closed(why)),
            LinkState::Idle | LinkState::Up(_) | LinkState::Over(_) => None,
        }
    }

    pub(in super::super) fn states(&self) -> watch::Receiver<LinkState> {
        self.state.subscribe()
    }

    /// Begins to connect if nothing does so yet.
    pub(in super::super) fn start(self: &Arc<Self>) {
        if matches!(*self.state.borrow(), LinkState::Down(_) | LinkState::Up(_)) {
            return;
        }
        let Some(handle) = self.home.handle() else {
            return;
        };
        let begins = self.state.send_if_modified(|state| {
            let begins = match state {
                LinkState::Idle => true,
                LinkState::Over(why) => self.can_restart(why),
                LinkState::Down(_) | LinkState::Up(_) => false,
            };
            if begins {
                *state = LinkState::Down(None);
            }
            begins
        });
        if begins {
            let ends = EndsLink(self.clone());
            handle.spawn(async move {
                let link = &ends.0;
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
        if let LinkState::Up(live) = self.state.send_replace(LinkState::Over(CLOSED)) {
            live.pulse.fail(Trouble::new(Class::Other, CLOSED));
        }
        self.closing.cancel();
    }

    fn set(&self, next: LinkState) {
        self.state.send_if_modified(|state| {
            let open = !matches!(state, LinkState::Over(_));
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
                Ok((live, task)) => {
                    report.up(address, self.role);
                    let began = Clock::Boot.now();
                    let trouble = self.serve(Arc::new(live), task).await;
                    let lived = Clock::Boot.now().since(began);
                    if lived >= GOOD_LIFE {
                        pause = PAUSE_MIN;
                    }
                    report.lived(lived);
                    report.down(address, self.role, &trouble);
                }
                Err(trouble) => {
                    report.down(address, self.role, &trouble);
                    self.set(LinkState::Down(Some(trouble)));
                }
            }
            let lease = self.hurry.get().and_then(|shortest_lease| shortest_lease());
            pause = pause.min(pause_max(lease));
            tokio::time::sleep(jittered(pause)).await;
            pause *= 2;
        }
    }

    /// Offers the connection until it ends or has to go.
    async fn serve(&self, live: Arc<Live>, mut task: ConnectionTask) -> Trouble {
        self.set(LinkState::Up(live.clone()));
        let end = self.watch(&live, &mut task).await;
        let retired = matches!(end, ConnectionEnd::Retired(_));
        let trouble = match end {
            ConnectionEnd::Broken(trouble) => trouble,
            ConnectionEnd::Silent => Trouble::new(
                Class::Silent,
                format!(
                    "the server said nothing for {:?}",
                    self.config.command_limit * 2
                ),
            ),
            ConnectionEnd::Retired(why) => Trouble::new(Class::Other, why),
        };
        self.set(LinkState::Down(Some(trouble.clone())));
        if retired {
            drain(live, task, self.config.command_limit);
        } else {
            // Callers that still wait fail with this, unless the stream already gave a reason.
            live.pulse.fail(trouble.clone());
        }
        trouble
    }

    async fn watch(&self, live: &Live, task: &mut ConnectionTask) -> ConnectionEnd {
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
                () = task.ended() => return ConnectionEnd::Broken(why_broken(live)),
                why = live.retired() => return ConnectionEnd::Retired(why),
                () = asked => { ping = None; continue }
                () = tokio::time::sleep(limit / LOOKS) => {}
            }
            let now = Clock::Boot.now();
            let silence = match self.watching {
                Watching::Replies => live.pulse.silence(now),
                Watching::Always => live.pulse.quiet(now),
            };
            match &ping {
                // Counted from the PING too: after a suspend of this machine the silence alone says nothing.
                Some((since, _)) if silence >= 2 * limit && now.since(*since) >= limit => {
                    return ConnectionEnd::Silent;
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

    /// The runtime; the current one becomes the client's if none was set.
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

/// Kept by the supervisor's task: a runtime that ends drops it.
struct EndsLink(Arc<Link>);

impl Drop for EndsLink {
    fn drop(&mut self) {
        self.0.set(LinkState::Over(ENDED));
    }
}

/// Lets a connection that takes no new calls give the replies it still owes: they come before that of a last PING.
fn drain(live: Arc<Live>, task: ConnectionTask, limit: Duration) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(limit, live.ping()).await;
        drop(task);
    });
}

fn why_broken(live: &Live) -> Trouble {
    match live.pulse.fault() {
        Some(trouble) => trouble.clone(),
        None => Trouble::new(Class::Other, "the connection ended"),
    }
}

/// The longest pause before the next attempt to connect, given the shortest lease that is renewed over the connection.
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
