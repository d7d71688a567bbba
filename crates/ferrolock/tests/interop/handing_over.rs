//! Two thousand hand-offs between Java and ours: a message leads to each of them, and none waits for the end of a lease or for
//! a poll.
//!
//! Each side begins to wait while the other holds, and sleeps before the other releases. Then only the message wakes it. Ours
//! counts what led to its grants. Java does not poll: without the message it waits for the end of the lease.

use std::time::Duration;

use ferrolock::{Client, Guard};
use testkit::java::{JavaLock, MS, Pending, json, now};
use testkit::process::{Child, Role};
use testkit::{LIMIT, Reply, Server, Stalls, eventually};

use crate::grants::{Counts, Grants};
use crate::scene::{Scene, refusals};

stories!(alone:
    in_2000_hand_offs_no_waiter_waits_for_a_lease_or_a_poll,
    this_test_detects_a_lost_wake_up,
);

const HAND_OFFS: usize = 2_000;
/// Of both sides, and never renewed: all commands on the server belong to the hand-offs.
const LEASE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_secs(4);
/// Ten times what is promised.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The earliest time after the start of a wait at which our safety poll comes.
const NO_POLL_YET: Duration = Duration::from_millis(750);

async fn in_2000_hand_offs_no_waiter_waits_for_a_lease_or_a_poll(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let mut ours = Ours::start(&scene.server, LEASE);
    let (mut to_java, mut to_ours, mut stalled) = (Vec::new(), Vec::new(), 0);
    ours.take();
    let stalls = Stalls::watch();

    for _ in 0..HAND_OFFS / 2 {
        let taking = java_comes(&scene.server, &java);
        let left = ours.leave();
        let granted = taking.answer(LIMIT);
        granted.result.unwrap();
        to_java.push(granted.ended.saturating_sub(left));

        let came = ours.comes(&scene.server, 1);
        let leaving = java.begin::<()>("unlock", json!([])).answer(LIMIT);
        leaving.result.unwrap();
        to_ours.push(ours.granted().saturating_sub(leaving.began));
        // The machine stalled: a poll that was due comes with the message, or before it.
        stalled += u64::from(leaving.ended - came > NO_POLL_YET);
    }

    let grants = ours.grants();
    eprintln!("{grants:?}, stalled {stalled}");
    assert!(grants.lost() <= stalled, "{grants:?}");
    let woken = to_ours.len() as u64 - grants.lost();
    assert_eq!(grants.handed_off(), woken, "{grants:?}");
    let stall = stalls.seen().pop().unwrap_or_default();
    assert_fast("Java", to_java, stall);
    assert_fast("ours", to_ours, stall);
}

/// Shows that the test above detects a lost wake-up, on both sides.
async fn this_test_detects_a_lost_wake_up(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let mut ours = Ours::start(&scene.server, BRIEF);
    ours.take();

    let taking = java_comes(&scene.server, &java);
    let gone = vanish(&scene.server);
    let granted = taking.answer(LIMIT);
    granted.result.unwrap();
    assert!(granted.ended - gone > AT_ONCE, "nothing is lost on Java");
    // One attempt when it begins to wait, and one when it has subscribed.
    ours.comes(&scene.server, 2);
    vanish(&scene.server);
    ours.granted();

    assert_eq!(ours.grants().lost(), 1);
}

/// The lock is deleted without a message.
fn vanish(server: &Server) -> Duration {
    let gone = now();
    assert_eq!(server.command(&["DEL", "orders"]), Reply::Int(1));
    gone
}

/// Lets Java begin to wait for the lock, which is held; returns when Java sleeps: it has made an attempt, subscribed, and made
/// a second attempt.
fn java_comes(server: &Server, java: &JavaLock) -> Pending<()> {
    let before = refusals(server);
    let taking = java.begin("lock", json!([LEASE.as_millis() as u64, MS]));
    eventually(LIMIT, "Java rests", || refusals(server) >= before + 2);
    assert!(!taking.is_done(), "it was not busy");
    taking
}

/// Prints how long the hand-offs took. Asserts that all were made at once, apart from the time that the machine itself stalled.
fn assert_fast(whom: &str, mut times: Vec<Duration>, stall: Duration) {
    times.sort();
    let of_a_thousand = |rank: usize| times[(times.len() - 1) * rank / 1000];
    let (median, late, slowest) = (of_a_thousand(500), of_a_thousand(990), of_a_thousand(1000));
    let count = times.len();
    eprintln!(
        "{count} hand-offs to {whom}: p50 {median:.1?}, p99 {late:.1?}, slowest {slowest:.1?}, stall {stall:.1?}"
    );
    assert!(slowest < AT_ONCE + stall, "to {whom}: {slowest:?}");
}

/// A process of ours, seen from the test.
struct Ours(Child);

impl Ours {
    fn start(server: &Server, lease: Duration) -> Self {
        let args = [&server.url(), &lease.as_millis().to_string()];
        let mut process = Child::again("handing_over::taker", &args.map(String::as_str));
        assert_eq!(process.hear(LIMIT), "ready");
        Self(process)
    }

    /// Takes the lock, which is free.
    fn take(&mut self) {
        self.0.say("take");
        self.granted();
    }

    /// Lets it begin to wait for the lock, which is held; returns when it has been refused `refused` times. Returns when it
    /// began.
    fn comes(&mut self, server: &Server, refused: u64) -> Duration {
        let (before, came) = (refusals(server), now());
        self.0.say("take");
        eventually(LIMIT, "ours is refused", || {
            refusals(server) >= before + refused
        });
        came
    }

    /// Waits for the grant; returns when it came.
    fn granted(&mut self) -> Duration {
        self.read_time()
    }

    /// Releases the lock; returns when that began.
    fn leave(&mut self) -> Duration {
        self.0.say("leave");
        self.read_time()
    }

    fn read_time(&mut self) -> Duration {
        Duration::from_nanos(self.0.hear(LIMIT).parse().unwrap())
    }

    fn grants(&mut self) -> Grants {
        self.0.say("grants?");
        Grants(serde_json::from_str(&self.0.hear(LIMIT)).unwrap())
    }
}

/// Takes and releases the lock on command, and reports when it was granted and when it released.
pub(crate) fn taker(role: &Role) {
    let counts = Counts::begin();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let client = Client::connect(&role.args()[0]).await.unwrap();
        let lease = Duration::from_millis(role.args()[1].parse().unwrap());
        let lock = client.lock("orders").lease(lease);
        let mut held: Option<Guard> = None;
        role.say("ready");
        loop {
            match role.hear().as_str() {
                "take" => {
                    held = Some(lock.lock().await.unwrap());
                    report_time(role, now());
                }
                "leave" => {
                    let left = now();
                    held.take().expect("it holds").unlock().await.unwrap();
                    report_time(role, left);
                }
                _ => role.say(&serde_json::to_string(&counts.by_cause()).unwrap()),
            }
        }
    });
}

fn report_time(role: &Role, when: Duration) {
    role.say(&when.as_nanos().to_string());
}
