//! A `lock()` future that was polled once and kept: it blocks no other caller for longer than its offer lasts.

use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use testkit::process::{Child, Role};
use testkit::{LIMIT, Monitor, Server, poll_once};
use tokio::time::Instant;

use crate::stage::{Party, Stage, TestGuard, TestLock, cause_of, causes, listens, ms, unique};

stories!(
    a_future_polled_once_on_a_free_name_blocks_no_other_caller,
    a_future_polled_once_and_kept_blocks_no_other_caller,
    an_offer_that_is_taken_in_time_is_a_hold_like_any_other,
);
stories_of_processes!(a_future_polled_once_and_kept_blocks_no_other_process);

/// An offer lasts a third of the lease; a renewal would be due before the end of the offer.
const LEASE: Duration = ms(2400);
const OFFER: Duration = ms(800);

/// On engines that finish the call within the first poll, the future is ready at once, and there is no offer.
async fn a_future_polled_once_on_a_free_name_blocks_no_other_caller(stage: &Stage) {
    let ((client, other), name) = (stage.clients().await, unique("a"));
    let lock = client.lock(&name).watchdog_lease(LEASE);
    let watch = NotRenewed::of(stage);
    let begun = Instant::now();
    let mut kept: Waiting = Box::pin(lock.lock());
    if let Poll::Ready(guard) = poll_once(kept.as_mut()) {
        guard.unwrap().unlock().await.unwrap();
        return;
    }
    watch.until_granted(&name);

    let guard = other.lock(&name).lock().await.unwrap();

    stage.took("behind an offer of 800 ms", begun, OFFER + ms(2));
    watch.check();
    guard.unlock().await.unwrap();
    kept.await.unwrap().unlock().await.unwrap();
}

async fn a_future_polled_once_and_kept_blocks_no_other_caller(stage: &Stage) {
    let (client, other) = stage.clients().await;
    for (behind, cause) in [(&client, "own_release"), (&other, "message")] {
        let name = unique("a");
        let lock = client.lock(&name).watchdog_lease(LEASE);
        let watch = NotRenewed::of(stage);
        let mut kept = offered(&other, (&client, &lock)).await;
        let begun = Instant::now();

        let guard = behind.lock(&name).lock().await.unwrap();

        stage.took("behind an offer of 800 ms", begun, OFFER + ms(2));
        let led = cause_of(&guard);
        match stage.is_virtual() {
            true => assert_eq!(Some(&*led), stage.kind().cause(cause)),
            // A poll may be due while the offer ends.
            false => assert!(
                ["own_release", "message", "safety_poll"].contains(&&*led),
                "{led}"
            ),
        }
        watch.check();
        assert!(poll_once(kept.as_mut()).is_pending());
        guard.unlock().await.unwrap();
        kept.await.unwrap().unlock().await.unwrap();
    }
}

async fn an_offer_that_is_taken_in_time_is_a_hold_like_any_other(stage: &Stage) {
    let ((client, other), name) = (stage.clients().await, unique("a"));
    let lock = client.lock(&name).watchdog_lease(stage.lease());

    let guard = offered(&other, (&client, &lock)).await.await.unwrap();
    tokio::time::sleep(stage.lease()).await;

    assert!(guard.is_held(), "renewed from the moment it was taken");
    assert!(other.lock(&name).try_lock().await.unwrap().is_none());
}

/// Another process: takes the lock and reports it, and releases it when the test says so.
pub(crate) fn other_process(role: &Role) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Party::at(&role.args()[0]).await;
        role.say("ready");
        role.hear();
        let guard = client.lock(&role.args()[1]).lock().await.unwrap();
        role.say("in");
        role.hear();
        guard.unlock().await.unwrap();
        role.say("out");
    });
}

async fn a_future_polled_once_and_kept_blocks_no_other_process(stage: &Stage) {
    let ((client, holder), name) = (stage.clients().await, unique("a"));
    let mut other = Child::again("offers::other_process", &[&stage.address(), &name]);
    other.hear(LIMIT);
    let watch = NotRenewed::of(stage);
    let lock = client.lock(&name).watchdog_lease(LEASE);
    let mut kept = offered(&holder, (&client, &lock)).await;
    let begun = Instant::now();

    other.say("go");
    assert_eq!(other.hear(LIMIT), "in");

    stage.took("another process behind an offer of 800 ms", begun, OFFER);
    watch.check();
    assert!(poll_once(kept.as_mut()).is_pending());
    other.say("go");
    assert_eq!(other.hear(LIMIT), "out");
    kept.await.unwrap().unlock().await.unwrap();
}

/// A future of the client that was polled once while another client held the lock, and whose grant is on offer now.
async fn offered(them: &Party, (client, lock): (&Party, &TestLock)) -> Waiting {
    let held = them.lock(lock.name()).lock().await.unwrap();
    let mut kept: Waiting = Box::pin(lock.lock());
    assert!(poll_once(kept.as_mut()).is_pending());
    // A future that is not polled after its first attempt is put among the waiters after a while, and listens then.
    listens(client, lock.name()).await;
    held.unlock().await.unwrap();
    causes::told(causes::GRANTED, lock.name(), 2).await;
    kept
}

type Waiting = Pin<Box<dyn Future<Output = ferrolock::Result<TestGuard>>>>;

/// Checks that no client has renewed an offer, because no caller held the lock: the server has set as many leases as it has
/// written fields.
struct NotRenewed<'a>(Option<(&'a Server, Monitor)>);

impl<'a> NotRenewed<'a> {
    fn of(stage: &'a Stage) -> Self {
        Self(stage.server().map(|server| (server, server.monitor())))
    }

    /// Waits until the server has written the first field of the lock.
    fn until_granted(&self, name: &str) {
        if let Some((_, monitor)) = &self.0 {
            let field = format!("\"HSET\" \"{name}\"");
            monitor.wait_for(|line| line.contains(&field), LIMIT);
        }
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
