//! A process of one side dies at any point: the other side goes on, and the dead process leaves nothing behind.

use std::time::Duration;

use ferrolock::{Client, Guard};
use testkit::java::{JavaClient, JavaLock, JavaPeer, Jvm, Pending, Place, json, now};
use testkit::process::{Child, Role};
use testkit::{LIMIT, Reply, eventually};
use tokio::task::JoinHandle;

use crate::crowd::Crowd;
use crate::scene::{Scene, assert_at_once, lease_end, left, waiter};

stories!(
    both_go_on_when_a_jvm_dies_waiting,
    ours_goes_on_when_a_jvm_dies_holding,
    ours_goes_on_when_a_jvm_dies_after_its_unlocks,
    ours_goes_on_when_a_jvm_dies_at_work,
    both_go_on_when_a_process_of_ours_dies_waiting,
    java_goes_on_when_a_process_of_ours_dies_holding,
    java_goes_on_when_a_process_of_ours_dies_after_its_unlocks,
    java_goes_on_when_a_process_of_ours_dies_at_work,
);

/// Of processes that die while they hold: it ends sooner only if this machine stalls for two seconds.
const LEASE: Duration = Duration::from_secs(3);
/// Of processes whose leases need not be waited for.
const LONG: Duration = Duration::from_secs(30);
/// How many threads, or tasks, die together.
const MANY: usize = 8;
/// How many names they use.
const FEW: usize = 4;

fn name(n: usize) -> String {
    format!("orders-{n}")
}

/// A JVM that will be killed, and a client in it.
struct Mortal {
    peer: JavaPeer,
    client: JavaClient,
}

impl Mortal {
    /// `None` where there is no Java.
    fn java(scene: &Scene, lease: Duration) -> Option<Self> {
        let peer = JavaPeer::start(scene.peer.redisson(), Jvm::Quick)?;
        let client = peer.client(&scene.server.url()).watchdog(lease).open();
        Some(Self { peer, client })
    }

    /// The lock of that name, for the `n`th thread.
    fn lock(&self, n: usize, name: &str) -> JavaLock {
        self.client.thread(&n.to_string()).lock(name)
    }
}

async fn both_go_on_when_a_jvm_dies_waiting(scene: &Scene) {
    let Some(mortal) = Mortal::java(scene, LONG) else {
        return;
    };
    let guard = scene.ours.lock("orders").lock().await.unwrap();
    for n in 0..MANY {
        drop(mortal.lock(n, "orders").begin_lock());
    }
    scene.until_awaited("orders", 1);
    let crowd = Crowd::gather(scene, 1).await;

    mortal.peer.kill();
    let unlocking = now();
    guard.unlock().await.unwrap();

    crowd.get_it_one_by_one(scene, unlocking).await;
    assert_nothing_is_left(scene);
    until_no_client_listens(scene);
}

async fn ours_goes_on_when_a_jvm_dies_holding(scene: &Scene) {
    let Some(mortal) = Mortal::java(scene, LEASE) else {
        return;
    };
    for n in 0..MANY {
        mortal.lock(n, &name(n)).lock().unwrap();
    }
    // A hold count above one must not keep the lock alive.
    mortal.lock(0, &name(0)).lock().unwrap();
    let waiting = ours_waits(scene);
    assert!(!waiting.iter().any(JoinHandle::is_finished));

    mortal.peer.halt();
    let end = leases_end(scene).await;

    ours_gets_all("a dead JVM's lease to ours", end, waiting).await;
    assert_nothing_is_left(scene);
}

async fn ours_goes_on_when_a_jvm_dies_after_its_unlocks(scene: &Scene) {
    let Some(mortal) = Mortal::java(scene, LONG) else {
        return;
    };
    let locks: Vec<_> = (0..MANY).map(|n| mortal.lock(n, &name(n))).collect();
    locks.iter().for_each(|lock| lock.lock().unwrap());
    let waiting = ours_waits(scene);

    let unlock = |lock: &JavaLock| lock.begin::<()>("unlock", json!([]));
    let begun = now();
    let unlocking: Vec<_> = locks.iter().map(unlock).collect();
    for unlocking in unlocking {
        unlocking.wait().unwrap();
    }
    mortal.peer.kill();

    ours_gets_all("a dead JVM's unlock to ours", begun, waiting).await;
    assert_nothing_is_left(scene);
}

/// The JVM dies during attempts, grants and releases.
async fn ours_goes_on_when_a_jvm_dies_at_work(scene: &Scene) {
    let Some(mortal) = Mortal::java(scene, LEASE) else {
        return;
    };
    let works = |n: usize| {
        let lock = mortal.lock(n, &name(n % FEW));
        lock.rounds(Place::Key("counter")).begin()
    };
    let working: Vec<_> = (0..MANY).map(works).collect();
    for n in 0..20 * FEW {
        let lock = scene.ours.lock(name(n % FEW));
        lock.lock().await.unwrap().unlock().await.unwrap();
    }
    assert!(!working.iter().any(Pending::is_done));

    mortal.peer.kill();
    let end = now() + LEASE;

    for n in 0..20 * FEW {
        let lock = scene.ours.lock(name(n % FEW));
        let guard = lock.lock().await.unwrap();
        assert!(now() < end + LEASE * 5, "{n}");
        guard.unlock().await.unwrap();
    }
    assert_nothing_is_left(scene);
}

fn ours_waits(scene: &Scene) -> Vec<JoinHandle<(Guard, Duration)>> {
    let lock = |n: usize| scene.ours.lock(name(n));
    let waiting = (0..MANY).map(|n| waiter(lock(n))).collect();
    (0..MANY).for_each(|n| scene.until_awaited(&name(n), 1));
    waiting
}

async fn ours_gets_all(what: &str, since: Duration, waiting: Vec<JoinHandle<(Guard, Duration)>>) {
    let mut last = Duration::ZERO;
    for waiting in waiting {
        let (guard, granted) = waiting.await.unwrap();
        guard.unlock().await.unwrap();
        last = last.max(granted);
    }
    assert_at_once(what, since, last);
}

/// When the last of the leases ends, if it is not renewed.
async fn leases_end(scene: &Scene) -> Duration {
    let mut end = Duration::ZERO;
    for n in 0..MANY {
        let lock = scene.ours.lock(name(n));
        assert!(left(&lock).await <= LEASE);
        end = end.max(lease_end(&lock).await);
    }
    end
}

async fn both_go_on_when_a_process_of_ours_dies_waiting(scene: &Scene) {
    let java = scene.java.thread("holder").lock("orders");
    java.lock().unwrap();
    let mut mortal = Child::again("crashing::mortal", &[&scene.server.url(), "waits"]);
    scene.until_awaited("orders", 1);
    let crowd = Crowd::gather(scene, 1).await;

    mortal.kill();
    let unlocking = now();
    java.unlock().unwrap();

    crowd.get_it_one_by_one(scene, unlocking).await;
    assert_nothing_is_left(scene);
    until_no_client_listens(scene);
}

async fn java_goes_on_when_a_process_of_ours_dies_holding(scene: &Scene) {
    let mut mortal = Child::again("crashing::mortal", &[&scene.server.url(), "holds"]);
    assert_eq!(mortal.hear(LIMIT), "holding");
    let waiting = java_waits(scene);
    assert!(!waiting.iter().any(|(_, pending)| pending.is_done()));

    mortal.kill();
    let end = leases_end(scene).await;

    java_gets_all("the lease of a dead process to Java", end, waiting);
    assert_nothing_is_left(scene);
}

async fn java_goes_on_when_a_process_of_ours_dies_after_its_unlocks(scene: &Scene) {
    let mut mortal = Child::again("crashing::mortal", &[&scene.server.url(), "holds"]);
    assert_eq!(mortal.hear(LIMIT), "holding");
    let waiting = java_waits(scene);

    let begun = now();
    mortal.say("unlock");
    assert_eq!(mortal.hear(LIMIT), "unlocked");
    mortal.kill();

    java_gets_all("the unlock of a dead process to Java", begun, waiting);
    assert_nothing_is_left(scene);
}

async fn java_goes_on_when_a_process_of_ours_dies_at_work(scene: &Scene) {
    let mut mortal = Child::again("crashing::mortal", &[&scene.server.url(), "works"]);
    assert_eq!(mortal.hear(LIMIT), "working");
    let work = |n: usize| {
        let lock = scene.java.thread(&n.to_string()).lock(&name(n));
        lock.rounds(Place::Key(&format!("counter-{n}")))
            .times(20)
            .begin()
    };
    for working in (0..FEW).map(work).collect::<Vec<_>>() {
        working.wait().unwrap();
    }

    mortal.kill();

    for working in (0..FEW).map(work).collect::<Vec<_>>() {
        let worked = working.wait().unwrap();
        assert!(worked.longest_wait() < LEASE * 5, "{worked:?}");
    }
    for n in 0..FEW {
        let counted = scene.server.command(&["GET", &format!("counter-{n}")]);
        assert_eq!(counted, Reply::Text("40".to_owned()));
    }
    assert_nothing_is_left(scene);
}

fn java_waits(scene: &Scene) -> Vec<(JavaLock, Pending<()>)> {
    let waits = |n: usize| {
        let lock = scene.java.thread(&n.to_string()).lock(&name(n));
        let pending = lock.begin_lock();
        (lock, pending)
    };
    let waiting = (0..MANY).map(waits).collect();
    (0..MANY).for_each(|n| scene.until_awaited(&name(n), 1));
    waiting
}

fn java_gets_all(what: &str, since: Duration, waiting: Vec<(JavaLock, Pending<()>)>) {
    let mut last = Duration::ZERO;
    for (lock, pending) in waiting {
        let granted = pending.answer(LIMIT);
        granted.result.unwrap();
        lock.unlock().unwrap();
        last = last.max(granted.ended);
    }
    assert_at_once(what, since, last);
}

/// No lock is left, and only those of Java's latches that expire by themselves.
fn assert_nothing_is_left(scene: &Scene) {
    for entry in scene.server.dump() {
        let is_latch = entry.key.starts_with("redisson_unlock_latch:");
        let is_counter = entry.key.starts_with("counter");
        assert!(is_counter || (is_latch && entry.ttl.is_some()), "{entry:?}");
    }
}

fn until_no_client_listens(scene: &Scene) {
    let channels = ["PUBSUB", "CHANNELS", "redisson_lock__channel:*"];
    let no_channel = || scene.server.command(&channels).list().is_empty();
    eventually(LIMIT, "no client listens", no_channel);
}

/// A process of ours that waits, holds or works, as its argument says, until it is killed.
pub(crate) fn mortal(role: &Role) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let builder = Client::builder().url(&role.args()[0]);
        let client = builder.watchdog_lease(LEASE).connect().await.unwrap();
        match role.args()[1].as_str() {
            "waits" => waits(&client).await,
            "holds" => holds(&client, role).await,
            _ => works(&client, role).await,
        }
        role.hear();
    });
}

async fn waits(client: &Client) {
    let waiting: Vec<_> = (0..MANY).map(|_| waiter(client.lock("orders"))).collect();
    for waiting in waiting {
        drop(waiting.await.unwrap());
    }
}

async fn holds(client: &Client, role: &Role) {
    let mut guards = Vec::new();
    for n in 0..MANY {
        let guard = client.lock(name(n)).lock().await.unwrap();
        guards.push(guard.relock().await.unwrap());
        guards.push(guard);
    }
    role.say("holding");
    role.hear();
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    role.say("unlocked");
}

async fn works(client: &Client, role: &Role) {
    let work = |n: usize| {
        let lock = client.lock(name(n % FEW));
        tokio::spawn(async move {
            loop {
                lock.lock().await.unwrap().unlock().await.unwrap();
            }
        })
    };
    let working: Vec<JoinHandle<()>> = (0..MANY).map(work).collect();
    role.say("working");
    for working in working {
        working.await.unwrap();
    }
}
