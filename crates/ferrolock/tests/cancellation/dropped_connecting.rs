//! The main futures, dropped at each of their await points, on real servers: keys, renewals, subscriptions,
//! connections.

use std::time::{Duration, Instant};

use ferrolock::{Client, Owner};
use testkit::{LIMIT, Server, drop_after_polls, eventually_async, servers};
use tokio::runtime::{Builder, Runtime};

/// Long enough to be seen left behind, short enough to be renewed if it were.
const LEASE: Duration = Duration::from_secs(3);

const POLLS_MAX: usize = 50;

struct Place {
    server: Server,
    client: Client,
    other: Client,
    threads: Threads,
}

/// With one thread a future's polls are the same each time; with several, answers also come between the polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Threads {
    One,
    Several,
}

impl Threads {
    fn runtime(self) -> Runtime {
        match self {
            Threads::One => Builder::new_current_thread(),
            Threads::Several => Builder::new_multi_thread(),
        }
        .enable_all()
        .build()
        .unwrap()
    }
}

/// Calls the future of `act` with 0, 1, 2 … polls, each time on a name of its own, until it finishes.
async fn at_each_await(place: &Place, what: &str, act: impl AsyncFn(&Place, &str, usize) -> bool) {
    for polls in 0..POLLS_MAX {
        let name = format!("{what}-{polls}");
        let finished = act(place, &name, polls).await;
        let begun = Instant::now();
        let gone = format!("{name}: the key is gone");
        eventually_async(LIMIT, &gone, async || place.server.keys().is_empty()).await;
        // Ended by a release, not by its lease.
        let took = begun.elapsed();
        assert!(took < LEASE / 2, "{name} took {took:?}");
        if finished {
            let half_way = polls > 1 || place.threads == Threads::Several;
            assert!(half_way, "{what} was not dropped half-way");
            return;
        }
    }
    panic!("{what} does not finish");
}

fn on_each_server(test: impl AsyncFn(&Place)) {
    for kind in servers() {
        for threads in [Threads::One, Threads::Several] {
            let server = Server::start(kind);
            threads.runtime().block_on(async {
                let connect = || {
                    Client::builder()
                        .url(server.url())
                        .watchdog_lease(LEASE)
                        .connect()
                };
                let (client, other) = (connect().await.unwrap(), connect().await.unwrap());
                let place = Place {
                    server,
                    client,
                    other,
                    threads,
                };
                test(&place).await;
                nothing_goes_on(&place).await;
            });
        }
    }
}

/// No subscription is left after its linger, and no command is sent for locks that are gone.
async fn nothing_goes_on(place: &Place) {
    let mut look = place.server.connect();
    eventually_async(LIMIT, "no channel is listened to", async || {
        look.command(&["PUBSUB", "CHANNELS"]).list().is_empty()
    })
    .await;
    let monitor = place.server.monitor();
    tokio::time::sleep(LEASE * 2 / 3).await;
    let lines = monitor.lines();
    let ours = |line: &&String| line.contains("EVAL") || line.contains("SUBSCRIBE");
    let late: Vec<&String> = lines.iter().filter(ours).collect();
    assert!(late.is_empty(), "{late:#?}");
}

#[test]
fn acquiring_futures_dropped_at_each_await_leave_nothing_on_a_server() {
    on_each_server(async |place| {
        at_each_await(place, "lock", async |place, name, polls| {
            let outcome = drop_after_polls(polls, place.client.lock(name).lock()).await;
            outcome.finished().is_some()
        })
        .await;
        at_each_await(place, "try_lock", async |place, name, polls| {
            let outcome = drop_after_polls(polls, place.client.lock(name).try_lock()).await;
            outcome.finished().is_some()
        })
        .await;
        at_each_await(place, "lock-busy", async |place, name, polls| {
            let guard = place.other.lock(name).lock().await.unwrap();
            let holder = tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(50)).await;
                guard.unlock().await.unwrap();
            });
            let outcome = drop_after_polls(polls, place.client.lock(name).lock()).await;
            holder.await.unwrap();
            outcome.finished().is_some()
        })
        .await;
        at_each_await(place, "try_lock_for-busy", async |place, name, polls| {
            let _guard = place.other.lock(name).lock().await.unwrap();
            let lock = place.client.lock(name);
            let wait = Duration::from_millis(50);
            let outcome = drop_after_polls(polls, lock.try_lock_for(wait)).await;
            outcome.finished().is_some()
        })
        .await;
    });
}

#[test]
fn other_futures_dropped_at_each_await_leave_nothing_on_a_server() {
    on_each_server(async |place| {
        at_each_await(place, "re-entry", async |place, name, polls| {
            let lock = place.client.lock(name).owned_by(&Owner::new());
            let _outer = lock.lock().await.unwrap();
            let outcome = drop_after_polls(polls, lock.lock()).await;
            outcome.finished().is_some()
        })
        .await;
        at_each_await(place, "run", async |place, name, polls| {
            let lock = place.client.lock(name);
            let work = lock.run(async |_| tokio::time::sleep(Duration::from_millis(20)).await);
            drop_after_polls(polls, work).await.finished().is_some()
        })
        .await;
        at_each_await(place, "unlock", async |place, name, polls| {
            let guard = place.client.lock(name).lock().await.unwrap();
            let outcome = drop_after_polls(polls, guard.unlock()).await;
            outcome.finished().is_some()
        })
        .await;
        at_each_await(place, "unlock_after", async |place, name, polls| {
            let guard = place.client.lock(name).lock().await.unwrap();
            let stay = Duration::from_millis(100);
            let outcome = drop_after_polls(polls, guard.unlock_after(stay)).await;
            outcome.finished().is_some()
        })
        .await;
        at_each_await(place, "renew", async |place, name, polls| {
            let guard = place.client.lock(name).lock().await.unwrap();
            let outcome = drop_after_polls(polls, guard.renew(LEASE)).await;
            outcome.finished().is_some()
        })
        .await;
    });
}

#[test]
fn connecting_dropped_at_each_await_leaves_no_connection() {
    for kind in servers() {
        let server = Server::start(kind);
        Threads::One.runtime().block_on(async {
            let mut look = server.connect();
            for polls in 0..POLLS_MAX {
                let outcome = drop_after_polls(polls, Client::connect(server.url())).await;
                let finished = outcome.finished().is_some();
                eventually_async(LIMIT, "only the look is connected", async || {
                    let list = look.command(&["CLIENT", "LIST"]).text();
                    list.lines().count() == 1
                })
                .await;
                if finished {
                    assert!(polls > 1, "connect was not dropped half-way");
                    return;
                }
            }
            panic!("connect does not finish");
        });
    }
}
