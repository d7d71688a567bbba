//! A process that was stopped past its deadline: its first look already says lost.
//!
//! The holder is a process of its own. It looks without a pause, and notices the stop by the clock: a look that began
//! after the stop must say lost. (A pause between a look and what follows it cannot be seen by anybody.)

use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::time::{Duration, Instant};

use ferrolock::{Client, ErrorKind, Guard, Lock};
use testkit::process::{Child, Role};
use testkit::{LIMIT, poll_once};

use crate::stage::{Stage, ms};

const LEASE: Duration = ms(1000);
const ROUNDS: usize = 2;

stories_of_processes!(a_process_stopped_past_its_deadline_finds_its_lock_lost);

async fn a_process_stopped_past_its_deadline_finds_its_lock_lost(stage: &Stage) {
    for way in ["is_held", "lost", "lost polled before", "run"] {
        let mut holder = Child::again("paused::holder", &[&stage.url(), way]);
        for round in 0..ROUNDS {
            assert_eq!(holder.hear(LIMIT), "looking", "{way}");
            holder.stop_signal();
            the_lease_ends(stage).await;
            holder.cont_signal();

            assert_eq!(
                holder.hear(LIMIT),
                "lost at the first look",
                "{way}, round {round}"
            );
        }
    }
}

/// A server is asked. From a file nobody could answer if the holder was stopped with its hand in it: there, time tells.
async fn the_lease_ends(stage: &Stage) {
    match stage.server() {
        Some(_) => stage.freed("paused").await,
        None => tokio::time::sleep(LEASE).await,
    }
}

/// Looks in the way it was told, and says what it saw.
pub(crate) fn holder(role: &Role) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        let lock = client.lock("paused").watchdog_lease(LEASE);
        let looking = || role.say("looking");
        for _ in 0..ROUNDS {
            let late = match role.args()[1].as_str() {
                "is_held" => looks_late(&lock, looking, |guard| !guard.is_held()).await,
                "lost" => {
                    let first_poll = |guard: &Guard| poll_once(pin!(guard.lost())).is_ready();
                    looks_late(&lock, looking, first_poll).await
                }
                "lost polled before" => polls_late(&lock, looking).await,
                _ => steps_late(&lock, looking).await,
            };
            match late {
                0 => role.say("lost at the first look"),
                late => role.say(&format!("{late} looks after the stop still said held")),
            }
        }
        // The parent ends us.
        role.hear();
    });
}

/// How often a look that began after the stop said held.
async fn looks_late(lock: &Lock, looking: impl Fn(), is_lost: impl Fn(&Guard) -> bool) -> usize {
    let guard = lock.lock().await.unwrap();
    looking();
    count_late(|| is_lost(&guard))
}

/// The same for one future that was pending before the stop.
async fn polls_late(lock: &Lock, looking: impl Fn()) -> usize {
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
async fn steps_late(lock: &Lock, looking: impl Fn()) -> usize {
    let after = Cell::new(0_usize);
    let body = async |_: &Guard| {
        looking();
        let mut clock = StopClock::new();
        loop {
            after.set(after.get() + usize::from(clock.stopped()));
            at_once().await;
        }
    };
    let ended: ferrolock::Result<()> = lock.run(body).await;
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Lost);
    after.get().saturating_sub(1)
}

/// Lets everybody else run once.
fn at_once() -> impl Future<Output = ()> {
    tokio::task::yield_now()
}

/// Notices that this process stood still for a lease.
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

    fn stopped(&mut self) -> bool {
        let now = Instant::now();
        self.stopped |= now - self.last >= LEASE;
        self.last = now;
        self.stopped
    }
}
