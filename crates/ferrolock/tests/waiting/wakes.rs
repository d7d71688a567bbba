//! What ends a wait: every way in which a lock becomes free, with a message and without.
//!
//! Each story asserts what led to the grant: a waiter that is not woken gets the lock all the same, by a poll a little later.
//!
//! On servers only: a subscriber is killed under its waiter, a message is lost on its way, a key is deleted by hand, which is
//! not announced. The embedded engines have no connections, and only the library changes their keys.

use std::time::Duration;

use testkit::process::{Child, Role};
use testkit::{Kind, LIMIT, Proxy, Server};
use tokio::time::Instant;

use crate::stage::{
    Party, Stage, assert_led_to, cause_of, causes, listens, ms, rests, unique, waits,
};
use crate::support::{connect, connect_to, took};

const HOUR: Duration = Duration::from_secs(3600);
/// A lease that ends while no safety poll is near: the first ones come after 0.75 to 1 s and after 2.25 to 3 s.
const BRIEF: Duration = Duration::from_secs(2);

stories!(
    a_waiter_gets_the_lock_after_a_release,
    a_waiter_gets_the_lock_after_a_guard_was_dropped,
    a_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends,
    a_waiter_gets_the_lock_after_a_forced_unlock,
    a_waiter_gets_the_lock_when_a_delayed_unlock_is_due,
);

stories_of_processes!(
    a_waiter_gets_the_lock_that_another_process_releases,
    a_waiter_gets_the_lock_of_a_process_that_was_killed,
);

stories_of_every_kind!(
    a_waiter_gets_the_lock_after_a_release,
    a_waiter_gets_the_lock_of_a_process_that_was_killed,
);

on_each_server!(
    a_waiter_gets_the_lock_after_its_subscriber_was_killed_under_it,
    a_waiter_gets_a_lock_that_was_released_while_it_could_not_listen,
    a_waiter_gets_a_lock_that_was_released_while_it_could_not_ask,
    a_waiter_gets_the_lock_although_the_message_was_lost,
    a_waiter_needs_no_message_from_its_own_client,
    a_waiter_gets_a_lock_that_was_deleted_by_hand,
    a_waiter_that_has_settled_gets_a_lock_that_was_deleted_by_hand,
);

async fn a_waiter_gets_the_lock_after_a_release(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.lock(&name).lock().await.unwrap();
    let waiter = waits(&us, &name);
    stage.rests(&us, &name).await;
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert_led_to("message", &waiter.await.unwrap());
    stage.took_no_time("after a release", begun);
}

async fn a_waiter_gets_the_lock_after_a_guard_was_dropped(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.lock(&name).lock().await.unwrap();
    let waiter = waits(&us, &name);
    stage.rests(&us, &name).await;
    let begun = Instant::now();

    drop(held);

    assert_led_to("message", &waiter.await.unwrap());
    stage.took_no_time("after a drop", begun);
}

async fn a_waiter_gets_the_lock_when_the_lease_of_a_dead_holder_ends(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let begun = Instant::now();
    let held = them.lock(&name).lease(BRIEF).lock().await.unwrap();
    std::mem::forget(held);

    let guard = us.lock(&name).lock().await.unwrap();

    assert_led_to("lease_end", &guard);
    assert!(begun.elapsed() >= BRIEF, "{:?}", begun.elapsed());
    stage.took("after the end of a lease of 2 s", begun, BRIEF + ms(10));
}

async fn a_waiter_gets_the_lock_after_a_forced_unlock(stage: &Stage) {
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let _held = them.lock(&name).lock().await.unwrap();
    let waiter = waits(&us, &name);
    stage.rests(&us, &name).await;
    let begun = Instant::now();

    assert!(them.lock(&name).force_unlock().await.unwrap());

    assert_led_to("message", &waiter.await.unwrap());
    stage.took_no_time("after a forced unlock", begun);
}

/// No message announces when the delay will be over: a poll finds out, and from then on the waiter knows the end.
async fn a_waiter_gets_the_lock_when_a_delayed_unlock_is_due(stage: &Stage) {
    /// At least a second after one poll and before the next, in virtual and in real time.
    const DELAY: Duration = ms(3_250);
    let ((us, them), name) = (stage.clients().await, unique("a"));
    let held = them.lock(&name).lock().await.unwrap();
    let waiter = waits(&us, &name);
    stage.rests(&us, &name).await;
    let begun = Instant::now();

    held.unlock_after(DELAY).await.unwrap();

    assert_led_to("lease_end", &waiter.await.unwrap());
    assert!(begun.elapsed() >= DELAY - ms(10), "{:?}", begun.elapsed());
    stage.took("after a delay of 3.25 s", begun, DELAY + ms(10));
}

/// Takes the lock and reports it, and releases it when the test says so.
pub(crate) fn holder(role: &Role) {
    let runtime = crate::stage::stories::threads();
    runtime.block_on(async {
        let [address, lease_ms, name] = role.args() else {
            panic!("three arguments: {role:?}");
        };
        let client = Party::at(address).await;
        let lock = client
            .lock(name)
            .watchdog_lease(ms(lease_ms.parse().unwrap()));
        let guard = lock.lock().await.unwrap();
        role.say("in");
        role.hear();
        guard.unlock().await.unwrap();
        role.say("out");
        role.hear();
    });
}

/// Starts another process; returns when it holds the lock.
fn holder_elsewhere(stage: &Stage, lease: Duration, name: &str) -> Child {
    let lease = lease.as_millis().to_string();
    let mut holder = Child::again("wakes::holder", &[&stage.address(), &lease, name]);
    assert_eq!(holder.hear(LIMIT), "in");
    holder
}

async fn a_waiter_gets_the_lock_that_another_process_releases(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let mut holder = holder_elsewhere(stage, HOUR, &name);
    let waiter = waits(&us, &name);
    stage.rests(&us, &name).await;
    let begun = Instant::now();

    holder.say("let go");

    assert_led_to("message", &waiter.await.unwrap());
    stage.took_no_time("after a release elsewhere", begun);
    assert_eq!(holder.hear(LIMIT), "out");
}

/// On a server after the lease, because the server cannot know of the death; with a file at once, because the system reports
/// the death.
async fn a_waiter_gets_the_lock_of_a_process_that_was_killed(stage: &Stage) {
    let (us, name) = (stage.client().await, unique("a"));
    let is_server = stage.server().is_some();
    let (lease, cause, promised) = match is_server {
        true => (BRIEF, "lease_end", BRIEF + ms(10)),
        false => (HOUR, "message", ms(1_000)),
    };
    let mut holder = holder_elsewhere(stage, lease, &name);
    let waiter = waits(&us, &name);
    match is_server {
        // After three failed attempts the next safety poll is farther away than the end of any lease of 2 s.
        true => causes::told(causes::ATTEMPT, &name, 4).await,
        false => stage.rests(&us, &name).await,
    }
    let begun = Instant::now();

    holder.kill();

    assert_led_to(cause, &waiter.await.unwrap());
    stage.took("after its holder was killed", begun, promised);
}

/// Rounds in which the subscriber dies at different moments around the waiter's attempts, and no subscriber receives the
/// release. The waiter gets the lock within the time of a reconnect, long before the lease ends or a settled poll is due.
async fn a_waiter_gets_the_lock_after_its_subscriber_was_killed_under_it(kind: Kind) {
    const ROUNDS: u64 = 20;
    /// If the machine stalls, a poll may come first.
    const POLLED_MAX: usize = 2;
    let server = Server::start(kind);
    let them = connect(&server).await;
    let mut control = server.connect();
    let begun = Instant::now();
    let mut led = Vec::new();
    for round in 0..ROUNDS {
        // A new client each time: a client whose connection dies again and again reconnects more slowly each time.
        let (us, name) = (connect(&server).await, unique("a"));
        let held = them.lock(&name).lease(HOUR).lock().await.unwrap();
        let waiter = waits(&us, &name);
        // The later rounds kill in the middle of subscribing and attempting; the first when all is at rest.
        match round {
            0..4 => listens(&us, &name).await,
            _ => tokio::time::sleep(Duration::from_micros(150 * (round - 4))).await,
        }
        control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]);

        held.unlock().await.unwrap();

        let guard = waiter.await.unwrap();
        led.push(cause_of(&guard));
        guard.unlock().await.unwrap();
    }
    let polled = led.iter().filter(|cause| *cause == "safety_poll").count();
    assert!(polled <= POLLED_MAX, "{led:?}");
    eprintln!("{}: {led:?}", kind.name());
    took(
        "20 times after the subscriber's death",
        kind.name(),
        begun,
        ms(20 * 100),
    );
}

/// As when a connection is cut: no client receives the message, and the waiter learns only that it may have missed messages.
async fn a_waiter_gets_a_lock_that_was_released_while_it_could_not_listen(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let proxy = Proxy::start(server.address());
    let us = connect_to(&proxy.url()).await;
    let them = connect(&server).await;
    let held = them.lock(&name).lease(HOUR).lock().await.unwrap();
    let waiter = waits(&us, &name);
    rests(&us, &name).await;
    proxy.refuse(true);
    let subscribers = proxy.cut_matching(|sent| contains(sent, "SUBSCRIBE"));
    assert_eq!(subscribers, 1);

    held.unlock().await.unwrap();
    let begun = Instant::now();
    proxy.refuse(false);

    assert_led_to("gap", &waiter.await.unwrap());
    took("after an interruption", kind.name(), begun, ms(100));
}

/// The message comes while the waiter has no connection for its attempt: it tries again when it is connected.
async fn a_waiter_gets_a_lock_that_was_released_while_it_could_not_ask(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let proxy = Proxy::start(server.address());
    let us = connect_to(&proxy.url()).await;
    let them = connect(&server).await;
    let held = them.lock(&name).lease(HOUR).lock().await.unwrap();
    let waiter = waits(&us, &name);
    rests(&us, &name).await;
    proxy.refuse(true);
    let askers = proxy.cut_matching(|sent| contains(sent, "EVALSHA"));
    assert_eq!(askers, 1);

    held.unlock().await.unwrap();
    causes::attempted(&name, "message", 1).await;
    let begun = Instant::now();
    proxy.refuse(false);

    assert_led_to("reconnected", &waiter.await.unwrap());
    took("after it could ask again", kind.name(), begun, ms(200));
}

fn contains(sent: &[u8], word: &str) -> bool {
    sent.windows(word.len()).any(|part| part == word.as_bytes())
}

async fn a_waiter_gets_the_lock_although_the_message_was_lost(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let proxy = Proxy::start(server.address());
    let us = connect_to(&proxy.url()).await;
    let them = connect(&server).await;
    let held = them.lock(&name).lease(HOUR).lock().await.unwrap();
    let waiter = waits(&us, &name);
    listens(&us, &name).await;
    proxy.drop_pushes(true);
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert_led_to("safety_poll", &waiter.await.unwrap());
    took("after a lost message", kind.name(), begun, ms(2000));
    assert_eq!(proxy.pushes_dropped(), 1);
}

/// When a client releases a lock, the server's answer wakes the client's own waiters.
async fn a_waiter_needs_no_message_from_its_own_client(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let proxy = Proxy::start(server.address());
    let us = connect_to(&proxy.url()).await;
    let held = us.lock(&name).lease(HOUR).lock().await.unwrap();
    let waiter = waits(&us, &name);
    rests(&us, &name).await;
    proxy.drop_pushes(true);
    let begun = Instant::now();

    held.unlock().await.unwrap();

    assert_led_to("own_release", &waiter.await.unwrap());
    took("after a release beside it", kind.name(), begun, ms(100));
}

async fn a_waiter_gets_a_lock_that_was_deleted_by_hand(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let (us, them) = (connect(&server).await, connect(&server).await);
    std::mem::forget(them.lock(&name).lease(HOUR).lock().await.unwrap());
    let waiter = waits(&us, &name);
    listens(&us, &name).await;
    let begun = Instant::now();

    server.command(&["DEL", &name]);

    assert_led_to("safety_poll", &waiter.await.unwrap());
    took("after a DEL, fresh", kind.name(), begun, ms(2000));
}

/// The pauses between its polls double, beginning with one second; after the fourth they have reached their maximum.
async fn a_waiter_that_has_settled_gets_a_lock_that_was_deleted_by_hand(kind: Kind) {
    let (server, name) = (Server::start(kind), unique("a"));
    let (us, them) = (connect(&server).await, connect(&server).await);
    std::mem::forget(them.lock(&name).lease(HOUR).lock().await.unwrap());
    let waiter = waits(&us, &name);
    causes::attempted(&name, "safety_poll", 4).await;
    let begun = Instant::now();

    server.command(&["DEL", &name]);

    assert_led_to("safety_poll", &waiter.await.unwrap());
    took("after a DEL, settled", kind.name(), begun, ms(10_000));
}
