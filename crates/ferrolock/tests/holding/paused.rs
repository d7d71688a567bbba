//! A process that was stopped past its deadline: its first check afterwards already says lost.
//!
//! The holder is a process of its own. It checks all the time, and notices the stop by the clock: a check that began after
//! the stop must say lost. (No process can notice a pause between a check and the code that follows it.)

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use ferrolock::{AnyGuard, ErrorKind};
use testkit::process::{Child, Role};
use testkit::{LIMIT, poll_once};

use crate::stage::{Party, Stage, TestGuard, TestLock, ms};

const LEASE: Duration = ms(1000);
const ROUNDS: usize = 2;

stories_of_processes!(a_process_stopped_past_its_deadline_finds_its_lock_lost);

async fn a_process_stopped_past_its_deadline_finds_its_lock_lost(stage: &Stage) {
    for way in ["is_held", "lost", "lost polled before", "run"] {
        let mut holder = Child::again("paused::holder", &[&stage.address(), way]);
        for round in 0..ROUNDS {
            assert_eq!(holder.hear(LIMIT), "looking", "{way}");
            holder.stop_signal();
            wait_for_the_end_of_the_lease(stage).await;
            holder.cont_signal();

            assert_eq!(
                holder.hear(LIMIT),
                "lost at the first look",
                "{way}, round {round}"
            );
        }
    }
}

/// A server is asked. A file store may be blocked, if the holder was stopped inside a change: there the test waits for as
/// long as the lease.
async fn wait_for_the_end_of_the_lease(stage: &Stage) {
    match stage.server() {
        Some(_) => stage.freed("paused").await,
        None => tokio::time::sleep(LEASE).await,
    }
}

/// Checks in the way that its arguments name, and reports what it saw.
pub(crate) fn holder(role: &Role) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Party::at(&role.args()[0]).await;
        let lock = client.lock("paused").watchdog_lease(LEASE);
        let looking = || role.say("looking");
        for _ in 0..ROUNDS {
            let late = match role.args()[1].as_str() {
                "is_held" => late_checks(&lock, looking, |guard| !guard.is_held()).await,
                "lost" => {
                    let first_poll = |guard: &TestGuard| poll_once(pin!(guard.lost())).is_ready();
                    late_checks(&lock, looking, first_poll).await
                }
                "lost polled before" => late_polls(&lock, looking).await,
                _ => late_steps(&lock, looking).await,
            };
            match late {
                0 => role.say("lost at the first look"),
                late => role.say(&format!("{late} looks after the stop still said held")),
            }
        }
        // The parent ends this process.
        role.hear();
    });
}

/// How often a check that began after the stop said held.
async fn late_checks(
    lock: &TestLock,
    looking: impl Fn(),
    is_lost: impl Fn(&TestGuard) -> bool,
) -> usize {
    let guard = lock.lock().await.unwrap();
    looking();
    count_late(|| is_lost(&guard))
}

/// The same for one future that was pending before the stop.
async fn late_polls(lock: &TestLock, looking: impl Fn()) -> usize {
    let guard = lock.lock().await.unwrap();
    let mut lost = pin!(guard.lost());
    assert!(poll_once(lost.as_mut()).is_pending());
    looking();
    count_late(|| poll_once(lost.as_mut()).is_ready())
}

fn count_late(mut is_lost: impl FnMut() -> bool) -> usize {
    let mut clock = StopClock::new();
    let mut late = 0;
    loop {
        let began_after_the_stop = clock.stopped();
        if is_lost() {
            return late;
        }
        late += usize::from(began_after_the_stop);
    }
}

/// How often the body of `run` went on after the stop. The step whose check came before the stop may still run.
async fn late_steps(lock: &TestLock, looking: impl Fn()) -> usize {
    let after = Cell::new(0_usize);
    let body = async |_: &AnyGuard| {
        looking();
        let mut clock = StopClock::new();
        loop {
            after.set(after.get() + usize::from(clock.stopped()));
            yield_once().await;
        }
    };
    let ended: ferrolock::Result<()> = lock.run(body).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost);
    after.get().saturating_sub(1)
}

/// Lets all other tasks run once.
fn yield_once() -> impl Future<Output = ()> {
    tokio::task::yield_now()
}

/// Notices that this process was stopped for a lease.
struct StopClock {
    last: Instant,
    stopped: bool,
}

impl StopClock {
    fn new() -> Self {
        Self {
            last: Instant::now(),
            stopped: false,
        }
    }

    /// Whether the process was stopped since this clock was made; to be called often.
    fn stopped(&mut self) -> bool {
        let now = Instant::now();
        self.stopped |= now - self.last >= LEASE;
        self.last = now;
        self.stopped
    }
}
