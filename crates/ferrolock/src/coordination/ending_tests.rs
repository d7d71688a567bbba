//! The end of a client: what its last handle waits for, and that no lock of ours is held while foreign code runs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Wake, Waker};

use testkit::poll_once;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::Owner;
use crate::coordination::Core;
use crate::coordination::waiting::attempt::{Attempt, Attempted};
use crate::coordination::waiting::{Patience, Request};
use crate::options::{LockOptions, Reentry, Settings};
use crate::protocol::lock::PlainScheme;
use crate::testing::lying::{Lie, Match, Reach, Silence};
use crate::testing::scenes::{insider, insider_with, ms};

const RELEASE: &str = "lock/release";

fn request(core: &Core, name: &str) -> Arc<Request> {
    Request::new(
        Arc::new(PlainScheme::new(name.into())),
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
    assert_eq!(core.pending.releases(), 1);

    engine.next_of(Match::script(RELEASE), Lie::DelayReply(ms(100)));
    drop(grant);
    assert_eq!(core.pending.releases(), 1);
    sleep(ms(99)).await;
    assert_eq!(core.pending.releases(), 1);
    sleep(ms(2)).await;
    assert_eq!(core.pending.all(), 0);
}

/// No task reads its answer: the keeper releases the field, and goes on until a release has found it.
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
    assert_eq!(core.pending.releases(), 0);
}

/// Answered while its client ends: the keeper no longer releases its field.
#[tokio::test(start_paused = true)]
async fn an_acquire_that_is_answered_at_the_end_of_its_client_is_not_searched_for() {
    let (client, engine, core) = insider();
    let held = client.lock("a").lock().await.unwrap();
    engine.next_of(Match::script("lock/acquire"), Lie::DelayReply(ms(35)));
    let asks = request(&core, "a");
    let mut attempt = Box::pin(Attempt::new(&core, &asks, core.now()));
    assert!(poll_once(attempt.as_mut()).is_pending());
    core.hand_over(core.now().after(ms(250)));
    assert_eq!(core.pending.releases(), 1);

    let answer = attempt.await;

    assert!(matches!(answer, Attempted::Busy(_)), "{answer:?}");
    sleep(ms(1)).await;
    assert_eq!(core.pending.releases(), 0);
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
    assert_eq!((core.pending.releases(), core.pending.all()), (0, 1));
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

/// As when `main` returns while a task still asks: the runtime drops the task, and with it the last handle.
#[test]
fn an_acquire_that_is_dropped_with_its_runtime_is_released_before_the_client_ends() {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let (engine, core) = runtime.block_on(async {
        let (client, engine, core) = insider_with(patient());
        engine.next_of(Match::script("lock/acquire"), Lie::HangReply);
        engine.always(Match::script(RELEASE), Lie::DelayCall(ms(20)));
        tokio::spawn(async move { drop(client.lock("a").lock().await) });
        while engine.log_of("lock/acquire").is_empty() {
            tokio::task::yield_now().await;
        }
        (engine, core)
    });

    drop(runtime);

    assert_eq!(core.pending.all(), 0);
    assert_eq!(engine.log_of(RELEASE).len(), 1);
}

/// On one thread: nothing can read the answer to the re-entry while the last handle waits.
#[tokio::test]
async fn a_reentry_that_was_given_up_does_not_keep_the_name_when_the_client_ends() {
    let (client, engine, core) = insider_with(patient());
    let lock = client.lock("a").owned_by(&Owner::new());
    let guard = lock.lock().await.unwrap();
    engine.next_of(Match::script("lock/reenter"), Lie::HangReply);
    {
        let mut again = pin!(lock.lock());
        while engine.log_of("lock/reenter").is_empty() {
            assert!(poll_once(again.as_mut()).is_pending());
            tokio::task::yield_now().await;
        }
    }
    drop(guard);
    drop(lock);

    drop(client);

    assert_eq!(engine.log_of(RELEASE).len(), 1);
    assert_eq!(core.pending.all(), 0);
}

/// A client whose last handle waits for as long as it takes.
fn patient() -> Settings {
    Settings {
        drop_limit: testkit::LIMIT,
        ..Settings::default()
    }
}

/// Attempts that no message asked for take turns, and a caller may go before its turn has come.
#[tokio::test(start_paused = true)]
async fn no_attempt_is_sent_for_a_caller_that_went_before_its_turn() {
    let (client, engine, core) = insider();
    let held = client.lock("a").lock().await.unwrap();
    let waiter = tokio::spawn(client.lock("a").lock());
    sleep(ms(100)).await;
    let others = core.reattempts.acquire_many(64).await.unwrap();
    // Its safety poll is due, and waits for its turn.
    sleep(ms(1100)).await;
    let sent = engine.log_of("lock/acquire").len();

    waiter.abort();
    sleep(ms(1)).await;
    drop(others);
    sleep(ms(100)).await;

    assert_eq!(engine.log_of("lock/acquire").len(), sent);
    drop(held);
}

/// A caller's waker is the program's: it may use the client again, at once.
struct UsesTheClient {
    core: Weak<Core>,
    woken: AtomicUsize,
}

impl Wake for UsesTheClient {
    fn wake(self: Arc<Self>) {
        if let Some(core) = self.core.upgrade() {
            assert!(
                core.names.try_lock().is_ok(),
                "the lock of the table of names is held"
            );
        }
        self.woken.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_that_fail_at_the_end_are_woken_while_no_lock_of_ours_is_held() {
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
