//! Renewals that share a call: what each hold gets when the call is refused, lost or hangs, and when calls are made.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "test code: a failure ends the test"
)]

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::Client;
use crate::engine::{Lane, Tick};
use crate::error::LostReason;
use crate::guard::{Guard, HoldState};
use crate::options::Settings;
use crate::protocol::call::Arg;
use crate::testing::lying::{Lie, Lying, Match, Reach, Seen, Silence};
use crate::testing::scenes::{insider, insider_with, liar, ms, pair};

const RENEW: &str = "lock/renew";
const RELEASE: &str = "lock/release";

/// A third of the default lease.
const INTERVAL: Duration = Duration::from_secs(10);

fn renewals() -> Match {
    Match::script(RENEW)
}

/// Takes `count` locks at one moment.
async fn hold(client: &Client, count: usize) -> Vec<Guard> {
    let mut guards = Vec::new();
    for number in 0..count {
        let lock = client.lock(format!("n{number}"));
        guards.push(lock.lock().await.unwrap());
    }
    guards
}

/// The fields of a renewal's rows.
fn fields(seen: &Seen) -> Vec<Arc<[u8]>> {
    let field = |row: &[Arg]| match row {
        [Arg::Bytes(field), Arg::Int(_)] => field.clone(),
        other => panic!("no row: {other:?}"),
    };
    seen.args.chunks(2).map(field).collect()
}

fn names(seen: &Seen, guard: &Guard) -> bool {
    let field = guard.owner_id().to_string();
    fields(seen).iter().any(|of| **of == *field.as_bytes())
}

/// How many rows each renewal had, and which lane it took.
fn calls(engine: &Lying) -> Vec<(usize, Lane)> {
    let calls = engine.log_of(RENEW);
    calls
        .iter()
        .map(|seen| (fields(seen).len(), seen.lane))
        .collect()
}

fn all_are(guards: &[Guard], wanted: HoldState) -> bool {
    guards.iter().all(|guard| guard.state() == wanted)
}

/// Checks every millisecond, for `time`, that they are held and not uncertain.
async fn stay_held(guards: &[Guard], time: Duration) {
    let until = tokio::time::Instant::now() + time;
    while tokio::time::Instant::now() < until {
        assert!(all_are(guards, HoldState::Held));
        tokio::time::sleep(ms(1)).await;
    }
}

/// Also when there are so many that the keeper takes them in parts.
#[tokio::test(start_paused = true)]
async fn holds_of_one_client_are_renewed_by_the_hundred() {
    let (client, engine) = liar();
    let guards = hold(&client, 2550).await;

    tokio::time::sleep(INTERVAL).await;

    let mut expected = vec![(100, Lane::Keeper); 25];
    expected.push((50, Lane::Keeper));
    assert_eq!(calls(&engine), expected);
    let log = engine.log_of(RENEW);
    assert!(log.iter().all(|seen| seen.at == log[0].at));
    assert!(all_are(&guards, HoldState::Held));
}

#[tokio::test(start_paused = true)]
async fn holds_with_details_have_calls_of_their_own() {
    let (client, engine) = liar();
    let mut guards = hold(&client, 3).await;
    for name in ["a", "b"] {
        guards.push(client.lock(name).label("import").lock().await.unwrap());
    }

    tokio::time::sleep(ms(60_000)).await;

    assert!(all_are(&guards, HoldState::Held));
    let mut rows: Vec<usize> = calls(&engine).iter().map(|(rows, _)| *rows).collect();
    rows.truncate(2);
    rows.sort_unstable();
    assert_eq!(rows, [2, 3]);
}

#[tokio::test(start_paused = true)]
async fn each_hold_of_a_call_gets_its_own_answer() {
    let pair = pair("each_hold_of_a_call_gets_its_own_answer");
    let mut guards = hold(&pair.us, 100).await;
    for name in ["n0", "n1"] {
        assert!(pair.them.lock(name).force_unlock().await.unwrap());
    }
    let theirs = pair.them.lock("n0").lock().await.unwrap();
    guards.remove(2).unlock().await.unwrap();
    let removed = guards.remove(1);
    let taken = guards.remove(0);

    stay_held(&guards, ms(25_000)).await;

    assert_eq!(taken.state(), HoldState::Lost(LostReason::TakenOver));
    assert_eq!(removed.state(), HoldState::Lost(LostReason::Removed));
    assert!(theirs.is_held());
    let rows: Vec<usize> = calls(&pair.lying).iter().map(|(rows, _)| *rows).collect();
    assert_eq!(rows, [99, 97]);
}

/// It may have run or not: each hold is uncertain and tried again, together with the others.
#[tokio::test(start_paused = true)]
async fn a_call_without_an_answer_is_tried_again_as_one_over_the_other_connection() {
    for lie in [Lie::DropReply, Lie::DropCall, Lie::Hang, Lie::HangReply] {
        let (client, engine) = liar();
        let guards = hold(&client, 100).await;
        engine.next_of(renewals(), lie.clone());
        engine.seen(RENEW, 1).await;
        assert!(all_are(&guards, HoldState::Held), "{lie:?}");

        engine.seen(RENEW, 2).await;
        tokio::time::sleep(ms(1)).await;

        assert!(all_are(&guards, HoldState::Held), "{lie:?}");
        let both = [(100, Lane::Keeper), (100, Lane::KeeperSpare)];
        assert_eq!(calls(&engine), both, "{lie:?}");
    }
}

/// The limit of a renewal is a sixth of its own lease: the short one does not wait for the long one's.
#[tokio::test(start_paused = true)]
async fn in_a_call_that_hangs_each_hold_has_its_own_limit() {
    let settings = Settings {
        renew_every: Some(ms(1000)),
        ..Settings::default()
    };
    let (client, engine, _) = insider_with(settings);
    let mut guards = Vec::new();
    for (name, lease) in [("short", ms(3000)), ("long", ms(30_000))] {
        let lock = client.lock(name).watchdog_lease(lease);
        guards.push(lock.lock().await.unwrap());
    }
    engine.next_of(renewals(), Lie::Hang);

    tokio::time::sleep(ms(5500)).await;

    assert!(all_are(&guards, HoldState::Held));
    let log = engine.log_of(RENEW);
    assert_eq!(fields(&log[0]).len(), 2);
    // The limit, and a thirtieth of the lease: 500 and 100 ms; the limit of a command and 1,000 ms.
    for (guard, after) in guards.iter().zip([ms(600), ms(4000)]) {
        let again = log[1..].iter().find(|seen| names(seen, guard)).unwrap();
        assert_eq!(again.lane, Lane::KeeperSpare);
        let waited = again.at.since(log[0].at);
        // The timer's grain is a millisecond.
        assert!(waited >= after && waited <= after + ms(2), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_loses_all_at_their_deadline() {
    let (client, engine) = liar();
    let begun = tokio::time::Instant::now();
    let guards = hold(&client, 100).await;
    engine.always(renewals(), Lie::Hang);

    for guard in &guards {
        assert_eq!(guard.lost().await, LostReason::Expired);
        assert_eq!(begun.elapsed(), ms(28_500));
    }

    assert!(calls(&engine).iter().all(|(rows, _)| *rows == 100));
}

/// One key that the user has no right to: the server refuses every call that names it.
#[tokio::test(start_paused = true)]
async fn one_forbidden_key_costs_the_others_nothing() {
    let (client, engine) = liar();
    let mut guards = hold(&client, 100).await;
    engine.always(renewals().naming("n7"), Lie::Refuse("NOPERM"));
    let forbidden = guards.remove(7);
    let begun = tokio::time::Instant::now();

    stay_held(&guards, ms(28_499)).await;

    assert_eq!(forbidden.state(), HoldState::Uncertain);
    assert_eq!(forbidden.lost().await, LostReason::Expired);
    assert_eq!(begun.elapsed(), ms(28_500));
    // Refused, each alone, and from then on without the forbidden one, which is tried alone.
    let rows: Vec<usize> = calls(&engine).iter().map(|(rows, _)| *rows).collect();
    assert_eq!(rows[0], 100);
    assert!(rows[1..101].iter().all(|rows| *rows == 1), "{rows:?}");
    assert_eq!(
        rows.iter().filter(|rows| **rows == 99).count(),
        1,
        "{rows:?}"
    );
    stay_held(&guards, ms(60_000)).await;
}

/// As a proxy does that knows no scripts with keys of several slots.
#[tokio::test(start_paused = true)]
async fn where_no_call_may_have_many_rows_each_hold_is_renewed_alone() {
    let (client, engine) = liar();
    let guards = hold(&client, 10).await;
    for _ in 0..6 {
        engine.next_of(renewals(), Lie::Refuse("CROSSSLOT"));
        stay_held(&guards, INTERVAL).await;
    }

    let rows: Vec<usize> = calls(&engine).iter().map(|(rows, _)| *rows).collect();
    assert_eq!(
        rows.iter().filter(|rows| **rows == 10).count(),
        6,
        "{rows:?}"
    );
    assert_eq!(
        rows.iter().filter(|rows| **rows == 1).count(),
        60,
        "{rows:?}"
    );
}

/// A server that takes no writes would only be worse off with a call for each hold.
#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_not_asked_for_each_hold() {
    for code in ["READONLY", "LOADING", "BUSY", "MISCONF", "NOREPLICAS"] {
        let (client, engine) = liar();
        let guards = hold(&client, 100).await;
        engine.always(renewals(), Lie::Refuse(code));

        tokio::time::sleep(INTERVAL + ms(5000)).await;
        assert!(all_are(&guards, HoldState::Uncertain), "{code}");
        engine.honest();
        tokio::time::sleep(ms(2000)).await;

        assert!(all_are(&guards, HoldState::Held), "{code}");
        let calls = calls(&engine);
        assert!(calls.len() < 10, "{code}: {} calls", calls.len());
        assert!(calls.iter().all(|(rows, _)| *rows == 100), "{code}");
    }
}

/// The call waits for a connection, and before there is one a hold of it is given back.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_released_meanwhile_is_left_out() {
    for unlocks in [true, false] {
        let (client, engine) = liar();
        let mut guards = hold(&client, 100).await;
        for lane in [Lane::Keeper, Lane::KeeperSpare] {
            engine.partition(Reach::Lane(lane), Silence::NotSent);
        }
        engine.seen(RENEW, 1).await;
        tokio::time::sleep(ms(10)).await;
        let tries = engine.log_of(RENEW).len();
        let released = guards.remove(50);
        let field = released.owner_id().to_string();
        if unlocks {
            released.unlock().await.unwrap();
        } else {
            drop(released);
        }

        engine.heal();
        tokio::time::sleep(ms(60_000)).await;

        assert!(all_are(&guards, HoldState::Held));
        let later = &engine.log_of(RENEW)[tries..];
        assert_eq!(fields(&later[0]).len(), 99);
        let is_renewed = |seen: &Seen| fields(seen).iter().any(|of| **of == *field.as_bytes());
        assert!(!later.iter().any(is_renewed));
        assert!(!client.lock("n50").is_locked().await.unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn an_unlock_waits_for_the_call_that_renews_it_but_not_for_ever() {
    for (lie, waits) in [
        (Lie::DelayReply(ms(20)), ms(20)),
        (Lie::HangReply, ms(50)),
        (Lie::Hang, ms(50)),
    ] {
        let (client, engine) = liar();
        let mut guards = hold(&client, 100).await;
        engine.next_of(renewals(), lie.clone());
        engine.seen(RENEW, 1).await;

        guards.remove(50).unlock().await.unwrap();

        let (renewed, released) = (engine.log_of(RENEW)[0].at, engine.log_of(RELEASE)[0].at);
        let waited = released.since(renewed);
        assert!(
            waited >= waits && waited <= waits + ms(1),
            "{lie:?}: {waited:?}"
        );
        tokio::time::sleep(ms(20_000)).await;
        assert!(all_are(&guards, HoldState::Held), "{lie:?}");
    }
}

/// Wakers are foreign code: a panic in one must not affect the rows behind it.
#[tokio::test(start_paused = true)]
async fn a_panic_in_a_waker_costs_no_other_row() {
    struct Panics;
    impl std::task::Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("this waker always does");
        }
    }
    let (client, engine, _) = insider();
    let mut guards = hold(&client, 100).await;
    let first = guards.remove(0);
    client.lock("n0").force_unlock().await.unwrap();
    let mut lost = Box::pin(first.lost());
    let waker = std::task::Waker::from(Arc::new(Panics));
    let mut context = std::task::Context::from_waker(&waker);
    assert!(lost.as_mut().poll(&mut context).is_pending());

    stay_held(&guards, INTERVAL * 3).await;

    assert!(engine.log_of(RENEW).len() <= 3);
    assert!(!first.is_held());
}

/// Checks that no renewal came sooner than nine tenths of its interval after the one before, or later than the whole.
/// Returns how many there were.
fn check_windows(log: &[Seen], every: Duration) -> usize {
    let mut sent: HashMap<Arc<[u8]>, Tick> = HashMap::new();
    let mut renewed = 0;
    for seen in log {
        match (seen.script, seen.args.as_slice()) {
            ("lock/acquire", [Arg::Bytes(field), ..]) => {
                sent.insert(field.clone(), seen.at);
            }
            (RENEW, _) => {
                for field in fields(seen) {
                    let before = sent.insert(field, seen.at).unwrap();
                    let waited = seen.at.since(before);
                    assert!(waited >= every * 9 / 10 && waited <= every, "{waited:?}");
                    renewed += 1;
                }
            }
            _ => {}
        }
    }
    renewed
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_holds_are_renewed_in_time_with_ten_calls_a_second() {
    let (client, engine) = liar();
    let mut guards = Vec::new();
    for number in 0..10_000 {
        guards.push(client.lock(format!("n{number}")).lock().await.unwrap());
        tokio::time::sleep(ms(1)).await;
    }
    let (before, begun) = (calls(&engine).len(), tokio::time::Instant::now());

    tokio::time::sleep(ms(590_000)).await;

    let per_second = (calls(&engine).len() - before) as f64 / begun.elapsed().as_secs_f64();
    eprintln!("{per_second:.2} calls a second");
    assert!(per_second <= 11.0, "{per_second}");
    assert!(all_are(&guards, HoldState::Held));
    let renewed = check_windows(&engine.log(), INTERVAL);
    assert!(renewed >= 590_000, "{renewed}");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_holds_with_a_lease_of_an_hour_are_renewed_in_time_for_a_week() {
    const HOUR: Duration = Duration::from_secs(3600);
    const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
    let (client, engine) = liar();
    let mut guards = Vec::new();
    for number in 0..100 {
        let lock = client.lock(format!("n{number}")).watchdog_lease(HOUR);
        guards.push(lock.lock().await.unwrap());
        tokio::time::sleep(ms(1000)).await;
    }

    tokio::time::sleep(WEEK).await;

    assert!(all_are(&guards, HoldState::Held));
    let renewed = check_windows(&engine.log(), HOUR / 3);
    // Three an hour, the first ones earlier by less than a tenth.
    let (calls, rounds) = (calls(&engine).len(), 7 * 24 * 3);
    assert!(
        renewed >= 100 * rounds && renewed <= 100 * (rounds + 1),
        "{renewed}"
    );
    assert!(calls <= 3 * rounds, "{calls} calls");
    let owners: HashSet<String> = guards
        .iter()
        .map(|guard| guard.owner_id().to_string())
        .collect();
    assert_eq!(owners.len(), 100);
}
