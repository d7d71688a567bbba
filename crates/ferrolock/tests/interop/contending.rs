//! Two JVMs and two processes of ours compete for one lock: no two of them count at the same time, and no side starves.
//!
//! All go on until the counter has the wanted value, so a slower side gets fewer turns; each must get at least a tenth.

use std::path::Path;
use std::time::Instant;

use ferrolock::Client;
use testkit::java::{JavaClient, Jvm, Looped, Pending, Place, Redisson};
use testkit::process::{Child, Role};
use testkit::{Counter, JavaPeer, LIMIT, eventually_async};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::scene::Scene;

stories!(alone:
    both_sides_count_exactly_and_each_gets_its_share,
    the_counter_detects_it_when_each_side_has_a_lock_of_its_own,
);

const PROCESSES: usize = 2;
const WORKERS: usize = 4;

async fn both_sides_count_exactly_and_each_gets_its_share(scene: &Scene) {
    let increments = match scene.peer.redisson() {
        Redisson::Newest => 20_000,
        Redisson::Oldest => 5_000,
    };

    let Some(result) = contend(scene, increments, ["orders", "orders"]).await else {
        return;
    };

    let (ours, javas): (u64, u64) = (result.ours.iter().sum(), result.javas.iter().sum());
    assert_eq!(
        result.counted,
        ours + javas,
        "somebody counted while another did"
    );
    assert!(ours >= result.counted / 10, "{result:?}");
    assert!(javas >= result.counted / 10, "{result:?}");
}

/// Shows that the counter detects it when each side has a lock of its own.
async fn the_counter_detects_it_when_each_side_has_a_lock_of_its_own(scene: &Scene) {
    let Some(result) = contend(scene, 500, ["ours", "Java's"]).await else {
        return;
    };

    let done: u64 = result.ours.iter().chain(&result.javas).sum();
    assert!(result.counted < done, "the harness does not bite");
}

/// The result.
#[derive(Debug)]
struct Contention {
    /// What the counter says.
    counted: u64,
    /// How often each process of ours held the lock.
    ours: Vec<u64>,
    /// How often each JVM held the lock.
    javas: Vec<u64>,
}

/// Lets all processes count, ours and Java's under these locks, until the counter has reached `increments`; `None` where there
/// is no Java.
async fn contend(scene: &Scene, increments: u64, locks: [&str; 2]) -> Option<Contention> {
    let folder = testkit::store_folder();
    let file = folder.path().join("count");
    let counter = Counter::file(&file);
    let (url, redisson) = (scene.server.url(), scene.peer.redisson());
    let second = JavaPeer::start(redisson, Jvm::Quick)?;
    let javas = [scene.java.clone(), second.open(&scene.server)];
    let mut ours = [(); PROCESSES].map(|()| {
        let args = [&url, file.to_str().unwrap(), locks[0]];
        Child::again("contending::contender", &args)
    });
    ours.iter_mut().for_each(|child| drop(child.hear(LIMIT)));

    let begun = Instant::now();
    let loops = javas.each_ref().map(|java| begin(java, locks[1], &file));
    ours.iter_mut().for_each(|child| child.say("go"));
    let what = format!("{increments} are counted");
    eventually_async(10 * LIMIT, &what, async || counter.read() >= increments).await;
    ours.iter_mut().for_each(|child| child.say("stop"));
    javas.iter().for_each(stop);

    let result = Contention {
        javas: loops.map(end).to_vec(),
        ours: ours
            .map(|mut child| child.hear(LIMIT).parse().unwrap())
            .to_vec(),
        counted: counter.read(),
    };
    let (server, took) = (scene.server.kind().name(), begun.elapsed());
    eprintln!("{server}, {}: {result:?} in {took:.1?}", redisson.version());
    Some(result)
}

fn threads() -> [String; WORKERS] {
    std::array::from_fn(|number| format!("worker {number}"))
}

fn begin(java: &JavaClient, lock: &str, file: &Path) -> [Pending<Looped>; WORKERS] {
    threads().map(|thread| {
        let lock = java.thread(&thread).lock(lock);
        lock.rounds(Place::File(file)).begin()
    })
}

fn stop(java: &JavaClient) {
    threads().iter().for_each(|name| java.thread(name).stop());
}

/// How many rounds the threads of a JVM made.
fn end(loops: [Pending<Looped>; WORKERS]) -> u64 {
    loops.map(|each| each.wait().unwrap().done).iter().sum()
}

/// A process of ours: gets the address of the server, the file of the counter and the name of the lock; reports how often it
/// held the lock.
pub(crate) fn contender(role: &Role) {
    let [url, file, name] = role.args() else {
        panic!("three arguments: {role:?}");
    };
    let (counter, stop) = (Counter::file(file), CancellationToken::new());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let done: u64 = runtime.block_on(async {
        let client = Client::connect(url).await.unwrap();
        role.say("ready");
        role.hear();
        let workers: JoinSet<u64> = (0..WORKERS)
            .map(|_| count(client.clone(), name.clone(), counter.clone(), stop.clone()))
            .collect();
        role.hear();
        stop.cancel();
        workers.join_all().await.iter().sum()
    });
    role.say(&done.to_string());
}

async fn count(client: Client, name: String, counter: Counter, stop: CancellationToken) -> u64 {
    let mut done = 0;
    while !stop.is_cancelled() {
        let guard = client.lock(&name).lock().await.unwrap();
        counter.bump_async().await;
        guard.unlock().await.unwrap();
        done += 1;
    }
    done
}
