//! A process of one side dies while it holds fenced, spin and multi locks, and a majority of servers: the other side gets them
//! when the leases end.

use std::time::Duration;

use ferrolock::Client;
use testkit::java::{JavaClient, Jvm, now};
use testkit::process::{Child, Role};
use testkit::{JavaPeer, LIMIT};

use crate::scene::Scene;
use crate::sort::{Ground, Sort};

stories!(newest:
    ours_goes_on_when_a_jvm_dies_that_holds_a_lock_of_each_sort,
    java_goes_on_when_a_process_of_ours_dies_that_holds_a_lock_of_each_sort,
);

/// It ends sooner only if this machine stalls for two seconds.
const LEASE: Duration = Duration::from_secs(3);

async fn grounds(scene: &Scene) -> Vec<Ground> {
    let mut grounds = Vec::new();
    for sort in Sort::ALL {
        grounds.push(Ground::of(scene, sort).await);
    }
    grounds
}

async fn ours_goes_on_when_a_jvm_dies_that_holds_a_lock_of_each_sort(scene: &Scene) {
    let Some(mortal) = JavaPeer::start(scene.peer.redisson(), Jvm::Quick) else {
        return;
    };
    let mut waiting = Vec::new();
    let mut open: Vec<JavaClient> = Vec::new();
    for ground in grounds(scene).await {
        let urls = ground.urls(scene);
        let clients = urls
            .iter()
            .map(|url| mortal.client(url).watchdog(LEASE).open());
        let clients: Vec<JavaClient> = clients.collect();
        ground.sort.javas(&clients, "a").lock().unwrap();
        open.extend(clients);
        let lock = ground.our_lock();
        assert!(
            lock.try_lock().await.unwrap().is_none(),
            "{:?}",
            ground.sort
        );
        let got = tokio::spawn(async move { (lock.lock().await.unwrap(), now()) });
        waiting.push((ground, got));
    }
    assert!(!waiting.iter().any(|(_, got)| got.is_finished()));

    mortal.halt();
    // A renewal may have come just before.
    let end = now() + LEASE;

    for (ground, got) in waiting {
        let (guard, granted) = got.await.unwrap();
        assert_in_time(ground.sort, end, granted);
        guard.unlock().await.unwrap();
    }
}

async fn java_goes_on_when_a_process_of_ours_dies_that_holds_a_lock_of_each_sort(scene: &Scene) {
    let grounds = grounds(scene).await;
    let mut mortals = Vec::new();
    let mut waiting = Vec::new();
    for ground in &grounds {
        let mut args = vec![format!("{:?}", ground.sort)];
        args.append(&mut ground.urls(scene));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut mortal = Child::again("dying::holder", &args);
        assert_eq!(mortal.hear(LIMIT), "holding");
        mortals.push(mortal);
        // A thread for each: they wait at the same time.
        let java = ground.java(&format!("{:?}", ground.sort));
        assert!(!java.try_lock().unwrap(), "{:?}", ground.sort);
        let got = java.begin_lock();
        waiting.push((ground, java, got));
    }
    assert!(!waiting.iter().any(|(.., got)| got.is_done()));

    for mortal in &mut mortals {
        mortal.kill();
    }
    let end = now() + LEASE;

    for (ground, java, got) in waiting {
        let granted = got.answer(LIMIT);
        granted.result.unwrap();
        assert_in_time(ground.sort, end, granted.ended);
        java.unlock().unwrap();
    }
}

/// A red lock waits for one server after the other, and may begin again.
fn assert_in_time(sort: Sort, end: Duration, granted: Duration) {
    let late = granted.saturating_sub(end);
    eprintln!("{sort:?}: {late:.1?} after the lease of a dead process");
    assert!(late < LEASE * 5, "{sort:?}: {late:?}");
}

/// A process of ours that holds a lock until it is killed: gets its sort, and the addresses of its servers.
pub(crate) fn holder(role: &Role) {
    let [sort, urls @ ..] = role.args() else {
        panic!("two arguments or more: {role:?}");
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut clients = Vec::new();
        for url in urls {
            let builder = Client::builder().url(url).watchdog_lease(LEASE);
            clients.push(builder.connect().await.unwrap());
        }
        let lock = Sort::called(sort).ours(&clients);
        let _guard = lock.lock().await.unwrap();
        role.say("holding");
        role.hear();
    });
}
