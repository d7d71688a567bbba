//! Many waiters: all get the lock, and what they cost together.
//!
//! The cost is counted on servers only: commands, connections, attempts in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use testkit::{Kind, LIMIT, Proxy, Server, Stalls, eventually_async};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::stage::{Stage, attempts, causes, listens, ms, unique};
use crate::support::{connect, connect_to, took};

stories!(
    three_hundred_waiters_of_one_name_are_served_one_after_the_other,
    a_thousand_names_are_waited_for_at_once,
);

stories_of_every_kind!(three_hundred_waiters_of_one_name_are_served_one_after_the_other);

on_each_server!(
    fifty_waiters_cost_at_most_two_commands_a_second,
    ten_thousand_names_are_waited_for_over_one_connection,
    ten_thousand_names_never_have_more_than_64_attempts_in_flight_after_their_connections_death,
);

/// The earliest first poll of a waiter.
const FIRST_POLL: Duration = ms(750);
/// A message passes through a few threads one after the other. If a poll came before it, at least one of these threads was
/// stalled for this time.
const STALL: Duration = ms(150);

/// Asserts that all waiters were woken, and none by the end of a lease. In real time some may have polled first, if the
/// machine stalled; of a kind of lock that sends no messages all do.
fn assert_no_wake_up_was_lost(stage: &Stage, causes: &[String], stalls: Stalls) {
    let led = |cause: &str| causes.iter().filter(|led| *led == cause).count();
    let (polled, late) = (led("safety_poll"), led("lease_end"));
    let longest = stalls.seen().last().copied().unwrap_or_default();
    let (who, all) = (stage.name(), causes.len());
    eprintln!("{who}: {polled} of {all} by a poll; stood still for {longest:?} at most");
    assert_eq!(late, 0, "{causes:?}");
    if stage.kind().cause("message") != Some("message") {
        return;
    }
    let has_stood_still = !stage.is_virtual() && longest > STALL;
    assert!(
        polled == 0 || has_stood_still && polled <= all / 10,
        "{polled} of {all} by a poll; stood still for {longest:?} at most"
    );
}

/// A third of them in each of three clients. No waiter gets the lock twice, and none while another holds it.
async fn three_hundred_waiters_of_one_name_are_served_one_after_the_other(stage: &Stage) {
    const EACH: usize = 100;
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.lock(&name).lock().await.unwrap();
    let inside = Arc::new(AtomicBool::new(false));
    let mut waiting = JoinSet::new();
    for client in [&us, &them, &stage.client().await] {
        for _ in 0..EACH {
            let (lock, inside) = (client.lock(&name).lock(), inside.clone());
            waiting.spawn(async move {
                let guard = lock.await.unwrap();
                assert!(!inside.swap(true, Ordering::SeqCst), "two are inside");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
                guard.unlock().await.unwrap();
            });
        }
    }
    // Each client's waiters have subscribed, and made their last attempt before they sleep.
    let confirmed = stage.kind().cause("confirmed").unwrap();
    causes::attempted(&name, confirmed, 3).await;
    let (begun, stalls) = (Instant::now(), Stalls::watch());

    held.unlock().await.unwrap();

    assert_eq!(waiting.join_all().await.len(), 3 * EACH);
    stage.took("300 waiters", begun, ms(3_000));
    assert!(stage.is_free(&name).await);
    // Each message is an event, after which the next poll is a long way off.
    assert_no_wake_up_was_lost(stage, &causes::of(&name), stalls);
}

async fn a_thousand_names_are_waited_for_at_once(stage: &Stage) {
    const NAMES: usize = 1_000;
    let (us, them) = stage.clients().await;
    let names: Vec<String> = (0..NAMES).map(|_| unique("n")).collect();
    let mut held = Vec::new();
    for name in &names {
        held.push(them.lock(name).lock().await.unwrap());
    }
    let (mut waiting, since) = (JoinSet::new(), Instant::now());
    for name in &names {
        let lock = us.lock(name).lock();
        waiting.spawn(async move { lock.await.unwrap().unlock().await.unwrap() });
    }
    for name in &names {
        listens(&us, name).await;
    }
    let (begun, stalls) = (Instant::now(), Stalls::watch());

    let mut releasing = JoinSet::new();
    for (name, guard) in names.into_iter().zip(held) {
        releasing.spawn(async move {
            guard.unlock().await.unwrap();
            (name, since.elapsed())
        });
    }

    let released = releasing.join_all().await;
    assert_eq!(waiting.join_all().await.len(), NAMES);
    stage.took("1,000 names", begun, ms(3_000));
    let cause = |name: &String| causes::last_of(name).unwrap();
    assert!(released.iter().all(|(name, _)| cause(name) != "lease_end"));
    // A poll that is under way when the name is released may get the lock: then no wake-up was lost.
    let is_before_polls = |after: &Duration| *after < FIRST_POLL - 2 * STALL;
    let early = released.iter().filter(|(_, after)| is_before_polls(after));
    let causes: Vec<_> = early.map(|(name, _)| cause(name)).collect();
    assert_no_wake_up_was_lost(stage, &causes, stalls);
}

/// How many commands clients sent since the last reset. Left out: calls made by scripts, commands of this test, and commands
/// that are sent once over each new connection.
fn commands(server: &Server) -> u64 {
    let left_out = [
        "hexists",
        "hget",
        "hset",
        "exists",
        "pexpire",
        "pttl",
        "del",
        "publish",
        "type",
        "info",
        "config|resetstat",
        "auth",
        "hello",
        "script|load",
        "client|setinfo",
        "client|setname",
    ];
    let stats = server.commandstats();
    stats
        .iter()
        .filter(|(name, _)| !left_out.contains(&name.as_str()))
        .map(|(_, calls)| calls)
        .sum()
}

async fn fifty_waiters_cost_at_most_two_commands_a_second(kind: Kind) {
    const SECONDS: u64 = 5;
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    let name = unique("a");
    let held = them
        .lock(&name)
        .lease(Duration::from_secs(60))
        .lock()
        .await
        .unwrap();
    let mut waiting = JoinSet::new();
    for _ in 0..50 {
        let lock = us.lock(&name).lock();
        waiting.spawn(async move { lock.await.unwrap().unlock().await.unwrap() });
    }
    listens(&us, &name).await;
    server.command(&["CONFIG", "RESETSTAT"]);

    tokio::time::sleep(Duration::from_secs(SECONDS)).await;

    let calls = commands(&server);
    eprintln!(
        "{}: 50 waiters: {calls} commands in {SECONDS} s",
        kind.name()
    );
    assert!(calls <= 2 * SECONDS, "{calls} commands in {SECONDS} s");
    held.unlock().await.unwrap();
    waiting.join_all().await;
}

async fn ten_thousand_names_are_waited_for_over_one_connection(kind: Kind) {
    const NAMES: usize = 10_000;
    let server = Server::start(kind);
    let us = connect(&server).await;
    let mut control = server.connect();
    let names = take_all(&mut control, NAMES);
    let mut waiting = JoinSet::new();
    for name in &names {
        let lock = us.lock(name).lock();
        waiting.spawn(async move { lock.await.unwrap().unlock().await.unwrap() });
    }
    // Twice more by safety polls: so the next poll of each is seconds away, and the new connection is not.
    all_asked(&server, 4 * NAMES).await;
    let channels = control.command(&["PUBSUB", "CHANNELS"]).list();
    assert_eq!(channels.len(), NAMES);
    let clients = control
        .command(&["CLIENT", "LIST", "TYPE", "pubsub"])
        .text();
    assert_eq!(clients.lines().count(), 1, "{clients}");

    control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);
    let begun = Instant::now();
    control.command(&["FLUSHALL"]);

    while let Some(served) = waiting.join_next().await {
        served.unwrap();
    }
    took(
        "10,000 names after their connection's death",
        kind.name(),
        begun,
        ms(10_000),
    );
    assert_eq!(server.keys(), Vec::<String>::new());
    // For some names a poll comes first, before the connection is up again: on a busy machine for most.
    let by_gap = |name: &&String| causes::last_of(name).is_some_and(|cause| cause == "gap");
    let woken = names.iter().filter(by_gap).count();
    eprintln!("{}: {woken} of {NAMES} by the gap", kind.name());
    assert!(woken >= NAMES / 100, "{woken} of {NAMES}");
}

/// Waits until the waiters of `names` names found them busy twice: when they came, and when they had subscribed.
async fn all_listen(server: &Server, names: usize) {
    all_asked(server, 2 * names).await;
}

/// Waits until so many attempts were made.
async fn all_asked(server: &Server, times: usize) {
    eventually_async(4 * LIMIT, "all have asked so often", async || {
        attempts(server) >= times as u64
    })
    .await;
}

/// Every attempt is under way for two delays at least. So if there were more than 64 in flight, more than 64 would reach the
/// server within that time.
async fn ten_thousand_names_never_have_more_than_64_attempts_in_flight_after_their_connections_death(
    kind: Kind,
) {
    const NAMES: usize = 10_000;
    const DELAY: Duration = ms(10);
    let server = Server::start(kind);
    let proxy = Proxy::start(server.address());
    let us = connect_to(&proxy.url()).await;
    let mut control = server.connect();
    let names = take_all(&mut control, NAMES);
    let mut waiting = JoinSet::new();
    for name in &names {
        waiting.spawn(us.lock(name).lock());
    }
    all_listen(&server, NAMES).await;
    proxy.delay(DELAY);
    // Attempts that were sent without the delay are answered before this.
    us.ping().await.unwrap();
    let monitor = server.monitor();
    control.command(&["CONFIG", "RESETSTAT"]);

    control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);

    eventually_async(4 * LIMIT, "all have asked again", async || {
        attempts(&server) >= NAMES as u64
    })
    .await;
    let came = came(&monitor.lines());
    let most = most_within(&came, DELAY * 2);
    eprintln!(
        "{}: {} attempts, at most {most} in flight",
        kind.name(),
        came.len()
    );
    assert!(most <= 64, "{most}");
    assert!(most > 32, "the limit was not even approached: {most}");
}

/// When attempts reached the server, by its clock.
fn came(lines: &[String]) -> Vec<Duration> {
    let attempts = lines.iter().filter(|line| line.contains("] \"EVALSHA\""));
    let stamp = |line: &String| line.split(' ').next().unwrap().parse().unwrap();
    attempts.map(stamp).map(Duration::from_secs_f64).collect()
}

/// The most attempts that came within any span of length `time`.
fn most_within(came: &[Duration], time: Duration) -> usize {
    let from = |first: usize| {
        came[first..]
            .iter()
            .take_while(|later| **later < came[first] + time)
            .count()
    };
    (0..came.len()).map(from).max().unwrap_or_default()
}

/// Takes that many names for an hour, as another owner; returns the names.
fn take_all(control: &mut testkit::Connection, count: usize) -> Vec<String> {
    let script = "for i = 0, ARGV[2] - 1 do local n = ARGV[1] .. i redis.call('HSET', n, 'someone:1', 1) redis.call('PEXPIRE', n, 3600000) end";
    let first = format!("{}/", unique("n"));
    control.command(&["EVAL", script, "0", &first, &count.to_string()]);
    (0..count).map(|n| format!("{first}{n}")).collect()
}
