//! A `lock()` future that was polled once and kept: it gets in nobody's way for longer than its offer lasts.

use std::pin::Pin;
use std::task::Poll;

use ferrolock::{Client, Guard, Lock};
use testkit::process::{Child, Role};
use testkit::{LIMIT, Monitor, Server, poll_once};
use tokio::time::Instant;

use crate::stage::{Stage, ms};

stories!(
    a_future_that_is_polled_once_on_a_free_name_stops_nobody,
    a_future_that_is_polled_once_and_kept_stops_nobody,
    an_offer_that_is_taken_in_time_is_a_hold_like_any_other,
);
stories_of_processes!(a_future_that_is_polled_once_and_kept_stops_no_other_process);

/// An offer lasts a third of it; a renewal would be due before the end of the offer.
const LEASE_MS: u64 = 2400;

/// Where a call is done when it is made, the future is ready at once, and there is no offer.
async fn a_future_that_is_polled_once_on_a_free_name_stops_nobody(stage: &Stage) {
    let (client, other) = stage.clients().await;
    let lock = client.lock("a").watchdog_lease(ms(LEASE_MS));
    let watch = NotRenewed::of(stage);
    let begun = Instant::now();
    let mut kept: Waiting = Box::pin(lock.lock());
    if let Poll::Ready(guard) = poll_once(kept.as_mut()) {
        guard.unwrap().unlock().await.unwrap();
        return;
    }
    let is_seen = is_seen(stage).await;

    let guard = other.lock("a").lock().await.unwrap();

    stage.took("behind an offer of 800 ms", begun, ms(1100));
    if is_seen {
        watch.check();
    }
    guard.unlock().await.unwrap();
    kept.await.unwrap().unlock().await.unwrap();
}

async fn a_future_that_is_polled_once_and_kept_stops_nobody(stage: &Stage) {
    let (client, other) = stage.clients().await;
    let lock = client.lock("a").watchdog_lease(ms(LEASE_MS));
    for behind in [&client, &other] {
        let watch = NotRenewed::of(stage);
        let mut kept = offered(stage, &other, &lock).await;
        let begun = Instant::now();

        let guard = behind.lock("a").lock().await.unwrap();

        stage.took("behind an offer of 800 ms", begun, ms(1100));
        watch.check();
        assert!(poll_once(kept.as_mut()).is_pending());
        guard.unlock().await.unwrap();
        kept.await.unwrap().unlock().await.unwrap();
    }
}

async fn an_offer_that_is_taken_in_time_is_a_hold_like_any_other(stage: &Stage) {
    let (client, other) = stage.clients().await;
    let lock = client.lock("a").watchdog_lease(stage.lease());

    let guard = offered(stage, &other, &lock).await.await.unwrap();
    tokio::time::sleep(stage.lease()).await;

    assert!(guard.is_held(), "renewed from the moment it was taken");
    assert!(other.lock("a").try_lock().await.unwrap().is_none());
}

/// Another process: takes the lock, says so, and lets it go when told.
pub(crate) fn other_process(role: &Role) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        role.say("ready");
        role.hear();
        let guard = client.lock("a").lock().await.unwrap();
        role.say("in");
        role.hear();
        guard.unlock().await.unwrap();
        role.say("out");
    });
}

async fn a_future_that_is_polled_once_and_kept_stops_no_other_process(stage: &Stage) {
    let (client, holder) = stage.clients().await;
    let mut other = Child::again("offers::other_process", &[&stage.url()]);
    other.hear(LIMIT);
    let watch = NotRenewed::of(stage);
    let lock = client.lock("a").watchdog_lease(ms(LEASE_MS));
    let mut kept = offered(stage, &holder, &lock).await;
    let begun = Instant::now();

    other.say("go");
    assert_eq!(other.hear(LIMIT), "in");

    stage.took("another process behind an offer of 800 ms", begun, ms(1100));
    watch.check();
    assert!(poll_once(kept.as_mut()).is_pending());
    other.say("go");
    assert_eq!(other.hear(LIMIT), "out");
    kept.await.unwrap().unlock().await.unwrap();
}

/// A future that was polled once while somebody else held the lock, and whose grant is on offer now. On a machine that stands
/// still an offer may be over before it is seen: then there is another one.
async fn offered(stage: &Stage, them: &Client, lock: &Lock) -> Waiting {
    let begun = std::time::Instant::now();
    while begun.elapsed() < LIMIT {
        let held = them.lock("a").lock().await.unwrap();
        let mut kept: Waiting = Box::pin(lock.lock());
        assert!(poll_once(kept.as_mut()).is_pending());
        // Whoever does not look at its first attempt is put into the line after a second.
        tokio::time::sleep(ms(1500)).await;
        held.unlock().await.unwrap();
        if is_seen(stage).await {
            return kept;
        }
    }
    panic!("nothing was offered");
}

type Waiting = Pin<Box<dyn Future<Output = ferrolock::Result<Guard>>>>;

/// Whether the lock is taken within the time of an offer.
async fn is_seen(stage: &Stage) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < ms(LEASE_MS / 3) {
        if !stage.is_free("a").await {
            return true;
        }
        tokio::time::sleep(ms(1)).await;
    }
    false
}

/// Nobody had it, so nobody may have renewed it: each time that a server set came with a field.
struct NotRenewed<'a>(Option<(&'a Server, Monitor)>);

impl<'a> NotRenewed<'a> {
    fn of(stage: &'a Stage) -> Self {
        Self(stage.server().map(|server| (server, server.monitor())))
    }

    fn check(&self) {
        let Some((server, monitor)) = &self.0 else {
            return;
        };
        server.command(&["PUBLISH", "the end", "of it"]);
        monitor.wait_for(|line| line.contains("the end"), LIMIT);
        let lines = monitor.lines();
        let calls = |command: &str| {
            let called = lines.iter().filter(|line| line.contains("lua]"));
            called
                .filter(|line| line.to_lowercase().contains(command))
                .count()
        };
        assert!(calls("\"hset\"") >= 2, "{lines:#?}");
        assert_eq!(calls("\"pexpire\""), calls("\"hset\""), "{lines:#?}");
    }
}
