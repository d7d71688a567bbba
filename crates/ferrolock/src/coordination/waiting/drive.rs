//! The task of a contended name: does what its [`driver`](super::driver) decides.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::coordination::names::NameEntry;
use crate::coordination::waiting::attempt::{self, Attempted, Grant, Manner, attempt};
use crate::coordination::waiting::driver::{Cause, Driver, Late, Next};
use crate::coordination::waiting::first::Begun;
use crate::coordination::waiting::listen::NameListener;
use crate::coordination::waiting::own_channel::OwnChannel;
use crate::coordination::waiting::{Request, enter_with};
use crate::coordination::{Core, safely, unpoisoned};
use crate::engine::{Boxed, Failure, Lane, RUNTIME_ENDED, SHUT_DOWN, Subscription, Tick};
use crate::error::Error;
use crate::figures;
use crate::protocol::scheme::Scheme;

/// The least pause after an attempt without an answer.
const RECONNECT_MIN: Duration = Duration::from_millis(20);

/// The task that does what the driver of a name decides.
pub(super) struct DriverTask {
    pub(super) core: Arc<Core>,
    pub(super) scheme: Arc<dyn Scheme>,
    finished: bool,
}

/// What the task has under way besides sleeping.
#[derive(Default)]
pub(super) struct UnderWay {
    attempt: Option<(u64, Cause, Boxed<Attempted>)>,
    listen: Option<Boxed<Result<Subscription, Failure>>>,
    reconnect: Option<Boxed<()>>,
    pub(super) own_channel: OwnChannel,
    /// Why the last attempt had no good answer.
    trouble: Option<Failure>,
}

/// Runs until no call waits for the name and its subscription has been idle long enough.
pub(super) fn drive(
    core: Arc<Core>,
    scheme: Arc<dyn Scheme>,
) -> impl Future<Output = ()> + Send + 'static {
    // Made here and not at the first poll: a runtime that has ended drops the future unpolled.
    let task = DriverTask {
        core,
        scheme,
        finished: false,
    };
    run(task)
}

async fn run(mut task: DriverTask) {
    let mut under_way = UnderWay::default();
    while let Some((next, news)) = task.next(&mut under_way) {
        match next {
            Next::Attempt {
                who,
                id,
                is_front,
                cause,
            } => task.begin_attempt(&mut under_way, (who, id), is_front, cause),
            Next::Listen => task.begin_listening(&mut under_way),
            Next::ListenOwn(id) => under_way.own_channel = task.listen_to_own(id),
            Next::TimedOut(late) => late
                .into_iter()
                .for_each(|late| late.who.busy(late.waited, late.rest)),
            Next::Unreachable(late) => task.tell_unreachable(late, &under_way),
            Next::Sleep(until) => task.wait(&mut under_way, until, &news).await,
            Next::Done => return,
        }
    }
}

impl DriverTask {
    /// The driver's next step; `None` when there is nothing left to drive.
    fn next(&mut self, under_way: &mut UnderWay) -> Option<(Next<Arc<Request>>, Arc<Notify>)> {
        let core = self.core.clone();
        let mut names = unpoisoned(&core.names);
        let entry = names.entry_if_any(self.scheme.subject())?;
        let news = entry.news().clone();
        if let Some((id, begun)) = entry.goes_on.take() {
            under_way.reconnect = None;
            under_way.attempt = Some((id, Cause::Arrival, begun.attempt));
        }
        let next = match &entry.first {
            None => entry.driver.as_mut()?.next(self.core.now()),
            // A caller reads the answer to its own first attempt at this moment: no other attempt is sent beside it.
            Some(_) => Next::Sleep(Tick::FAR),
        };
        let attempting = under_way.attempt.is_some();
        let closing = self.core.is_closing() && !attempting && matches!(next, Next::Sleep(_));
        if matches!(next, Next::Done) || closing {
            let left = self.leave(entry);
            names.change(self.scheme.subject(), |_| ());
            drop(names);
            left.tell(SHUT_DOWN);
            return None;
        }
        Some((next, news))
    }

    fn leave(&mut self, entry: &mut NameEntry) -> Left {
        self.finished = true;
        entry.driven = false;
        let stranded = entry.driver.take().map(|mut driver| driver.take(|_| true));
        Left {
            _goes_on: entry.goes_on.take(),
            _subscription: entry.subscription.take(),
            stranded: stranded.unwrap_or_default(),
        }
    }

    fn begin_attempt(
        &self,
        under_way: &mut UnderWay,
        (request, id): (Arc<Request>, u64),
        is_front: bool,
        cause: Cause,
    ) {
        let manner = Manner {
            looks: cause.is_time(),
            is_front,
        };
        tracing::trace!(lock = %self.scheme.name(), cause = cause.as_str(), "attempt");
        let core = self.core.clone();
        under_way.reconnect = None;
        under_way.attempt = Some((
            id,
            cause,
            Box::pin(async move {
                // No event or caller asks for these attempts now: their number is limited, so that others go first.
                let _permit = match cause {
                    Cause::Arrival
                    | Cause::Message
                    | Cause::OwnRelease
                    | Cause::LastChance
                    | Cause::More => None,
                    _ => core.reattempts.clone().acquire_owned().await.ok(),
                };
                match request.slot.is_waiting() {
                    true => attempt(&core, &request, manner).await,
                    // The caller went before its turn came.
                    false => Attempted::Withdrawn,
                }
            }),
        ));
    }

    fn begin_listening(&self, under_way: &mut UnderWay) {
        let Some(channel) = self.scheme.waiting().channel.clone() else {
            return;
        };
        let listener = NameListener::new(&self.core, self.scheme.clone(), None);
        under_way.listen = Some(self.core.engine.listen(channel, listener));
    }

    fn tell_unreachable(&self, late: Vec<Late<Arc<Request>>>, under_way: &UnderWay) {
        let said = under_way.trouble.clone();
        let failure = match said {
            // The connection knows more about the reason: a refusal when it was opened, say.
            None | Some(Failure::NotSent(_)) => self.core.engine.trouble().or(said),
            Some(_) => said,
        };
        for late in late {
            late.who
                .fail(self.core.no_answer(late.waited, failure.clone()));
        }
    }

    /// Sleeps until something under way ends, there is news for the driver, or the time comes.
    async fn wait(&mut self, under_way: &mut UnderWay, until: Tick, news: &Notify) {
        let core = self.core.clone();
        let UnderWay {
            attempt,
            listen,
            reconnect,
            own_channel,
            ..
        } = under_way;
        tokio::select! {
            biased;
            attempted = pending_or(attempt.as_mut().map(|(_, _, future)| future)) => {
                let begun = attempt.take();
                self.attempted(under_way, begun.map(|(id, cause, _)| (id, cause)), attempted);
            }
            listened = pending_or(listen.as_mut()) => {
                *listen = None;
                self.listened(listened);
            }
            listened = own_channel.listened() => self.listened_to_own(own_channel, listened),
            () = pending_or(reconnect.as_mut()) => {
                *reconnect = None;
                self.with_driver(|driver, now| driver.reconnected(now));
            }
            () = news.notified() => {}
            () = core.nap_until(until) => {}
        }
    }

    fn attempted(
        &self,
        under_way: &mut UnderWay,
        begun: Option<(u64, Cause)>,
        attempted: Attempted,
    ) {
        let Some((id, cause)) = begun else { return };
        match attempted {
            Attempted::Granted(grant) => {
                under_way.trouble = None;
                self.granted(id, cause, grant);
            }
            Attempted::Busy(busy) => {
                under_way.trouble = None;
                let pause = self.own_pause();
                self.with_driver(|driver, now| {
                    driver.set_own_pause(pause);
                    driver.found_busy(now, id, busy);
                });
                self.tell_busy();
                busy.head.into_iter().for_each(|head| self.check_head(head));
            }
            Attempted::Withdrawn => {
                self.with_driver(|driver, now| driver.withdrawn(now));
            }
            Attempted::TooLate(failure) => {
                self.fail_tried(&failure);
                under_way.trouble = Some(failure);
                self.with_driver(|driver, now| driver.came_too_late(now));
            }
            Attempted::Failed(failure @ (Failure::NotSent(_) | Failure::Unknown(_))) => {
                if matches!(failure, Failure::Unknown(_)) {
                    self.fail_tried(&failure);
                }
                under_way.trouble = Some(failure);
                under_way.reconnect = Some(self.reconnected());
                self.with_driver(|driver, now| driver.failed(now));
            }
            Attempted::Failed(Failure::Refused { code, message }) if attempt::waits_out(&code) => {
                let refused = Failure::Refused { code, message };
                self.fail_tried(&refused);
                under_way.trouble = Some(refused);
                self.with_driver(|driver, now| driver.failed(now));
            }
            Attempted::Failed(failure) => {
                let all = self
                    .with_driver(|driver, _| driver.refused())
                    .unwrap_or_default();
                all.iter()
                    .for_each(|request| request.fail(failure.clone().into()));
            }
        }
    }

    /// The pause after this attempt, where the user's code decides: it is called while no lock of ours is held.
    fn own_pause(&self) -> Option<Duration> {
        let polls = self.with_driver(|driver, _| driver.polls())?;
        self.scheme.waiting().pace.own_pause(polls)
    }

    /// Answers `busy` to the callers that came before the last attempt was sent and do not wait.
    fn tell_busy(&self) {
        let tried = self.with_driver(|driver, now| driver.take_tried(now));
        for late in tried.into_iter().flatten() {
            late.who.busy(late.waited, late.rest);
        }
    }

    /// Fails the same callers when the attempt had no good answer.
    fn fail_tried(&self, failure: &Failure) {
        let tried = self.with_driver(|driver, now| driver.take_tried(now));
        for late in tried.into_iter().flatten() {
            late.who.fail(failure.clone().into());
        }
    }

    /// Ready when there is a connection, but not at once: else a server whose replies cannot be read would be asked in a
    /// loop.
    fn reconnected(&self) -> Boxed<()> {
        let core = self.core.clone();
        Box::pin(async move {
            core.sleep_until(core.now().after(RECONNECT_MIN)).await;
            core.engine.ready(Lane::Commands).await;
        })
    }

    fn granted(&self, id: u64, cause: Cause, grant: Grant) {
        let granted = (grant.lease(), grant.more);
        let to = self
            .with_driver(|driver, now| driver.granted(now, granted, id))
            .flatten();
        let Some((request, waited)) = to else {
            // Its drop gives it back.
            return;
        };
        let (tenure, more) = (grant.tenure.clone(), grant.more);
        safely(|| {
            figures::granted(cause.as_str(), || waited);
            tracing::debug!(lock = %self.scheme.name(), owner = %tenure.id, cause = cause.as_str(), ?waited, "granted");
        });
        let hold = grant.give();
        hold.into_iter()
            .for_each(|hold| hold.offer_to(&request.as_entrant()));
        // First the requests of the same owner: they enter again and must not be answered `busy`.
        enter_with(&tenure);
        if !more {
            self.tell_busy();
        }
    }

    fn listened(&self, listened: Result<Subscription, Failure>) {
        match listened {
            Ok(subscription) => {
                let mut names = unpoisoned(&self.core.names);
                let Some(entry) = names.entry_if_any(self.scheme.subject()) else {
                    return;
                };
                entry.subscription = Some(subscription);
                if let Some(driver) = &mut entry.driver {
                    driver.confirmed(self.core.now());
                }
            }
            Err(failure) => {
                self.core.say_blind(&failure);
                self.with_driver(|driver, now| driver.not_listening(now));
            }
        }
    }

    pub(super) fn with_driver<T>(
        &self,
        f: impl FnOnce(&mut Driver<Arc<Request>>, Tick) -> T,
    ) -> Option<T> {
        let now = self.core.now();
        let mut names = unpoisoned(&self.core.names);
        names
            .entry_if_any(self.scheme.subject())?
            .driver
            .as_mut()
            .map(|driver| f(driver, now))
    }
}

impl Drop for DriverTask {
    /// The runtime has ended: all waiters fail.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let core = self.core.clone();
        let mut names = unpoisoned(&core.names);
        let Some(entry) = names.entry_if_any(self.scheme.subject()) else {
            return;
        };
        let left = self.leave(entry);
        names.change(self.scheme.subject(), |_| ());
        drop(names);
        left.tell(RUNTIME_ENDED);
    }
}

/// What to drop, and which requests to fail, when the table of names is unlocked again: the drop of an attempt locks it.
struct Left {
    _goes_on: Option<(u64, Begun)>,
    _subscription: Option<Subscription>,
    stranded: Vec<Arc<Request>>,
}

impl Left {
    fn tell(self, why: &'static str) {
        for request in self.stranded {
            request.fail(Error::closed(why));
        }
    }
}

/// A future that may not be there.
pub(super) async fn pending_or<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => Pin::new(future).await,
        None => std::future::pending().await,
    }
}
