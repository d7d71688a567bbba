//! The end of a client: what its last handle waits for, and that no lock of ours is held while code of others runs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use testkit::poll_once;
use tokio::time::sleep;

use super::Core;
use super::acquire::attempt::{Attempt, Attempted};
use super::acquire::{Patience, Request};
use super::scenes::{insider, ms};
use crate::Owner;
use crate::engine::lying::{Lie, Match, Reach, Silence};
use crate::options::{LockOptions, Reentry};
use crate::protocol::lock::LockKeys;

const RELEASE: &str = "lock/release";

fn request(core: &Core, name: &str) -> Arc<Request> {
    Request::new(
        Arc::new(LockKeys::new(name.into())),
        Owner::new(),
        core.settings.terms(&LockOptions::default()).unwrap(),
        None,
        Reentry::Enters,
        Patience::None,
        core.now(),
    )
}

/// Between the answer to an acquire whose caller has gone and the sending of its release, the last handle of the client
/// may look for what is under way: on another thread, at any moment.
#[tokio::test(start_paused = true)]
async fn the_last_handle_waits_for_a_grant_until_its_release_is_answered() {
    let (_client, engine, core) = insider();
    let attempt = Attempt::new(&core, &request(&core, "a"), core.now());

    let Attempted::Granted(grant) = attempt.await else {
        panic!("a free lock");
    };
    assert_eq!(core.errands.releases(), 1);

    engine.next_of(Match::script(RELEASE), Lie::DelayReply(ms(100)));
    grant.give_back();
    assert_eq!(core.errands.releases(), 1);
    sleep(ms(99)).await;
    assert_eq!(core.errands.releases(), 1);
    sleep(ms(2)).await;
    assert_eq!(core.errands.all(), 0);
}

/// Nothing reads its answer: the keeper releases the field, and goes on until a release has found it.
#[tokio::test(start_paused = true)]
async fn an_acquire_under_way_at_the_end_of_its_client_is_released_by_the_keeper() {
    let (client, engine, core) = insider();
    engine.next_of(Match::script("lock/acquire"), Lie::DelayCall(ms(35)));
    let asks = request(&core, "a");
    let mut attempt = pin!(Attempt::new(&core, &asks, core.now()));
    assert!(poll_once(attempt.as_mut()).is_pending());
    let weak = Arc::downgrade(&core);
    drop(core);

    drop(client);

    sleep(ms(100)).await;
    let tries = engine.log_of(RELEASE);
    assert_eq!(tries.len(), 5, "{tries:?}");
    let core = weak.upgrade().unwrap();
    assert_eq!(core.errands.releases(), 0);
}

/// Answered while its client ends: the keeper does not look for it any longer.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_answered_at_the_end_of_its_client_is_not_searched_for() {
    let (client, engine, core) = insider();
    let held = client.lock("a").lock().await.unwrap();
    engine.next_of(Match::script("lock/acquire"), Lie::DelayReply(ms(35)));
    let asks = request(&core, "a");
    let mut attempt = Box::pin(Attempt::new(&core, &asks, core.now()));
    assert!(poll_once(attempt.as_mut()).is_pending());
    core.hand_attempts_over(core.now().after(ms(250)));
    assert_eq!(core.errands.releases(), 1);

    let answer = attempt.await;

    assert!(matches!(answer, Attempted::Busy(_)), "{answer:?}");
    sleep(ms(1)).await;
    assert_eq!(core.errands.releases(), 0);
    assert!(held.is_held());
}

/// What an engine does when it is closed takes time; every client of the process needs the keeper meanwhile.
#[tokio::test(start_paused = true)]
async fn connections_end_while_the_keeper_is_free() {
    static CLOSED: AtomicUsize = AtomicUsize::new(0);
    let (client, engine, core) = insider();
    let guard = client.lock("a").lock().await.unwrap();
    engine.partition(Reach::All, Silence::NotSent);
    drop(guard);
    // Longer than a command may take: its release is a debt now.
    sleep(ms(3500)).await;
    assert_eq!((core.errands.releases(), core.errands.all()), (0, 1));
    let keeper = core.keeper().clone();
    engine.on_close(move || {
        assert!(keeper.is_free(), "the keeper's lock is held");
        CLOSED.fetch_add(1, Ordering::SeqCst);
    });
    drop((client, core));
    assert_eq!(CLOSED.load(Ordering::SeqCst), 0, "a release is owed");

    engine.heal();
    sleep(ms(4000)).await;

    assert_eq!(CLOSED.load(Ordering::SeqCst), 1);
}

/// A caller's waker is the program's: it may use the client again, at once.
struct UsesTheClient {
    core: Weak<Core>,
    woken: AtomicUsize,
}

impl Wake for UsesTheClient {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.core.upgrade() {
            assert!(core.desk.try_lock().is_ok(), "the desk's lock is held");
        }
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_that_are_turned_away_are_woken_while_the_desk_is_free() {
    let (client, _engine, core) = insider();
    let held = client.lock("a").lock().await.unwrap();
    let uses = Arc::new(UsesTheClient {
        core: Arc::downgrade(&core),
        woken: AtomicUsize::new(0),
    });
    let waker = Waker::from(uses.clone());
    let mut first = pin!(client.lock("a").lock());
    let mut second = pin!(client.lock("a").lock());
    let cx = &mut Context::from_waker(&waker);
    assert!(first.as_mut().poll(cx).is_pending());
    assert!(second.as_mut().poll(cx).is_pending());
    sleep(ms(10)).await;
    let before = uses.woken.load(Ordering::SeqCst);

    core.begin_closing();

    assert_eq!(uses.woken.load(Ordering::SeqCst), before + 2);
    assert!(first.await.is_err() && second.await.is_err());
    drop(held);
}
