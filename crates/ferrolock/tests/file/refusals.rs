//! Directories that are no store, or a store of another user, and files that are damaged: they are refused, with a hint what to
//! do, and left unchanged.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use ferrolock::{Client, ErrorKind};

use crate::actor::Actor;
use crate::stage::{Store, assert_refused, contents, is_possible, url};

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Connecting is refused each time, and changes nothing.
async fn assert_left_alone(store: &Store, code: &str, says: &str) {
    let before = contents(store.path());
    for _ in 0..2 {
        assert_refused(store.builder().connect().await, code, says);
    }
    assert_eq!(contents(store.path()), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_others_may_enter_is_refused() {
    let store = Store::begun();
    for open in [0o755, 0o750, 0o701, 0o777] {
        mode(store.path(), open);

        assert_left_alone(&store, "NOPERM", "chmod 700").await;
    }
    mode(store.path(), 0o700);
    let _client = store.client().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_is_no_directory_or_has_no_parent_is_refused() {
    let store = Store::new();
    fs::write(store.path(), "a file of somebody").unwrap();

    assert_refused(store.builder().connect().await, "FOREIGN", "no directory");
    assert_eq!(
        fs::read_to_string(store.path()).unwrap(),
        "a file of somebody"
    );

    let nowhere = url(&store.beside("missing").join("store"));
    assert_refused(Client::connect(nowhere).await, "ENOENT", "missing");
    assert!(!store.beside("missing").exists());
    let inside_a_file = url(&store.file("store"));
    assert!(Client::connect(inside_a_file).await.is_err());
    let error = Client::connect("file:").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_with_other_files_is_left_alone() {
    for files in [
        &["photo"][..],
        &["turn"],
        &["sessions"],
        &[".hidden", "map-1"],
    ] {
        let store = Store::new();
        fs::create_dir(store.path()).unwrap();
        mode(store.path(), 0o700);
        for file in files {
            fs::write(store.file(file), "of somebody").unwrap();
        }

        assert_left_alone(&store, "FOREIGN", "another directory").await;
    }
}

/// An empty file `store` is what a store begins with, but other programs may have such a file too. An earlier version removed
/// everything in such a directory that had a name as in a store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_with_an_empty_file_store_and_other_things_is_left_alone() {
    let store = Store::new();
    for folder in [
        store.path(),
        &store.file("sessions"),
        &store.file("map-of-treasure"),
    ] {
        fs::create_dir(folder).unwrap();
    }
    mode(store.path(), 0o700);
    fs::write(store.file("store"), "").unwrap();
    fs::write(store.file("turn"), "of somebody").unwrap();
    fs::write(store.file("map-of-treasure").join("x"), "of somebody").unwrap();

    assert_left_alone(&store, "FOREIGN", "another directory").await;
}

const MAP: &str = "map-00112233445566aa";
const DATA: &str = "map-00112233445566aa/data.mdb";
const SESSION: &str = "sessions/00112233445566aa";

/// What a process leaves that is killed while it begins a store.
#[test]
fn a_store_that_was_not_finished_is_begun_anew() {
    for (header, files) in [
        ("", &[][..]),
        ("ferrolock store\n", &[]),
        ("ferrolock store\n", &["turn"]),
        ("ferrolock store\n", &["turn", DATA, SESSION]),
    ] {
        let store = Store::new();
        fs::create_dir(store.path()).unwrap();
        mode(store.path(), 0o700);
        fs::write(store.file("store"), header).unwrap();
        for file in files {
            fs::create_dir_all(store.file(file).parent().unwrap()).unwrap();
            fs::write(store.file(file), "half").unwrap();
        }

        let mut actor = Actor::start();
        actor.connects(&store);

        actor.takes("x");
        assert!(!store.file(MAP).exists());
        assert!(!store.file(SESSION).exists());
    }
}

/// An earlier version removed everything that was in the folders of a store, or in a folder with a similar name.
#[test]
fn files_that_are_not_ours_survive_when_a_store_is_begun_anew() {
    for header in ["ferrolock store\n", "of another boot"] {
        let store = Store::begun();
        let theirs = [
            "not ours",
            "map-of-treasure/x",
            "sessions/not ours",
            &format!("{}/x", store.map().file_name().unwrap().to_str().unwrap()),
        ]
        .map(|name| store.file(name));
        fs::create_dir(store.file("map-of-treasure")).unwrap();
        for file in &theirs {
            fs::write(file, "of somebody").unwrap();
        }
        match header {
            "of another boot" => store.edit_header("boot", "another"),
            unfinished => fs::write(store.file("store"), unfinished).unwrap(),
        }

        let mut actor = Actor::start();
        actor.connects(&store);
        actor.takes("x");

        for file in &theirs {
            let text = fs::read_to_string(file).unwrap();
            assert_eq!(text, "of somebody", "{}", file.display());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_header_that_is_garbage_or_no_plain_file_is_refused() {
    for (text, code) in [
        ("garbage", "FOREIGN"),
        ("\0\0\0\0", "FOREIGN"),
        ("ferrolock store\nformat 1\n", "CORRUPT"),
        ("ferrolock store\nformat 99\n", "FOREIGN"),
        ("ferrolock store", "CORRUPT"),
    ] {
        let store = Store::begun();
        fs::write(store.file("store"), text).unwrap();
        assert_left_alone(&store, code, "").await;
    }

    let store = Store::begun();
    fs::write(store.file("store"), [0xff; 10_000]).unwrap();
    assert_left_alone(&store, "FOREIGN", "not ours").await;

    let store = Store::begun();
    fs::rename(store.file("store"), store.beside("header")).unwrap();
    symlink(store.beside("header"), store.file("store")).unwrap();
    assert_left_alone(&store, "EIO", "store").await;

    let store = Store::begun();
    fs::remove_file(store.file("store")).unwrap();
    fs::create_dir(store.file("store")).unwrap();
    assert_left_alone(&store, "EIO", "store").await;
}

type Damage = fn(&Path);

/// What is done to the files of the table while no process uses it.
const DAMAGES: [(&str, Damage); 8] = [
    ("the data is empty", |map| cut(map, 0)),
    ("the data is one page", |map| cut(map, 4096)),
    ("the data is two pages", |map| cut(map, 8192)),
    ("the data ends within a page", |map| cut(map, 100)),
    ("the head is zero", |map| {
        data(map).write_all_at(&[0; 8192], 0).unwrap()
    }),
    ("the data is a copy", |map| copied(&map.join("data.mdb"))),
    ("the locks are a copy", |map| copied(&map.join("lock.mdb"))),
    ("the data is missing, and the locks are a copy", |map| {
        fs::remove_file(map.join("data.mdb")).unwrap();
        copied(&map.join("lock.mdb"));
    }),
];

fn data(map: &Path) -> File {
    OpenOptions::new()
        .write(true)
        .open(map.join("data.mdb"))
        .unwrap()
}

fn cut(map: &Path, length: u64) {
    data(map).set_len(length).unwrap();
}

fn copied(file: &Path) {
    let copy = file.with_extension("copy");
    fs::copy(file, &copy).unwrap();
    fs::rename(copy, file).unwrap();
}

/// Connecting never crashes, and never gives out a lock that is taken.
#[test]
fn a_damaged_table_is_refused() {
    for (damage, inflict) in DAMAGES {
        let store = Store::begun();
        let mut actor = Actor::start();
        actor.connects(&store);
        actor.takes("x");
        assert_eq!(
            actor.does(&["unlock after", "x", "600000"]),
            "released later"
        );
        actor.ends();
        inflict(&store.map());

        let mut other = Actor::start();
        for _ in 0..2 {
            let answer = other.does(&["connect", &store.url(), "30000"]);
            assert!(answer.starts_with("Refused CORRUPT"), "{damage}: {answer}");
            assert!(answer.contains("remove"), "{damage}: {answer}");
        }
        assert!(store.file("store").exists());
    }
}

/// Overwrites each page in turn: no process gets the taken lock, and none crashes.
#[test]
fn a_table_with_a_bad_page_never_gives_a_taken_lock() {
    let length = {
        let store = damaged(u64::MAX);
        fs::metadata(store.map().join("data.mdb")).unwrap().len()
    };
    let mut seen = BTreeMap::new();
    for page in 0..length / 4096 {
        let store = damaged(page);
        let mut other = Actor::start();
        let answer = match other.does(&["connect", &store.url(), "30000"]) {
            connected if connected == "connected" => other.does(&["try", "x"]),
            refused => refused,
        };
        let answer = answer.split(':').next().unwrap().to_owned();
        assert_ne!(answer, "held", "page {page}");
        *seen.entry(answer).or_insert(0) += 1;
    }
    eprintln!("of {} pages: {seen:?}", length / 4096);
}

/// A store in which `x` is taken, with zeros in that page of its table.
fn damaged(page: u64) -> Store {
    let (store, mut actor) = (Store::new(), Actor::start());
    actor.connects(&store);
    actor.takes("x");
    assert_eq!(
        actor.does(&["unlock after", "x", "600000"]),
        "released later"
    );
    actor.ends();
    if page != u64::MAX {
        data(&store.map())
            .write_all_at(&[0; 4096], page * 4096)
            .unwrap();
    }
    store
}

/// A process of another user, if we may start one.
fn stranger() -> Option<Actor> {
    let this = std::env::current_exe().unwrap();
    let other = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    if !is_possible(&[&other[..], &["test", "-x", this.to_str().unwrap()]].concat()) {
        testkit::left_out(
            "without root",
            "only root may start a process of another user\n",
        );
        return None;
    }
    Some(Actor::start_under(&other))
}

#[test]
fn a_directory_of_another_user_is_refused() {
    let Some(mut stranger) = stranger() else {
        return;
    };
    let store = Store::begun();
    mode(store.path().parent().unwrap(), 0o755);
    let before = store.contents();

    // The stranger may look at the directory itself, but not at what is in it.
    let answer = stranger.does(&["connect", &store.url(), "30000"]);

    assert!(answer.starts_with("Refused NOPERM"), "{answer}");
    assert!(answer.contains("belongs to user 0"), "{answer}");
    assert_eq!(store.contents(), before);
}

#[test]
fn a_place_where_nothing_may_be_written_is_refused() {
    let Some(mut stranger) = stranger() else {
        return;
    };
    let store = Store::new();
    mode(store.path().parent().unwrap(), 0o755);

    let answer = stranger.does(&["connect", &store.url(), "30000"]);

    assert!(answer.starts_with("Refused EACCES"), "{answer}");
    assert!(!store.path().exists());
}
