//! Calls to a server that does not answer, in paused time: each ends with its limit, and its error says why.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

use crate::coordination::waiting::waiting_tests::{Pair, ms, pair, settle};
use crate::testing::lying::{Lie, Match, Reach, Silence};
use crate::{ErrorKind, Result};

const SILENCES: [Silence; 2] = [Silence::NotSent, Silence::Hang];
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
const UNREACHABLE_AFTER: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3600);

/// The call ends with `Unreachable`, not before its limit and at most 100 ms after it.
async fn ends<T: Debug>(what: &str, limit: Duration, call: impl Future<Output = Result<T>>) {
    let begun = Instant::now();
    let error = call.await.expect_err(what);
    let took = begun.elapsed();

    assert_eq!(error.kind(), ErrorKind::Unreachable, "{what}: {error}");
    assert!(took >= limit, "{what}: only {took:?}");
    assert!(took <= limit + ms(100), "{what}: {took:?} of {limit:?}");
}

impl Pair {
    fn falls_silent(&self, silence: Silence) {
        self.lying.partition(Reach::All, silence);
    }
}

#[tokio::test(start_paused = true)]
async fn every_question_to_a_silent_server_ends_with_the_limit_of_a_command() {
    for silence in SILENCES {
        let pair = pair(&format!("silence-questions-{silence:?}"));
        let lock = pair.us.lock("a");
        lock.lock().await.unwrap().unlock().await.unwrap();
        pair.falls_silent(silence);

        ends("ping", COMMAND_LIMIT, pair.us.ping()).await;
        ends("is_locked", COMMAND_LIMIT, lock.is_locked()).await;
        ends("remaining", COMMAND_LIMIT, lock.remaining()).await;
        ends("holders", COMMAND_LIMIT, lock.holders()).await;
        ends("force_unlock", COMMAND_LIMIT, lock.force_unlock()).await;
        ends("try_lock", COMMAND_LIMIT, lock.try_lock()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_silent_server_returns_unreachable_when_the_time_is_up() {
    for silence in SILENCES {
        for wait in [ms(0), ms(50), ms(700), ms(5000)] {
            let pair = pair(&format!("silence-fresh-{silence:?}-{wait:?}"));
            let lock = pair.us.lock("a").max_wait(wait);
            pair.falls_silent(silence);

            ends("lock", wait, lock.lock()).await;
            ends("try_lock_for", wait, lock.try_lock_for(wait)).await;
            ends("run", wait, lock.run(async |_| ())).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_knew_of_a_holder_does_not_call_a_silent_server_busy() {
    for silence in SILENCES {
        for (before, wait) in [(5, 400), (390, 400), (5, 3000), (1000, 8000)] {
            let pair = pair(&format!("silence-settled-{silence:?}-{before}-{wait}"));
            let _held = pair.them.lock("a").lease(HOUR).lock().await.unwrap();
            let waits = pair.us.lock("a").try_lock_for(ms(wait));
            let waits = tokio::spawn(async move { ends("try_lock_for", ms(wait), waits).await });
            tokio::time::sleep(ms(before)).await;

            pair.falls_silent(silence);

            waits.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_behind_an_unanswered_attempt_keeps_its_own_limit() {
    for silence in SILENCES {
        let pair = pair(&format!("silence-newcomer-{silence:?}"));
        pair.falls_silent(silence);
        let first = tokio::spawn(pair.us.lock("a").lock());
        tokio::time::sleep(ms(2000)).await;

        ends("lock", ms(300), pair.us.lock("a").max_wait(ms(300)).lock()).await;

        assert!(!first.is_finished());
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_without_limit_does_not_wait_for_a_server_for_ever() {
    for silence in SILENCES {
        let pair = pair(&format!("silence-endless-{silence:?}"));
        pair.falls_silent(silence);

        ends("lock", UNREACHABLE_AFTER, pair.us.lock("a").lock()).await;
        ends(
            "run",
            UNREACHABLE_AFTER,
            pair.us.lock("a").run(async |_| ()),
        )
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_of_a_silent_server_answers_within_the_limit_of_a_command() {
    for silence in SILENCES {
        let pair = pair(&format!("silence-guard-{silence:?}"));
        let guard = pair.us.lock("a").lease(HOUR).lock().await.unwrap();
        pair.falls_silent(silence);

        ends("check", COMMAND_LIMIT, guard.check()).await;
        ends("renew", COMMAND_LIMIT, guard.renew(HOUR)).await;
        ends("relock", UNREACHABLE_AFTER, guard.relock()).await;
        assert!(guard.is_held());
        ends("unlock", COMMAND_LIMIT, guard.unlock()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_goes_on_when_the_server_is_back_in_time() {
    for silence in SILENCES {
        let pair = pair(&format!("silence-back-{silence:?}"));
        let held = pair.them.lock("a").lock().await.unwrap();
        let waits = tokio::spawn(pair.us.lock("a").lock());
        settle().await;
        pair.falls_silent(silence);
        held.unlock().await.unwrap();
        tokio::time::sleep(ms(20_000)).await;
        assert!(!waits.is_finished());
        let begun = Instant::now();

        pair.lying.heal();

        assert!(waits.await.unwrap().unwrap().is_held());
        assert!(begun.elapsed() < ms(20), "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_was_given_up_is_not_made_when_the_server_is_back() {
    let pair = pair("silence-given-up");
    let lock = pair.us.lock("a");
    pair.falls_silent(Silence::NotSent);
    ends("try_lock", COMMAND_LIMIT, lock.try_lock()).await;
    let dropped = tokio::spawn(lock.try_lock());
    settle().await;
    dropped.abort();
    settle().await;
    let before = pair.lying.log_of("lock/acquire").len();

    pair.lying.heal();
    tokio::time::sleep(ms(5000)).await;

    assert_eq!(pair.lying.log_of("lock/acquire").len(), before);
}

#[tokio::test(start_paused = true)]
async fn a_call_after_an_outage_gets_the_lock_although_earlier_waiters_failed() {
    let pair = pair("silence-after");
    let held = pair.them.lock("a").lock().await.unwrap();
    let waits = tokio::spawn(pair.us.lock("a").lock());
    settle().await;
    pair.falls_silent(Silence::NotSent);
    assert_eq!(
        waits.await.unwrap().unwrap_err().kind(),
        ErrorKind::Unreachable
    );
    held.unlock().await.unwrap();
    pair.lying.heal();

    assert!(pair.us.lock("a").lock().await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_not_asked_in_a_loop_at_a_deadline() {
    let pair = pair("silence-loop");
    let lock = pair.us.lock("a").max_wait(ms(300));
    pair.lying
        .always(Match::script("lock/acquire"), Lie::Refuse("LOADING"));

    let error = lock.lock().await.unwrap_err();

    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    let attempts = pair.lying.log_of("lock/acquire").len();
    assert!(attempts <= 6, "{attempts} in 380 ms");
}

#[tokio::test(start_paused = true)]
async fn a_far_server_that_answers_is_busy_and_not_unreachable() {
    for wait in [300, 700, 1100, 1500, 1900, 2300] {
        let pair = pair(&format!("silence-far-{wait}"));
        let _held = pair.them.lock("a").lease(HOUR).lock().await.unwrap();
        pair.lying.always(Match::any(), Lie::DelayReply(ms(200)));
        let begun = Instant::now();

        let got = pair.us.lock("a").try_lock_for(ms(wait)).await;

        assert!(got.unwrap().is_none(), "{wait}");
        let took = begun.elapsed();
        assert!(took >= ms(wait) && took <= ms(wait + 100), "{took:?}");
    }
}
