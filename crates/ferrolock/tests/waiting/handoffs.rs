//! A hundred thousand hand-offs between two processes whose subscribers are killed every second: none is lost.
//!
//! Lost is a grant that only the safety poll or the end of a lease led to: the message, or the gap after an
//! interruption, should have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ferrolock::Client;
use metrics::{
    Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use testkit::process::{self, Child};
use testkit::{Kind, Server};

on_each_server!(alone: no_wake_up_is_lost_in_a_hundred_thousand_hand_offs);

const HAND_OFFS: u64 = 100_000;
const NAMES: usize = 48;
const PATIENCE: Duration = Duration::from_secs(240);

/// Takes each name again and again, against its peer; says now and then how many hand-offs came, and at the end what
/// led to all its grants.
#[test]
fn relay() {
    let Some(role) = process::role() else { return };
    let grants = Grants::default();
    metrics::set_global_recorder(grants.clone()).expect("the only recorder of this process");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        role.say("ready");
        role.hear();
        let (stopping, ears) = (stop.clone(), role.clone());
        std::thread::spawn(move || {
            ears.hear();
            stopping.store(true, Ordering::Relaxed);
        });
        let mut tasks = tokio::task::JoinSet::new();
        for name in 0..NAMES {
            let (client, stop) = (client.clone(), stop.clone());
            tasks.spawn(async move {
                let lock = client.lock(format!("n{name}"));
                while !stop.load(Ordering::Relaxed) {
                    let guard = lock.lock().await.unwrap();
                    // Long enough for its peer to come and find it busy; then it is the peer's turn.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    guard.unlock().await.unwrap();
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        let mut told = 0;
        while !tasks.is_empty() {
            tokio::select! {
                ended = tasks.join_next() => ended.unwrap().unwrap(),
                () = tokio::time::sleep(Duration::from_millis(100)) => {}
            }
            let count = grants.hand_offs();
            role.say(&(count - std::mem::replace(&mut told, count)).to_string());
        }
    });
    role.say("end");
    role.say(&grants.report());
}

async fn no_wake_up_is_lost_in_a_hundred_thousand_hand_offs(kind: Kind) {
    let server = Server::start(kind);
    let mut relays: Vec<_> = (0..2)
        .map(|_| Child::again("handoffs::relay", &[&server.url()]))
        .collect();
    relays
        .iter_mut()
        .for_each(|relay| drop(relay.hear(PATIENCE)));
    relays.iter_mut().for_each(|relay| relay.say("go"));
    let begun = Instant::now();
    let (done, killer) = (Arc::new(AtomicBool::new(false)), server.connect());
    let killing = std::thread::spawn({
        let done = done.clone();
        move || kill_every_second(killer, &done)
    });
    let total = AtomicU64::new(0);
    let reports: Vec<_> = std::thread::scope(|scope| {
        let watched: Vec<_> = relays
            .iter_mut()
            .map(|relay| scope.spawn(|| watch(relay, &total)))
            .collect();
        watched
            .into_iter()
            .map(|report| report.join().unwrap())
            .collect()
    });
    done.store(true, Ordering::Relaxed);
    let killed = killing.join().unwrap();

    eprintln!(
        "{}: {:.1?}, {killed} subscribers killed; {reports:?}",
        kind.name(),
        begun.elapsed()
    );
    assert!(killed >= 2, "nothing was disturbed");
    for report in reports {
        assert!(!report.contains("safety_poll"), "{report}");
        assert!(!report.contains("lease_end"), "{report}");
    }
}

/// Counts what a relay does, stops it when all have done enough, and gives its report.
fn watch(relay: &mut Child, total: &AtomicU64) -> String {
    let mut stopped = false;
    loop {
        let line = relay.hear(PATIENCE);
        if line == "end" {
            return relay.hear(PATIENCE);
        }
        let more: u64 = line.parse().unwrap();
        if total.fetch_add(more, Ordering::Relaxed) >= HAND_OFFS && !stopped {
            stopped = true;
            relay.say("stop");
        }
    }
}

fn kill_every_second(mut control: testkit::Connection, done: &AtomicBool) -> i64 {
    let mut killed = 0;
    while !done.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_secs(1));
        killed += control.command(&["CLIENT", "KILL", "TYPE", "pubsub"]).int();
    }
    killed
}

/// Counts grants by cause, and nothing else.
#[derive(Clone, Default)]
struct Grants {
    by_cause: Arc<Mutex<BTreeMap<String, Arc<Count>>>>,
}

#[derive(Default)]
struct Count(AtomicU64);

impl Grants {
    /// Grants to somebody who had found the lock busy and was woken.
    fn hand_offs(&self) -> u64 {
        let counts = self.by_cause.lock().unwrap();
        let of = |cause: &str| {
            counts
                .get(cause)
                .map_or(0, |count| count.0.load(Ordering::Relaxed))
        };
        of("message") + of("gap") + of("confirmed")
    }

    fn report(&self) -> String {
        let counts = self.by_cause.lock().unwrap();
        let counts = counts
            .iter()
            .map(|(cause, count)| format!("{cause}={}", count.0.load(Ordering::Relaxed)));
        counts.collect::<Vec<_>>().join(" ")
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl Recorder for Grants {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() != "ferrolock_grants_total" {
            return Counter::noop();
        }
        let cause = key.labels().next().expect("the cause").value().to_owned();
        let count = self
            .by_cause
            .lock()
            .unwrap()
            .entry(cause)
            .or_default()
            .clone();
        Counter::from_arc(count)
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
