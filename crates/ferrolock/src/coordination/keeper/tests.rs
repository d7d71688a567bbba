//! Renewals that fail, hang and come late, and what the guard says of it, to the millisecond of virtual time.
#![allow(clippy::panic, reason = "test code: a failure ends the test")]

use std::sync::Arc;

use tokio::time::Instant;

use crate::coordination::keeper::Watched;
use crate::coordination::keeper::batch::Batch;
use crate::coordination::keeper::watch::Renewal;
use crate::engine::Lane;
use crate::error::LostReason;
use crate::guard::{Guard, HoldState};
use crate::inspect::Remaining;
use crate::protocol::call::Arg;
use crate::testing::lying::{Lie, Lying, Match, Reach, Seen, Silence};
use crate::testing::scenes::{insider, liar, ms};

const RENEW: &str = "lock/renew";

fn renewals() -> Match {
    Match::script(RENEW)
}

/// Cuts the keeper off; questions still reach the server.
fn cut_keeper(engine: &Lying, silence: Silence) {
    engine.partition(Reach::Lane(Lane::Keeper), silence);
    engine.partition(Reach::Lane(Lane::KeeperSpare), silence);
}

fn lease_of(seen: &Seen) -> i64 {
    match seen.args.get(1) {
        Some(Arg::Int(lease)) => *lease,
        other => panic!("no lease: {other:?}"),
    }
}

async fn becomes(guard: &Guard, wanted: HoldState) {
    while guard.state() != wanted {
        assert!(guard.is_held(), "{guard:?} instead of {wanted:?}");
        tokio::time::sleep(ms(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_away_is_noticed_a_margin_before_the_lease_ends() {
    for silence in [Silence::Hang, Silence::NotSent] {
        let (client, engine) = liar();
        let lock = client.lock("x").watchdog_lease(ms(2000));
        let guard = lock.lock().await.unwrap();
        engine.seen(RENEW, 3).await;
        tokio::time::sleep(ms(1)).await;
        cut_keeper(&engine, silence);
        let deadline = Instant::now() + guard.remaining();

        let reason = guard.lost().await;

        assert_eq!(reason, LostReason::Expired);
        // The timer's grain is a millisecond.
        let late = Instant::now() - deadline;
        assert!(late <= ms(1), "{silence:?}: {late:?}");
        let Remaining::Left(left) = lock.remaining().await.unwrap() else {
            panic!("{silence:?}: the key is gone");
        };
        assert!(
            left >= ms(98),
            "{silence:?}: {left:?} of a margin of 100 ms"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_that_end_before_the_deadline_are_survived() {
    for code in ["MISCONF", "NOREPLICAS", "READONLY", "LOADING", "BUSY"] {
        let (client, engine) = liar();
        let lock = client.lock("x").watchdog_lease(ms(3000));
        let guard = lock.lock().await.unwrap();
        let token = guard.cancellation_token();
        for _ in 0..10 {
            engine.always(renewals(), Lie::Refuse(code));
            becomes(&guard, HoldState::Uncertain).await;
            // Up to the last retry that can still help.
            tokio::time::sleep(guard.remaining() - ms(150)).await;
            assert!(guard.is_held(), "{code}");
            engine.honest();
            becomes(&guard, HoldState::Held).await;
        }

        assert!(!token.is_cancelled(), "{code}");
        assert!(guard.unlock().await.is_ok(), "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_that_do_not_end_lose_the_lock_at_the_deadline() {
    for code in ["MISCONF", "NOREPLICAS", "READONLY", "LOADING", "BUSY"] {
        let (client, engine) = liar();
        let lock = client.lock("x").watchdog_lease(ms(3000));
        let begun = Instant::now();
        engine.always(renewals(), Lie::Refuse(code));
        let guard = lock.lock().await.unwrap();

        let reason = guard.lost().await;

        assert_eq!(
            (reason, begun.elapsed()),
            (LostReason::Expired, ms(2850)),
            "{code}"
        );
        let tries = engine.log_of(RENEW).len();
        assert!(tries > 10, "{code}: {tries} tries");
        // A server that works again changes nothing for a lock that is lost, and gets no more calls for it.
        engine.honest();
        tokio::time::sleep(ms(10_000)).await;
        assert_eq!(engine.log_of(RENEW).len(), tries, "{code}");
        assert_eq!(
            guard.state(),
            HoldState::Lost(LostReason::Expired),
            "{code}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_200_ms_survives_one_hung_renewal() {
    for _ in 0..50 {
        let (client, engine) = liar();
        let lock = client.lock("x").watchdog_lease(ms(200));
        let guard = lock.lock().await.unwrap();
        engine.next_of(renewals(), Lie::Hang);

        tokio::time::sleep(ms(1000)).await;

        assert_eq!(guard.state(), HoldState::Held);
        assert_eq!(engine.hanging(), 1);
    }
}

/// As after a half-open connection: nothing on it is ever answered, and the second one has to be made first.
#[tokio::test(start_paused = true)]
async fn a_lease_of_200_ms_survives_a_hung_connection() {
    for _ in 0..50 {
        let (client, engine) = liar();
        let lock = client.lock("x").watchdog_lease(ms(200));
        let guard = lock.lock().await.unwrap();
        engine.always(renewals().on(Lane::Keeper), Lie::Hang);
        engine.next_of(renewals().on(Lane::KeeperSpare), Lie::NotSent);

        tokio::time::sleep(ms(1000)).await;

        assert!(guard.is_held(), "{guard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_goes_from_held_to_uncertain_and_back() {
    let (client, engine) = liar();
    let guard = client.lock("x").lock().await.unwrap();
    assert_eq!(guard.state(), HoldState::Held);
    for lie in [
        Lie::Hang,
        Lie::HangReply,
        Lie::DropCall,
        Lie::DropReply,
        Lie::NotSent,
    ] {
        engine.always(renewals(), lie);
        becomes(&guard, HoldState::Uncertain).await;
        assert!(guard.is_held() && guard.ensure_held().is_ok());
        engine.honest();
        engine.release();
        becomes(&guard, HoldState::Held).await;
        assert!(guard.remaining() > ms(15_000));
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_answer_does_not_revive_a_lost_lock() {
    for lie in [
        Lie::Hang,
        Lie::HangReply,
        Lie::DelayReply(ms(25_000)),
        Lie::DelayCall(ms(25_000)),
    ] {
        let (client, engine) = liar();
        let lock = client.lock("x");
        let guard = lock.lock().await.unwrap();
        engine.always(renewals(), lie.clone());
        assert_eq!(guard.lost().await, LostReason::Expired, "{lie:?}");
        let tries = engine.log_of(RENEW).len();

        engine.honest();
        engine.release();
        tokio::time::sleep(ms(60_000)).await;

        assert_eq!(
            guard.state(),
            HoldState::Lost(LostReason::Expired),
            "{lie:?}"
        );
        assert!(!guard.is_held() && guard.remaining().is_zero(), "{lie:?}");
        assert_eq!(
            engine.log_of(RENEW).len(),
            tries,
            "{lie:?}: not renewed any more"
        );
        assert!(
            lock.try_lock().await.unwrap().is_some(),
            "{lie:?}: its lease has ended"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_not_yours_does_not_change_why_a_lock_was_lost() {
    let (client, engine) = liar();
    let guard = client.lock("x").lock().await.unwrap();
    engine.always(renewals(), Lie::Hang);
    guard.lost().await;

    engine.forget();
    engine.release();
    tokio::time::sleep(ms(1000)).await;

    assert_eq!(guard.state(), HoldState::Lost(LostReason::Expired));
}

#[tokio::test(start_paused = true)]
async fn removed_data_is_noticed_with_the_next_renewal() {
    let (client, engine) = liar();
    let lock = client.lock("x");
    let guard = lock.lock().await.unwrap();
    engine.seen(RENEW, 1).await;
    let begun = Instant::now();
    tokio::time::sleep(ms(1)).await;
    engine.forget();

    let reason = guard.lost().await;

    assert_eq!(reason, LostReason::Removed);
    assert!(begun.elapsed() <= ms(10_001), "{:?}", begun.elapsed());
    assert!(!lock.is_locked().await.unwrap(), "nothing was written");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_another_client_holds_is_reported_as_taken_over() {
    let (client, engine) = liar();
    let guard = client.lock("x").lock().await.unwrap();
    engine.forget();
    let theirs = client.lock("x").lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::TakenOver);

    assert!(theirs.is_held());
    assert!(guard.unlock().await.is_err());
    assert!(theirs.check().await.is_ok(), "it was not freed");
}

#[tokio::test(start_paused = true)]
async fn max_hold_ends_at_the_cap_and_the_server_a_margin_later() {
    let (client, engine) = liar();
    let lock = client.lock("x").max_hold(ms(45_000));
    let begun = Instant::now();
    let guard = lock.lock().await.unwrap();

    let reason = guard.lost().await;

    assert_eq!((reason, begun.elapsed()), (LostReason::MaxHold, ms(45_000)));
    let cap = engine.log()[0].at.after(ms(45_000));
    for seen in engine.log_of(RENEW) {
        let end = seen.at.after(ms(lease_of(&seen).unsigned_abs()));
        assert!(end <= cap.after(ms(1500)), "{seen:?}");
    }
    let tries = engine.log_of(RENEW).len();
    tokio::time::sleep(ms(1499)).await;
    assert!(lock.is_locked().await.unwrap());
    tokio::time::sleep(ms(2)).await;
    assert!(!lock.is_locked().await.unwrap());
    tokio::time::sleep(ms(60_000)).await;
    assert_eq!(engine.log_of(RENEW).len(), tries);
}

#[tokio::test(start_paused = true)]
async fn a_fixed_lease_is_never_renewed_and_ends_at_its_deadline() {
    let (client, engine) = liar();
    let begun = Instant::now();
    let guard = client.lock("x").lease(ms(60_000)).lock().await.unwrap();

    assert_eq!(guard.lost().await, LostReason::Expired);

    assert_eq!(begun.elapsed(), ms(57_000));
    assert_eq!(engine.log_of(RENEW).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_an_unlock_or_a_drop() {
    for unlocks in [true, false] {
        let (client, engine) = liar();
        let guard = client.lock("x").lock().await.unwrap();
        engine.seen(RENEW, 2).await;
        if unlocks {
            guard.unlock().await.unwrap();
        } else {
            drop(guard);
        }
        let tries = engine.log_of(RENEW).len();

        tokio::time::sleep(ms(100_000)).await;

        assert_eq!(engine.log_of(RENEW).len(), tries);
        assert!(!client.lock("x").is_locked().await.unwrap());
    }
}

/// Released while renewals fail: a try that waits for a connection must not be sent when there is one again.
#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_after_a_release_amid_trouble() {
    for silence in [Silence::NotSent, Silence::Hang] {
        let (client, engine) = liar();
        let guard = client.lock("x").lock().await.unwrap();
        cut_keeper(&engine, silence);
        becomes(&guard, HoldState::Uncertain).await;
        guard.unlock().await.unwrap();
        let tries = engine.log_of(RENEW).len();

        engine.heal();
        tokio::time::sleep(ms(100_000)).await;

        assert_eq!(engine.log_of(RENEW).len(), tries, "{silence:?}");
        assert!(!client.lock("x").is_locked().await.unwrap());
    }
}

/// The first answer out of trouble counts as soon as there is a connection, however short the time that is left.
#[tokio::test(start_paused = true)]
async fn a_connection_that_comes_back_is_used_at_once() {
    let (client, engine) = liar();
    let guard = client.lock("x").lock().await.unwrap();
    cut_keeper(&engine, Silence::NotSent);
    becomes(&guard, HoldState::Uncertain).await;
    tokio::time::sleep(guard.remaining() - ms(2)).await;

    engine.heal();
    tokio::time::sleep(ms(1)).await;

    assert_eq!(guard.state(), HoldState::Held);
}

/// A guard may find its hold over by the clock while the answer to its renewal is being applied.
#[tokio::test(start_paused = true)]
async fn a_hold_that_was_found_lost_is_not_renewed() {
    let (client, engine, core) = insider();
    let guard = client.lock("x").lock().await.unwrap();
    engine.seen(RENEW, 1).await;
    tokio::time::sleep(ms(1)).await;
    for hold in core.keeper().holds() {
        assert!(hold.lose(LostReason::Expired));
    }

    tokio::time::sleep(ms(60_000)).await;

    assert_eq!(engine.log_of(RENEW).len(), 1);
    assert!(
        !client.lock("x").is_locked().await.unwrap(),
        "its lease has ended"
    );
    drop(guard);
}

/// The keeper ends an offer and, before it can take the grant back, the caller's future is polled.
#[tokio::test(start_paused = true)]
async fn a_grant_that_is_accepted_as_its_offer_ends_is_kept() {
    let (client, _engine, core) = insider();
    let first = client.lock("x").lock().await.unwrap();
    let mut lock = Box::pin(client.lock("x").lock());
    assert!(testkit::poll_once(lock.as_mut()).is_pending());
    first.unlock().await.unwrap();
    let offered = loop {
        tokio::task::yield_now().await;
        if let Some(hold) = core.keeper().holds().pop() {
            break hold;
        }
    };
    core.keeper().forget(&*offered);

    let guard = lock.await.unwrap();
    tokio::time::sleep(ms(100_000)).await;

    assert_eq!(guard.state(), HoldState::Held);
}

/// A try that waits for a connection asks for the lease that is right when it is sent, not when it began to wait.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_waited_for_its_connection_keeps_to_the_cap() {
    for wait in [ms(500), ms(2500), ms(4000)] {
        let (client, engine) = liar();
        let lock = client.lock("x").max_hold(ms(15_000));
        let guard = lock.lock().await.unwrap();
        cut_keeper(&engine, Silence::NotSent);
        engine.seen(RENEW, 1).await;
        tokio::time::sleep(wait).await;
        engine.heal();

        assert_eq!(guard.lost().await, LostReason::MaxHold);

        tokio::time::sleep(ms(1501)).await;
        assert!(!lock.is_locked().await.unwrap(), "after a wait of {wait:?}");
    }
}

/// The keeper has decided to renew, and before it does the hold is given back.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_was_due_at_a_release_is_not_sent() {
    let (client, engine, core) = insider();
    let guard = client.lock("x").lock().await.unwrap();
    let hold = core.keeper().holds().pop().unwrap();
    let id = hold.number().load(std::sync::atomic::Ordering::Acquire);
    guard.unlock().await.unwrap();

    let renewal = Renewal {
        id,
        hold: Watched {
            hold,
            offered: None,
        },
        troubles: 0,
        alone: false,
    };
    let batch = Batch {
        lane: Lane::Keeper,
        rows: vec![renewal],
    };
    core.keeper().clone().renew(batch).await;

    assert_eq!(engine.log_of(RENEW).len(), 0);
}

/// Wakers and log sinks are foreign code.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_waker_affects_no_other_hold() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this waker always does");
        }
    }
    let (client, engine, _) = insider();
    let first = client.lock("first").lease(ms(1000)).lock().await.unwrap();
    let second = client.lock("second").lease(ms(1000)).lock().await.unwrap();
    let renewed = client.lock("renewed").lock().await.unwrap();
    let token = second.cancellation_token();
    let mut lost = Box::pin(first.lost());
    let waker = std::task::Waker::from(Arc::new(Panics));
    let polled = lost
        .as_mut()
        .poll(&mut std::task::Context::from_waker(&waker));
    assert!(polled.is_pending());

    tokio::time::sleep(ms(2000)).await;

    assert!(token.is_cancelled());
    engine.seen(RENEW, 3).await;
    assert!(renewed.is_held());
}
