//! How a lock is acquired: the one loop that serves every primitive that waits.
//!
//! A caller's future waits in a [`slot`]. What happens for it happens in tasks of the client's runtime: for `lock`
//! the [`driver`] of the name decides and [`drive`] does; `try_lock` makes its one attempt; an owner who is inside
//! enters again without queueing. A grant is offered, and becomes the caller's when its future is polled.

pub(crate) mod attempt;
pub(crate) mod driver;
mod reenter;
pub(crate) mod slot;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::attempt::{Attempted, attempt};
use self::driver::{Cause as Why, Driver, Late, Next, Place};
use self::reenter::reenter;
use self::slot::{Answer, Found, Slot};
use super::hold::Hold;
use super::wakes::NameEar;
use super::{Core, Tenure, unpoisoned};
use crate::engine::{Boxed, Failure, Lane, Subscription, Tick};
use crate::error::{Cause, Error, Result};
use crate::figures;
use crate::options::{Reentry, Terms};
use crate::owner::Owner;
use crate::protocol::lock::{LockKeys, Rest};

/// One call that wants a hold.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) keys: Arc<LockKeys>,
    pub(crate) owner: Owner,
    pub(crate) terms: Terms,
    /// Details for people, if any are kept.
    pub(crate) who: Option<Arc<str>>,
    pub(crate) reentry: Reentry,
    pub(crate) patience: Patience,
    /// When its time is up; `None`: it waits as long as the server answers.
    pub(crate) deadline: Option<Tick>,
    pub(crate) slot: Arc<Slot>,
    /// Only one more hold of that tenure will do.
    into: Option<Arc<Tenure>>,
    /// Its number in the driver's line; the largest number: not in it.
    place: AtomicU64,
}

/// What a call does when the lock is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// One attempt.
    None,
    /// Waits; busy to the end is `None`.
    Asks,
    /// Waits; busy to the end is an error.
    Insists,
}

impl Request {
    pub(crate) fn new(
        keys: Arc<LockKeys>,
        owner: Owner,
        terms: Terms,
        who: Option<Arc<str>>,
        reentry: Reentry,
        patience: Patience,
        deadline: Option<Tick>,
    ) -> Arc<Self> {
        let place = AtomicU64::new(u64::MAX);
        Arc::new(Self { keys, owner, terms, who, reentry, patience, deadline, slot: Slot::new(), into: None, place })
    }

    /// One more hold of a running tenure, and of no other.
    pub(crate) fn again(tenure: &Arc<Tenure>, terms: Terms) -> Arc<Self> {
        Arc::new(Self {
            keys: tenure.keys.clone(),
            owner: tenure.owner.clone(),
            terms,
            who: tenure.bearer.who.clone(),
            reentry: Reentry::Enters,
            patience: Patience::Insists,
            deadline: None,
            slot: Slot::new(),
            into: Some(tenure.clone()),
            place: AtomicU64::new(u64::MAX),
        })
    }

    fn fail(&self, error: Error) {
        self.slot.answer(Answer::Failed(error.of(&self.keys.lock)));
    }

    fn busy(&self, waited: Duration, rest: Option<Rest>) {
        let remaining = match rest {
            Some(Rest::Left(left)) => Some(left),
            Some(Rest::NoExpiry) | None => None,
        };
        match self.patience {
            Patience::Insists => self.fail(Error::new(Cause::TimedOut { waited, remaining })),
            Patience::None | Patience::Asks => self.slot.answer(Answer::Busy),
        }
    }
}

/// Waits for a hold. `None`: busy, for a call that does not insist.
///
/// Dropped before it is ready, it leaves nothing behind: a grant that comes later is given back.
pub(crate) async fn acquire(
    core: &Arc<Core>,
    request: Arc<Request>,
    cancelled_by: Option<CancellationToken>,
) -> Result<Option<Arc<Hold>>> {
    let caller = Caller { core, request: &request };
    enter(core, &request, Place::Back)?;
    let cancelled = async {
        match &cancelled_by {
            Some(token) => token.cancelled().await,
            None => std::future::pending().await,
        }
    };
    let mut cancelled = std::pin::pin!(cancelled);
    loop {
        let found = poll_fn(|cx| match request.slot.poll(cx) {
            Poll::Ready(found) => Poll::Ready(Some(found)),
            Poll::Pending => cancelled.as_mut().poll(cx).map(|()| None),
        });
        match found.await {
            Some(Found::Granted(hold)) => return Ok(caller.accept(hold)),
            Some(Found::Answered(Answer::Busy)) => return Ok(None),
            Some(Found::Answered(Answer::Failed(error))) => return Err(error),
            Some(Found::Withdrawn) => enter(core, &request, Place::Front)?,
            None => return Err(Error::new(Cause::Cancelled).of(&request.keys.lock)),
        }
    }
}

/// Cleans up behind a caller's future that is dropped.
struct Caller<'a> {
    core: &'a Arc<Core>,
    request: &'a Arc<Request>,
}

impl Caller<'_> {
    fn accept(&self, hold: Arc<Hold>) -> Option<Arc<Hold>> {
        self.core.keeper().accept(&hold);
        Some(hold)
    }
}

impl Drop for Caller<'_> {
    fn drop(&mut self) {
        if let Some(hold) = self.request.slot.abandon() {
            self.core.keeper().forget(&hold);
            hold.give_back();
        }
        let place = self.request.place.load(Ordering::Acquire);
        if place == u64::MAX {
            return;
        }
        let mut desk = unpoisoned(&self.core.desk);
        if let Some(seat) = desk.seat_if_any(&self.request.keys.lock)
            && let Some(driver) = &mut seat.driver
            && driver.leave(place).is_some()
        {
            seat.news.notify_one();
        }
    }
}

/// Starts what the request needs: a re-entry, one attempt, or a place in the line.
fn enter(core: &Arc<Core>, request: &Arc<Request>, place: Place) -> Result<()> {
    core.check_open().map_err(|error| error.of(&request.keys.lock))?;
    let runtime = core.runtime()?;
    if let Some(tenure) = &request.into {
        runtime.spawn(reenter(tenure.clone(), request.clone()));
        return Ok(());
    }
    let mut desk = unpoisoned(&core.desk);
    if let Some(tenure) = desk.live_tenure(&request.keys.lock, &request.owner) {
        if request.reentry == Reentry::IsAnError {
            return Err(Error::new(Cause::WouldDeadlock).of(&request.keys.lock));
        }
        drop(desk);
        runtime.spawn(reenter(tenure, request.clone()));
        return Ok(());
    }
    if request.patience == Patience::None {
        drop(desk);
        runtime.spawn(attempt_once(core.clone(), request.clone()));
        return Ok(());
    }
    let (now, round_trip) = (core.now(), core.engine.round_trip());
    let seat = desk.seat(&request.keys.lock);
    let releases = seat.releases();
    let driver = seat.driver.get_or_insert_with(|| {
        let mut driver = Driver::new(core.settings.unreachable_after, fastrand::u64(..));
        (0..releases).for_each(|_| driver.release_begins(now));
        driver
    });
    let id = driver.join(now, request.clone(), request.deadline, place, round_trip);
    request.place.store(id, Ordering::Release);
    if std::mem::replace(&mut seat.driven, true) {
        seat.news.notify_one();
        return Ok(());
    }
    drop(desk);
    runtime.spawn(drive(DriverTask { core: core.clone(), name: request.keys.lock.clone(), finished: false }));
    Ok(())
}

/// The task that does what the driver of a name decides.
struct DriverTask {
    core: Arc<Core>,
    name: Arc<str>,
    finished: bool,
}

/// What the task has under way besides sleeping.
#[derive(Default)]
struct UnderWay {
    attempt: Option<(u64, Why, Boxed<Attempted>)>,
    listen: Option<Boxed<std::result::Result<Subscription, Failure>>>,
    reconnect: Option<Boxed<()>>,
    /// What the server last said instead of an answer.
    trouble: Option<Failure>,
}

async fn drive(mut task: DriverTask) {
    let mut under_way = UnderWay::default();
    while let Some((next, news)) = task.next() {
        match next {
            Next::Attempt { id, cause } => task.begin_attempt(&mut under_way, id, cause),
            Next::Listen => task.begin_listening(&mut under_way),
            Next::TimedOut(late) => late.into_iter().for_each(|late| late.who.busy(late.waited, late.rest)),
            Next::Unreachable(late) => task.tell_unreachable(late, &under_way),
            Next::Sleep(until) => task.wait(&mut under_way, until, &news).await,
            Next::Done => return,
        }
    }
}

impl DriverTask {
    /// The driver's next step; `None` when there is nothing to drive any more.
    fn next(&mut self) -> Option<(Next<Arc<Request>>, Arc<tokio::sync::Notify>)> {
        let mut desk = unpoisoned(&self.core.desk);
        let seat = desk.seat_if_any(&self.name)?;
        let news = seat.news.clone();
        let next = seat.driver.as_mut()?.next(self.core.now());
        if matches!(next, Next::Done) || (self.core.is_closing() && matches!(next, Next::Sleep(_))) {
            let subscription = self.leave(seat);
            desk.tidy(&self.name);
            drop(desk);
            drop(subscription);
            return None;
        }
        Some((next, news))
    }

    fn leave(&mut self, seat: &mut super::desk::Seat) -> Option<Subscription> {
        self.finished = true;
        seat.driver = None;
        seat.driven = false;
        seat.subscription.take()
    }

    fn begin_attempt(&self, under_way: &mut UnderWay, id: u64, cause: Why) {
        let mut desk = unpoisoned(&self.core.desk);
        let Some(driver) = desk.seat_if_any(&self.name).and_then(|seat| seat.driver.as_mut()) else { return };
        let Some(request) = driver.waiter(id).cloned() else { return };
        driver.sent(self.core.now());
        drop(desk);
        tracing::trace!(lock = %self.name, cause = cause.as_str(), "attempt");
        let core = self.core.clone();
        under_way.reconnect = None;
        under_way.attempt = Some((id, cause, Box::pin(async move {
            // Nobody in particular waits for these: they do not crowd out the others.
            let _permit = match cause {
                Why::Arrival | Why::Message | Why::OwnRelease | Why::LastChance => None,
                _ => core.reattempts.clone().acquire_owned().await.ok(),
            };
            attempt(&core, &request).await
        })));
    }

    fn begin_listening(&self, under_way: &mut UnderWay) {
        let mut desk = unpoisoned(&self.core.desk);
        let Some(request) = desk
            .seat_if_any(&self.name)
            .and_then(|seat| seat.driver.as_ref())
            .and_then(Driver::any)
            .cloned()
        else {
            return;
        };
        drop(desk);
        let ear = NameEar::new(&self.core, self.name.clone());
        under_way.listen = Some(self.core.engine.listen(request.keys.channel.clone(), ear));
    }

    fn tell_unreachable(&self, late: Vec<Late<Arc<Request>>>, under_way: &UnderWay) {
        let failure = under_way.trouble.clone().or_else(|| self.core.engine.trouble());
        for late in late {
            late.who.fail(unreachable(&self.core, failure.clone(), late.waited));
        }
    }

    /// Sleeps until something ends, something is heard, or the time comes.
    async fn wait(&mut self, under_way: &mut UnderWay, until: Tick, news: &tokio::sync::Notify) {
        let clock = self.core.clock();
        let UnderWay { attempt, listen, reconnect, .. } = under_way;
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
            () = pending_or(reconnect.as_mut()) => {
                *reconnect = None;
                self.with_driver(|driver, now| driver.reconnected(now));
            }
            () = news.notified() => {}
            () = nap(&clock, until) => {}
        }
    }

    fn attempted(&self, under_way: &mut UnderWay, begun: Option<(u64, Why)>, attempted: Attempted) {
        let Some((id, cause)) = begun else { return };
        match attempted {
            Attempted::Granted(hold) => {
                under_way.trouble = None;
                self.granted(id, cause, hold);
            }
            Attempted::Busy(rest) => {
                under_way.trouble = None;
                self.with_driver(|driver, now| driver.found_busy(now, rest));
            }
            Attempted::Failed(failure @ (Failure::NotSent(_) | Failure::Unknown(_))) => {
                under_way.trouble = Some(failure);
                under_way.reconnect = Some(self.core.engine.ready(Lane::Commands));
                self.with_driver(|driver, now| driver.failed(now));
            }
            Attempted::Failed(Failure::Refused { code, message }) if attempt::waits_out(&code) => {
                under_way.trouble = Some(Failure::Refused { code, message });
                self.with_driver(|driver, now| driver.failed(now));
            }
            Attempted::Failed(failure) => {
                let all = self.with_driver(|driver, _| driver.refused()).unwrap_or_default();
                all.iter().for_each(|request| request.fail(failure.clone().into()));
            }
        }
    }

    fn granted(&self, id: u64, cause: Why, hold: Arc<Hold>) {
        let lease = hold.terms.lease;
        let to = self.with_driver(|driver, now| driver.granted(now, lease, id)).flatten();
        let Some((request, waited)) = to else { return hold.give_back() };
        figures::granted(cause.as_str(), waited);
        tracing::debug!(lock = %self.name, owner = %hold.tenure.id, cause = cause.as_str(), ?waited, "granted");
        let tenure = hold.tenure.clone();
        self.core.keeper().offer(hold, &request.slot);
        enter_with(&tenure);
    }

    fn listened(&self, listened: std::result::Result<Subscription, Failure>) {
        match listened {
            Ok(subscription) => {
                let mut desk = unpoisoned(&self.core.desk);
                let Some(seat) = desk.seat_if_any(&self.name) else { return };
                seat.subscription = Some(subscription);
                if let Some(driver) = &mut seat.driver {
                    driver.confirmed(self.core.now());
                }
            }
            Err(failure) => {
                self.core.say_blind(&failure);
                self.with_driver(|driver, now| driver.not_listening(now));
            }
        }
    }

    fn with_driver<T>(&self, f: impl FnOnce(&mut Driver<Arc<Request>>, Tick) -> T) -> Option<T> {
        let now = self.core.now();
        let mut desk = unpoisoned(&self.core.desk);
        desk.seat_if_any(&self.name)?.driver.as_mut().map(|driver| f(driver, now))
    }
}

impl Drop for DriverTask {
    /// The runtime ended under those who wait.
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut desk = unpoisoned(&self.core.desk);
        let Some(seat) = desk.seat_if_any(&self.name) else { return };
        let stranded = seat.driver.as_mut().map(|driver| driver.take(|_| true)).unwrap_or_default();
        let subscription = self.leave(seat);
        desk.tidy(&self.name);
        drop(desk);
        drop(subscription);
        for request in stranded {
            request.fail(Error::closed("the runtime that this client was connected in has ended"));
        }
    }
}

/// All others of that owner who wait for the name go in with it.
pub(crate) fn enter_with(tenure: &Arc<Tenure>) {
    let core = &tenure.core;
    let mut desk = unpoisoned(&core.desk);
    let Some(driver) = desk.seat_if_any(&tenure.keys.lock).and_then(|seat| seat.driver.as_mut()) else { return };
    let same = driver.take(|request| request.owner == tenure.owner);
    drop(desk);
    for request in same {
        match (request.reentry, core.runtime()) {
            (Reentry::IsAnError, _) => request.fail(Error::new(Cause::WouldDeadlock)),
            (Reentry::Enters, Ok(runtime)) => drop(runtime.spawn(reenter(tenure.clone(), request))),
            (Reentry::Enters, Err(error)) => request.fail(error),
        }
    }
}

/// One attempt, for a caller that does not wait; as long as a command may take.
async fn attempt_once(core: Arc<Core>, request: Arc<Request>) {
    let stranded = Stranded { request: &request };
    let begun = core.now();
    let limit = begun.after(core.settings.command_limit);
    let mut work = std::pin::pin!(attempt_until_sent(&core, &request));
    let attempted = tokio::select! {
        biased;
        attempted = &mut work => attempted,
        () = core.clock().sleep_until(limit) => {
            request.fail(unreachable(&core, core.engine.trouble(), core.settings.command_limit));
            // A grant may still come, and is given back then.
            work.await
        }
    };
    match attempted {
        Attempted::Granted(hold) => {
            figures::granted("arrival", core.now().since(begun));
            let tenure = hold.tenure.clone();
            core.keeper().offer(hold, &request.slot);
            enter_with(&tenure);
        }
        Attempted::Busy(rest) => {
            let inside = unpoisoned(&core.desk).live_tenure(&request.keys.lock, &request.owner);
            match inside {
                // The owner came in on another way meanwhile.
                Some(tenure) if request.reentry == Reentry::Enters => reenter(tenure, request.clone()).await,
                _ => request.busy(core.now().since(begun), Some(rest)),
            }
        }
        Attempted::Failed(failure) => request.fail(failure.into()),
    }
    drop(stranded);
}

/// Waits for our own releases of the name, then for a connection, then attempts.
async fn attempt_until_sent(core: &Arc<Core>, request: &Arc<Request>) -> Attempted {
    loop {
        let news = unpoisoned(&core.desk)
            .seat_if_any(&request.keys.lock)
            .filter(|seat| seat.releases() > 0)
            .map(|seat| seat.news.clone());
        if let Some(news) = news {
            let mut told = std::pin::pin!(news.notified());
            told.as_mut().enable();
            let still = unpoisoned(&core.desk).seat_if_any(&request.keys.lock).is_some_and(|seat| seat.releases() > 0);
            if still {
                told.await;
            }
            continue;
        }
        match attempt(core, request).await {
            Attempted::Failed(Failure::NotSent(_)) => core.engine.ready(Lane::Commands).await,
            other => return other,
        }
    }
}

/// Tells a caller whose task is dropped with its runtime.
struct Stranded<'a> {
    request: &'a Arc<Request>,
}

impl Drop for Stranded<'_> {
    fn drop(&mut self) {
        self.request.fail(Error::closed("the runtime that this client was connected in has ended"));
    }
}

fn unreachable(core: &Core, failure: Option<Failure>, waited: Duration) -> Error {
    match failure {
        Some(refused @ (Failure::Refused { .. } | Failure::Closed(_))) => refused.into(),
        Some(other) => Error::unreachable(format!("{} did not answer for {waited:.1?}: {other}", core.engine.address())),
        None => Error::unreachable(format!("{} did not answer for {waited:.1?}", core.engine.address())),
    }
}

/// A future that may not be there.
async fn pending_or<F: Future + Unpin>(future: Option<&mut F>) -> F::Output {
    match future {
        Some(future) => Pin::new(future).await,
        None => std::future::pending().await,
    }
}

/// Sleeps, also for less than the timer's grain of a millisecond.
async fn nap(clock: &crate::engine::Clock, until: Tick) {
    const GRAIN: Duration = Duration::from_micros(700);
    while !clock.is_virtual() && until.since(clock.now()) < GRAIN && clock.now() < until {
        tokio::task::yield_now().await;
    }
    clock.sleep_until(until).await;
}
