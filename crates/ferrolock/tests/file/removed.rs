//! The store is removed, renamed or replaced while processes use it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use ferrolock::{Client, Guard, HoldState, LostReason};

use crate::actor::Actor;
use crate::stage::{Store, assert_refused, limited, url};

const LEASE: Duration = Duration::from_secs(6);

/// What happens to the directory.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Removed,
    OnlyItsHeader,
    RenamedAway,
    Replaced,
}

impl Fate {
    const ALL: [Self; 4] = [
        Self::Removed,
        Self::OnlyItsHeader,
        Self::RenamedAway,
        Self::Replaced,
    ];

    fn befalls(self, store: &Store) {
        match self {
            Self::Removed => fs::remove_dir_all(store.path()).unwrap(),
            Self::OnlyItsHeader => fs::remove_file(store.file("store")).unwrap(),
            Self::RenamedAway => fs::rename(store.path(), store.beside("away")).unwrap(),
            Self::Replaced => {
                fs::rename(store.path(), store.beside("away")).unwrap();
                let mut other = Actor::start();
                other.connects(store);
                other.ends();
            }
        }
    }
}

async fn assert_lost(guard: &Guard, since: Instant, fate: Fate) {
    let reason = limited(guard.lost()).await;
    let took = since.elapsed();
    eprintln!(
        "{fate:?}: lost ({reason}) after {took:?}, renewed every {:?}",
        LEASE / 3
    );
    assert_eq!(reason, LostReason::Removed, "{fate:?}");
    assert_eq!(guard.state(), HoldState::Lost(LostReason::Removed));
    assert!(took < 10 * LEASE / 3, "{took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_loses_its_lock_and_the_old_store_refuses_all_calls() {
    for fate in Fate::ALL {
        let store = Store::new();
        let builder = store.builder().watchdog_lease(LEASE);
        let client = builder.clone().connect().await.unwrap();
        let guard = client.lock("x").lock().await.unwrap();

        fate.befalls(&store);
        let since = Instant::now();

        assert_refused(
            client.lock("y").try_lock().await,
            "REMOVED",
            "connect again",
        );
        assert_refused(client.lock("y").lock().await, "REMOVED", "connect again");
        assert_refused(
            client.lock("x").try_lock().await,
            "REMOVED",
            "connect again",
        );
        assert_lost(&guard, since, fate).await;
        assert_eq!(
            guard.unlock().await.unwrap_err().lost_reason(),
            Some(LostReason::Removed)
        );
    }
}

/// A new release of a program is put in place by changing a link. In an earlier version the old processes went on in the old
/// store, and the new processes had the same locks in another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_changed_ends_the_holds_of_clients_that_used_it() {
    let (old, new) = (Store::begun(), Store::begun());
    let link = old.beside("current");
    std::os::unix::fs::symlink(old.path(), &link).unwrap();
    let by_link = || Client::builder().url(url(&link)).watchdog_lease(LEASE);
    let client = by_link().connect().await.unwrap();
    let straight = old.client().await;
    let guard = client.lock("x").lock().await.unwrap();

    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(new.path(), &link).unwrap();

    let since = Instant::now();
    assert_refused(
        client.lock("y").try_lock().await,
        "REMOVED",
        "connect again",
    );
    assert_lost(&guard, since, Fate::Replaced).await;
    let again = by_link().connect().await.unwrap();
    assert!(again.lock("x").try_lock().await.unwrap().is_some());
    // A client that connected to the old directory by its own path still uses it.
    assert!(straight.lock("y").try_lock().await.unwrap().is_some());
}

/// A client that connects again uses the new store, as all others do. If the directory is the same, the old hold is lost by
/// then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_connects_again_uses_the_new_store() {
    for fate in Fate::ALL {
        let store = Store::new();
        let old = store.client().await;
        let guard = old.lock("x").lock().await.unwrap();
        fate.befalls(&store);

        let new = store.client().await;
        let held = new.lock("x").try_lock().await.unwrap();

        assert!(held.is_some(), "{fate:?}");
        let is_same_directory = matches!(fate, Fate::OnlyItsHeader);
        assert!(!(is_same_directory && guard.is_held()), "{fate:?}");
        let mut other = Actor::start();
        other.connects(&store);
        assert_eq!(other.does(&["try", "x"]), "busy", "{fate:?}");
        drop((guard, old));
        assert_eq!(other.does(&["try", "x"]), "busy", "{fate:?}");
    }
}

/// A waiter's call fails too: it does not wait for a lease in a store that is gone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiting_call_fails_when_the_store_is_removed() {
    let store = Store::new();
    let (holder, waiter) = (store.client().await, store.client().await);
    let _guard = holder.lock("x").lease(LEASE).lock().await.unwrap();
    let waits = tokio::spawn({
        let lock = waiter.lock("x");
        async move { lock.lock().await }
    });
    let listens = async || store.sessions().iter().any(|name| name.ends_with(".wake"));
    testkit::eventually_async(testkit::LIMIT, "it waits", listens).await;

    Fate::Removed.befalls(&store);

    assert_refused(limited(waits).await.unwrap(), "REMOVED", "connect again");
}

/// When the directory is moved back, the store works as before; holds that were lost stay lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_comes_back_is_the_same() {
    let store = Store::new();
    let client = store
        .builder()
        .watchdog_lease(LEASE)
        .connect()
        .await
        .unwrap();
    let guard = client.lock("x").lock().await.unwrap();
    let mut other = Actor::start();
    other.connects(&store);
    other.takes("y");
    Fate::RenamedAway.befalls(&store);
    assert_lost(&guard, Instant::now(), Fate::RenamedAway).await;

    fs::rename(store.beside("away"), store.path()).unwrap();

    assert!(!guard.is_held());
    assert!(client.lock("y").try_lock().await.unwrap().is_none());
    assert!(client.lock("z").try_lock().await.unwrap().is_some());
    other.releases("y");
}

/// A process that had the old file open while the directory was removed and begun anew by another process must not remove the
/// new store.
#[test]
fn stores_that_are_removed_and_begun_anew_repeatedly_are_usable() {
    let store = Store::new();
    let rounds = 40;
    let mut actors: Vec<_> = (0..4).map(|_| Actor::start()).collect();
    for round in 0..rounds {
        let name = round.to_string();
        for actor in &mut actors {
            actor.begins(&["connect", &store.url(), "60000"]);
        }
        remove(store.path());
        for actor in &mut actors {
            let answer = actor.answers();
            let is_expected = answer == "connected" || answer.starts_with("Refused INUSE");
            assert!(is_expected, "{answer}");
        }

        let mut newcomer = Actor::start();
        newcomer.connects(&store);
        newcomer.takes(&name);
        let mut second = Actor::start();
        second.connects(&store);
        assert_eq!(second.does(&["try", &name]), "busy");
    }
}

/// As `rm -rf` does it, also when other processes create files meanwhile.
fn remove(path: &Path) {
    while path.exists() {
        let _ = fs::remove_dir_all(path);
    }
}
