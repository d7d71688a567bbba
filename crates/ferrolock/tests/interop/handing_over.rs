//! Two thousand hand-offs between Java and ours: each is the work of a message, and none waits for an end of time.
//!
//! Each side comes while the other holds, and rests before the other leaves. Nothing but the message helps it then. Ours
//! counts what led to its grants. Java does not poll: without the message it waits for the end of the lease.

use std::time::Duration;

use ferrolock::{Client, Guard};
use testkit::java::{JavaLock, MS, Pending, json, now};
use testkit::process::{Child, Role};
use testkit::{LIMIT, Reply, Server, Stalls, eventually};

use crate::grants::{Counts, Grants};
use crate::scene::{Scene, refusals};

stories!(alone:
    in_2000_hand_offs_nobody_waits_for_an_end_of_time,
    a_release_that_nobody_is_told_of_is_seen,
);

const HAND_OFFS: usize = 2_000;
/// Of both sides, and never renewed: what the server is asked for is asked for the hand-offs.
const LEASE: Duration = Duration::from_secs(60);
const BRIEF: Duration = Duration::from_secs(4);
/// A tenth of it is promised.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Our safety poll does not come sooner after somebody came.
const NO_POLL_YET: Duration = Duration::from_millis(750);

async fn in_2000_hand_offs_nobody_waits_for_an_end_of_time(scene: &Scene) {
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
        // The machine stood still: a poll that was due comes with the message, or before it.
        stalled += u64::from(leaving.ended - came > NO_POLL_YET);
    }

    let grants = ours.grants();
    eprintln!("{grants:?}, stalled {stalled}");
    assert!(grants.lost() <= stalled, "{grants:?}");
    let woken = to_ours.len() as u64 - grants.lost();
    assert_eq!(grants.handed_off(), woken, "{grants:?}");
    let stall = stalls.seen().pop().unwrap_or_default();
    took("Java", to_java, stall);
    took("ours", to_ours, stall);
}

/// Shows that the story above bites, on both sides.
async fn a_release_that_nobody_is_told_of_is_seen(scene: &Scene) {
    let java = scene.java.thread("a").lock("orders");
    let mut ours = Ours::start(&scene.server, BRIEF);
    ours.take();

    let taking = java_comes(&scene.server, &java);
    let gone = vanish(&scene.server);
    let granted = taking.answer(LIMIT);
    granted.result.unwrap();
    assert!(granted.ended - gone > AT_ONCE, "nothing is lost on Java");
    // Once when it comes, and once when it has subscribed.
    ours.comes(&scene.server, 2);
    vanish(&scene.server);
    ours.granted();

    assert_eq!(ours.grants().lost(), 1);
}

/// The lock goes, and not by a release.
fn vanish(server: &Server) -> Duration {
    let gone = now();
    assert_eq!(server.command(&["DEL", "orders"]), Reply::Int(1));
    gone
}

/// Lets Java take the lock, which is held, and returns when it rests: it has asked, subscribed, and asked again.
fn java_comes(server: &Server, java: &JavaLock) -> Pending<()> {
    let before = refusals(server);
    let taking = java.begin("lock", json!([LEASE.as_millis() as u64, MS]));
    eventually(LIMIT, "Java rests", || refusals(server) >= before + 2);
    assert!(!taking.is_done(), "it was not busy");
    taking
}

/// Tells how long the hand-offs took. All were made at once, but for what the machine itself stood still.
fn took(whom: &str, mut times: Vec<Duration>, stall: Duration) {
    times.sort();
    let of_a_thousand = |rank: usize| times[(times.len() - 1) * rank / 1000];
    let (median, late, slowest) = (of_a_thousand(500), of_a_thousand(990), of_a_thousand(1000));
    let count = times.len();
    eprintln!(
        "{count} hand-offs to {whom}: p50 {median:.1?}, p99 {late:.1?}, slowest {slowest:.1?}, stall {stall:.1?}"
    );
    assert!(slowest < AT_ONCE + stall, "to {whom}: {slowest:?}");
}

/// A process of ours, as the story sees it.
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

    /// Lets it take the lock, which is held, and returns when it was refused so often; when it came.
    fn comes(&mut self, server: &Server, refused: u64) -> Duration {
        let (before, came) = (refusals(server), now());
        self.0.say("take");
        eventually(LIMIT, "ours is refused", || {
            refusals(server) >= before + refused
        });
        came
    }

    /// When it was granted what it came for.
    fn granted(&mut self) -> Duration {
        self.hears_when()
    }

    /// Gives the lock back; when that began.
    fn leave(&mut self) -> Duration {
        self.0.say("leave");
        self.hears_when()
    }

    fn hears_when(&mut self) -> Duration {
        Duration::from_nanos(self.0.hear(LIMIT).parse().unwrap())
    }

    fn grants(&mut self) -> Grants {
        self.0.say("grants?");
        Grants(serde_json::from_str(&self.0.hear(LIMIT)).unwrap())
    }
}

/// Takes and leaves the lock as it is told, and says when it was granted and when it left.
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
                    says(role, now());
                }
                "leave" => {
                    let left = now();
                    held.take().expect("it holds").unlock().await.unwrap();
                    says(role, left);
                }
                _ => role.say(&serde_json::to_string(&counts.by_cause()).unwrap()),
            }
        }
    });
}

fn says(role: &Role, when: Duration) {
    role.say(&when.as_nanos().to_string());
}
