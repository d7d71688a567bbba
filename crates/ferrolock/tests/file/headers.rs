//! Stores of another boot, of another clock, of programs that were built differently.

use testkit::{LIMIT, eventually};

use crate::actor::Actor;
use crate::stage::{Store, assert_refused, is_possible};

/// A store in which a process has left a lock taken for a long time.
fn with_a_taken_name() -> Store {
    let (store, mut actor) = (Store::new(), Actor::start());
    actor.connects(&store);
    actor.takes("x");
    assert_eq!(
        actor.does(&["unlock after", "x", "600000"]),
        "released later"
    );
    actor.ends();
    eventually(LIMIT, "nobody is inside", || store.sessions().is_empty());
    store
}

#[test]
fn a_store_of_another_boot_is_begun_anew_when_no_process_uses_it() {
    let store = with_a_taken_name();
    let old_map = store.map();
    std::fs::write(store.file("not ours"), "a file of somebody").unwrap();
    store.edit_header("boot", "00000000-0000-0000-0000-000000000000");

    let mut actor = Actor::start();
    actor.connects(&store);

    actor.takes("x");
    assert_ne!(store.map(), old_map);
    assert!(!old_map.exists());
    let kept = std::fs::read_to_string(store.file("not ours")).unwrap();
    assert_eq!(kept, "a file of somebody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_another_boot_that_is_in_use_is_refused() {
    let store = with_a_taken_name();
    store.edit_header("boot", "00000000-0000-0000-0000-000000000000");
    let mut user = Actor::start();
    let file = store.file("store");
    assert_eq!(
        user.does(&["flock", "shared", file.to_str().unwrap()]),
        "locked"
    );
    let before = store.contents();

    assert_refused(
        store.builder().connect().await,
        "INUSE",
        "another directory",
    );

    assert_eq!(store.contents(), before);
    user.is_killed();
    let client = store.client().await;
    assert!(client.lock("x").try_lock().await.unwrap().is_some());
}

/// Many processes find the old store at once: one of them begins it anew, and all use the same new one.
#[test]
fn of_many_processes_that_find_an_old_store_or_none_one_begins_it() {
    for is_old in [true, false] {
        for round in 0..5 {
            let store = if is_old {
                with_a_taken_name()
            } else {
                Store::new()
            };
            if is_old {
                store.edit_header("boot", &format!("another {round}"));
            }
            let mut actors: Vec<_> = (0..8).map(|_| Actor::start()).collect();
            for actor in &mut actors {
                actor.begins(&["connect", &store.url(), "60000"]);
            }
            for actor in &mut actors {
                assert_eq!(actor.answers(), "connected");
            }

            let got: Vec<_> = actors
                .iter_mut()
                .map(|actor| actor.does(&["try", "x"]))
                .collect();

            assert_eq!(
                got.iter().filter(|answer| *answer == "held").count(),
                1,
                "{got:?}"
            );
            assert_eq!(
                got.iter().filter(|answer| *answer == "busy").count(),
                7,
                "{got:?}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_that_does_not_fit_is_refused_and_the_store_stays_unchanged() {
    for (word, value, code, says) in [
        ("time", "time:[1]", "NAMESPACE", "a store of its own"),
        ("c-library", "another", "FOREIGN", "a store of its own"),
        ("pointer", "16", "FOREIGN", "a store of its own"),
        ("format", "2", "FOREIGN", "another version"),
        ("map", "map-0", "CORRUPT", "remove"),
        ("map", "../..", "CORRUPT", "remove"),
        ("file", "1 1", "CORRUPT", "remove"),
        ("offset", "soon", "CORRUPT", "remove"),
        ("end", "", "CORRUPT", "remove"),
    ] {
        let store = with_a_taken_name();
        store.edit_header(word, value);
        let before = store.contents();

        for _ in 0..2 {
            assert_refused(store.builder().connect().await, code, says);
        }

        assert_eq!(store.contents(), before, "{word}");
    }
}

/// With a real process that has another boot clock.
#[test]
fn a_process_with_another_clock_is_refused() {
    let other = [
        "unshare",
        "--user",
        "--map-root-user",
        "--time",
        "--boottime",
        "100000",
        "--fork",
    ];
    let becomes = &other[..other.len() - 1];
    if !is_possible(&[becomes, &["true"]].concat()) {
        let remedy = "time namespaces are not allowed here\n";
        return testkit::left_out("without time namespaces", remedy);
    }
    let store = with_a_taken_name();
    let before = store.contents();
    // A process enters its new time namespace with its next program.
    let mut stranger = Actor::start_under(becomes);

    let answer = stranger.does(&["connect", &store.url(), "30000"]);

    assert!(answer.starts_with("Refused NAMESPACE"), "{answer}");
    assert_eq!(store.contents(), before);
}
