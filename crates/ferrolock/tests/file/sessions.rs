//! The session files, which show which processes live. When they are tampered with, leases decide; otherwise no such file is
//! left over.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use testkit::{LIMIT, eventually, eventually_async};

use crate::actor::Actor;
use crate::stage::{Store, boot_nanos, limited};

/// Long enough to be renewed on a machine under load, short enough to wait for.
const LEASE: Duration = Duration::from_secs(3);

/// What is done to the session file of a holder.
#[derive(Clone, Copy, Debug)]
enum Tampering {
    Removed,
    Replaced,
    RenamedAway,
    /// Replaced by a link to a file that no process has locked.
    Link,
    /// Replaced by a directory.
    Directory,
}

impl Tampering {
    const ALL: [Self; 5] = [
        Self::Removed,
        Self::Replaced,
        Self::RenamedAway,
        Self::Link,
        Self::Directory,
    ];

    fn befalls(self, session: &Path, store: &Store) {
        let away = store.beside("away");
        match self {
            Self::RenamedAway => fs::rename(session, &away).unwrap(),
            _ => fs::remove_file(session).unwrap(),
        }
        match self {
            Self::Removed | Self::RenamedAway => {}
            Self::Replaced => fs::write(session, "").unwrap(),
            Self::Link => {
                fs::write(&away, "").unwrap();
                std::os::unix::fs::symlink(&away, session).unwrap();
            }
            Self::Directory => fs::create_dir(session).unwrap(),
        }
    }
}

/// A holder, and a second process that has not connected yet and does not know the session file.
fn held() -> (Store, Actor, Actor) {
    let (store, mut holder) = (Store::new(), Actor::start());
    holder.connects_with_lease(&store, LEASE);
    holder.takes("x");
    (store, holder, Actor::start())
}

/// All kinds at once, in threads: each takes as long as a lease.
fn each_at_once(story: impl Fn(Tampering) + Sync) {
    std::thread::scope(|scope| {
        for tampering in Tampering::ALL {
            let story = &story;
            scope.spawn(move || story(tampering));
        }
    });
}

#[test]
fn a_living_holder_whose_file_is_gone_keeps_what_it_holds() {
    each_at_once(|tampering| {
        let (store, mut holder, mut other) = held();

        tampering.befalls(&store.only_session(), &store);
        other.connects(&store);

        let begun = Instant::now();
        while begun.elapsed() < LEASE + LEASE / 2 {
            assert_eq!(other.does(&["try", "x"]), "busy", "{tampering:?}");
            assert_eq!(holder.does(&["held", "x"]), "true", "{tampering:?}");
        }
        holder.releases("x");
        other.takes("x");
    });
}

#[test]
fn the_lock_of_a_killed_holder_without_a_file_is_free_when_its_lease_ends() {
    each_at_once(|tampering| {
        let before = boot_nanos();
        let (store, mut holder, mut other) = held();

        let session = store.only_session();
        tampering.befalls(&session, &store);
        holder.is_killed();
        other.connects(&store);
        other.begins(&["wait", "x"]);

        let grant = other.gets();
        let after = Duration::from_nanos(grant.at_nanos - before);
        eprintln!("{tampering:?}: free after {after:?}, the lease is {LEASE:?}: {grant:?}");
        assert!(after >= LEASE, "{tampering:?}: {after:?}");
    });
}

/// After the kill another file may appear at that path, with any inode: no process draws a wrong conclusion from it.
#[test]
fn a_file_in_the_place_of_a_dead_session_does_no_harm() {
    let (store, mut holder, mut other) = held();
    let session = store.only_session();
    fs::remove_file(&session).unwrap();
    holder.is_killed();
    // The file system may give it the inode that was just freed.
    fs::write(&session, "").unwrap();

    other.connects(&store);

    assert_eq!(other.does(&["lock", "x"]), "held");
    let mut third = Actor::start();
    third.connects(&store);
    assert_eq!(third.does(&["try", "x"]), "busy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_clean_end_nothing_is_left() {
    let store = Store::new();
    let (one, two) = (store.client().await, store.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let waits = tokio::spawn({
        let lock = two.lock("x");
        async move { lock.lock().await }
    });
    eventually_async(LIMIT, "it waits", async || store.sessions().len() == 2).await;
    guard.unlock().await.unwrap();
    let guard = limited(waits).await.unwrap().unwrap();

    drop(one);
    assert_eq!(store.sessions().len(), 2);
    drop((guard, two));

    eventually_async(LIMIT, "nothing is left", async || {
        store.sessions().is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_shutdown_nothing_is_left() {
    let store = Store::new();
    let client = store.client().await;
    client
        .lock("x")
        .lock()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();

    client.shutdown(LIMIT).await.unwrap();

    eventually_async(LIMIT, "nothing is left", async || {
        store.sessions().is_empty()
    })
    .await;
}

#[test]
fn a_process_that_ends_well_leaves_nothing() {
    let store = Store::begun();

    eventually(LIMIT, "nothing is left", || store.sessions().is_empty());
}

/// The thread that receives messages of other processes ends with the session.
#[test]
fn the_listening_thread_ends_with_the_session() {
    let (store, mut holder, mut actor) = (Store::new(), Actor::start(), Actor::start());
    holder.connects(&store);
    holder.takes("x");
    actor.connects(&store);
    actor.begins(&["lock", "x"]);
    let has_listener = |actor: &Actor| actor.threads().contains(&"ferrolock-wakes".to_owned());
    eventually(LIMIT, "it listens", || has_listener(&actor));
    holder.releases("x");
    assert_eq!(actor.answers(), "held");

    assert_eq!(actor.does(&["close"]), "closed");

    eventually(LIMIT, "it listens no longer", || !has_listener(&actor));
}

#[test]
fn the_next_process_that_connects_sweeps_files_of_killed_processes() {
    let store = Store::begun();
    let mut holder = Actor::start();
    holder.connects(&store);
    holder.takes("x");
    let mut victims: Vec<_> = (0..4).map(|_| Actor::start()).collect();
    for victim in &mut victims {
        victim.connects(&store);
        victim.begins(&["lock", "x"]);
    }
    eventually(LIMIT, "all wait", || store.sessions().len() == 9);
    victims.iter_mut().for_each(Actor::is_killed);
    assert_eq!(store.sessions().len(), 9);

    let mut newcomer = Actor::start();
    newcomer.connects(&store);

    assert_eq!(store.sessions().len(), 2);
}

/// A process may be killed after it made its file and before the table lists it, or when the table lists it no longer. In an
/// earlier version, such files stayed for ever when many processes were killed.
#[test]
fn session_files_that_the_table_does_not_list_are_swept_too() {
    let store = Store::begun();
    let sessions = store.file("sessions");
    for name in [
        "00112233445566aa",
        "00112233445566aa.wake",
        "ffffffffffffffff.wake",
    ] {
        fs::write(sessions.join(name), "").unwrap();
    }
    fs::write(sessions.join("not ours"), "").unwrap();

    let mut newcomer = Actor::start();
    newcomer.connects(&store);

    let left = store.sessions();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains(&"not ours".to_owned()), "{left:?}");
}

/// In an earlier version, futures that were dropped while they opened the store left a session open for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connecting_that_was_given_up_leaves_no_session_file() {
    let store = Store::begun();
    for micros in 0..300 {
        let limit = Duration::from_micros(micros * 10);
        let _ = tokio::time::timeout(limit, store.builder().connect()).await;
    }
    let turn = store.file("turn");
    let mut inside = Actor::start();
    for round in 0..20 {
        inside.does(&["flock", "exclusive", turn.to_str().unwrap()]);
        let connecting = tokio::spawn(store.builder().connect());
        inside.begins(&["close files"]);
        for _ in 0..round {
            tokio::task::yield_now().await;
        }
        connecting.abort();
        inside.answers();
    }

    eventually_async(LIMIT, "nothing is left", async || {
        store.sessions().is_empty()
    })
    .await;
}
