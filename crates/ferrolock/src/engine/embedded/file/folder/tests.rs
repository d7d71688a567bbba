//! The directory, or a part of it, is removed between two steps of a process that begins a store or joins it.

use std::cell::RefCell;

use super::*;

const SIZE: usize = 8 << 20;

type Mischief = Box<dyn FnOnce()>;

thread_local! {
    /// What to do at which step, counted from now.
    static MISCHIEF: RefCell<Option<(usize, Mischief)>> = const { RefCell::new(None) };
}

pub(super) fn step() {
    let due = MISCHIEF.with_borrow_mut(|mischief| match mischief {
        Some((0, _)) => mischief.take(),
        Some((steps, _)) => {
            *steps -= 1;
            None
        }
        None => None,
    });
    if let Some((_, happens)) = due {
        happens();
    }
}

/// Does the work, and at that step the mischief; `None` if the work has fewer steps.
fn with_mischief<R>(at: usize, mischief: Mischief, work: impl FnOnce() -> R) -> Option<R> {
    MISCHIEF.set(Some((at, mischief)));
    let done = work();
    MISCHIEF.take().is_none().then_some(done)
}

/// Each in a process of its own. Locks on files are passed on to a process that another test starts, and stay until that one
/// has become its program: a file that was closed here would be locked for a moment longer, by no one that uses the store.
macro_rules! alone {
    ($($test:ident),* $(,)?) => {
        mod alone {
            $(#[test]
            fn $test() {
                testkit::process::alone(super::$test);
            })*
        }
    };
}

alone!(
    a_store_can_be_opened_after_a_part_was_removed_while_it_was_begun,
    beginning_a_store_in_a_removed_directory_leaves_the_new_store_whole,
    beginning_a_store_in_a_removed_directory_adds_nothing_to_the_new_one,
    two_processes_never_begin_a_store_in_one_directory,
    a_store_can_be_opened_after_a_part_was_removed_during_a_join,
    half_a_store_is_begun_anew_once_no_process_uses_it,
);

/// A directory that is not made yet.
fn nowhere() -> (tempfile::TempDir, StorePlace) {
    let around = testkit::store_folder();
    let path = around.path().join("store of locks");
    let place = StorePlace::parse(path.to_str().unwrap()).unwrap();
    (around, place)
}

fn found(place: &StorePlace) -> FoundDirectory {
    Folder::find(place).unwrap().expect("nobody removes it")
}

fn try_open(place: &StorePlace) -> Result<FolderTry, Failure> {
    Folder::open(found(place), SIZE)
}

/// Opens the store with a few tries, as clients do.
#[track_caller]
fn opened(place: &StorePlace) -> (Box<Folder>, OpenedMap) {
    let mut last = None;
    for _ in 0..4 {
        match try_open(place) {
            Ok(FolderTry::Open(folder, map)) => return (folder, map),
            other => last = Some(other),
        }
    }
    panic!("a newcomer is not let in: {last:?}");
}

fn is_whole(folder: &Folder) -> bool {
    let inside = folder.path();
    parts::extent(inside, &folder.header, folder.device()).unwrap() == Extent::Whole
        && is_at(&folder.store_path, folder.store_inode)
}

/// What is removed: a part by its name, whatever the map is called; the whole directory is `.`.
const PARTS: [&str; 6] = [".", "store", "turn", "sessions", "data.mdb", "lock.mdb"];

fn remove(path: &Path, part: &str) {
    let listed = || fs::read_dir(path).into_iter().flatten().flatten();
    match part {
        "." => drop(fs::remove_dir_all(path)),
        "sessions" => drop(fs::remove_dir_all(path.join(part))),
        "data.mdb" | "lock.mdb" => {
            listed().for_each(|entry| remove_file(&entry.path().join(part)));
        }
        _ => remove_file(&path.join(part)),
    }
}

/// Keeps the file open, so that no other file gets its inode number.
fn remove_file(path: &Path) {
    if let Ok(file) = File::open(path) {
        std::mem::forget(file);
        fs::remove_file(path).unwrap();
    }
}

/// Plays the story for each step in turn, until there are no more; returns how many there were.
fn at_each_step(mut story: impl FnMut(usize) -> bool) -> usize {
    (0..).find(|at| !story(*at)).unwrap()
}

fn a_store_can_be_opened_after_a_part_was_removed_while_it_was_begun() {
    for part in PARTS {
        let mut in_half = Vec::new();
        let steps = at_each_step(|at| {
            let (_around, place) = nowhere();
            let path = place.path.clone();
            let mischief = Box::new(move || remove(&path, part));

            let Some(begun) = with_mischief(at, mischief, || try_open(&place)) else {
                return false;
            };

            match &begun {
                Ok(FolderTry::Open(folder, _)) if is_whole(folder) => {}
                Ok(FolderTry::Open(..)) => in_half.push(at),
                Ok(FolderTry::Later) => {}
                other => panic!("{part} at step {at}: {other:?}"),
            }
            drop(begun);
            let (folder, _map) = opened(&place);
            assert!(is_whole(&folder), "{part} at step {at}");
            true
        });
        assert!(steps > 10, "{part}: {steps}");
        // Only a removal after its last look goes unnoticed.
        assert_eq!(in_half, [steps - 1], "{part}");
    }
}

/// The process that began the store has to try again, or its first call notices the removal.
#[track_caller]
fn assert_removal_is_noticed(begun: Result<FolderTry, Failure>, at: usize) {
    match begun {
        Ok(FolderTry::Later) => {}
        Ok(FolderTry::Open(mut folder, _)) => {
            assert!(!folder.verify_in_place(None, 0), "step {at}")
        }
        other => panic!("step {at}: {other:?}"),
    }
}

/// Once, a process that began a store went on in a directory that another process had made anew meanwhile, and removed that
/// one's files: later processes failed with `CORRUPT`. Or it put its own files there before the other's header: `FOREIGN`.
fn beginning_a_store_in_a_removed_directory_leaves_the_new_store_whole() {
    let steps = at_each_step(|at| {
        let (_around, place) = nowhere();
        let theirs = place.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let mischief = Box::new(move || {
            remove(&theirs.path, ".");
            tell.send(opened(&theirs)).unwrap();
        });

        let Some(begun) = with_mischief(at, mischief, || try_open(&place)) else {
            return false;
        };

        let (new, _map) = told.recv().unwrap();
        assert_removal_is_noticed(begun, at);
        assert!(is_whole(&new), "step {at}");
        true
    });
    assert!(steps > 10, "{steps}");
}

/// The new directory is still empty.
fn beginning_a_store_in_a_removed_directory_adds_nothing_to_the_new_one() {
    at_each_step(|at| {
        let (_around, place) = nowhere();
        let path = place.path.clone();
        let mischief = Box::new(move || {
            remove(&path, ".");
            new_folder(&path).unwrap();
        });

        let Some(begun) = with_mischief(at, mischief, || try_open(&place)) else {
            return false;
        };

        assert_removal_is_noticed(begun, at);
        assert_eq!(fs::read_dir(&place.path).unwrap().count(), 0, "step {at}");
        true
    });
}

/// The header is removed while a process begins a store, and another process begins one in the same directory: it has to
/// wait.
fn two_processes_never_begin_a_store_in_one_directory() {
    at_each_step(|at| {
        let (_around, place) = nowhere();
        let theirs = place.clone();
        let (tell, told) = std::sync::mpsc::channel();
        let mischief = Box::new(move || {
            remove(&theirs.path, "store");
            tell.send(try_open(&theirs)).unwrap();
        });

        let Some(begun) = with_mischief(at, mischief, || try_open(&place)) else {
            return false;
        };

        let other = told.recv().unwrap();
        let are_both_in = matches!(
            (&begun, &other),
            (Ok(FolderTry::Open(..)), Ok(FolderTry::Open(..)))
        );
        assert!(!are_both_in, "step {at}");
        for entry in [begun, other] {
            assert!(
                matches!(entry, Ok(FolderTry::Open(..) | FolderTry::Later)),
                "step {at}: {entry:?}"
            );
        }
        opened(&place);
        true
    });
}

/// LMDB makes a file that is missing when it opens a map. Once, others took the store for one with replaced parts then.
fn a_store_can_be_opened_after_a_part_was_removed_during_a_join() {
    for part in PARTS {
        let steps = at_each_step(|at| {
            let (_around, place) = nowhere();
            // Closed again: a process opens a map once.
            drop(opened(&place));
            let path = place.path.clone();
            let mischief = Box::new(move || remove(&path, part));

            let Some(joined) = with_mischief(at, mischief, || try_open(&place)) else {
                return false;
            };

            assert!(
                matches!(joined, Ok(FolderTry::Open(..) | FolderTry::Later)),
                "{part} at step {at}: {joined:?}"
            );
            drop(joined);
            let (folder, _map) = opened(&place);
            assert!(is_whole(&folder), "{part} at step {at}");
            true
        });
        assert!(steps >= 4, "{part}: {steps}");
    }
}

/// What is left of a store is not begun anew while a process uses it, and is when none does.
fn half_a_store_is_begun_anew_once_no_process_uses_it() {
    for part in ["turn", "sessions", "data.mdb", "lock.mdb"] {
        let (_around, place) = nowhere();
        let (mut used, map) = opened(&place);
        remove(&place.path, part);

        for _ in 0..2 {
            let entry = try_open(&place);
            assert!(
                matches!(entry, Ok(FolderTry::InUse(StoreRest::Half))),
                "{part}: {entry:?}"
            );
        }
        assert_eq!(used.header, header_at(&place), "{part}");
        let micros = used.header.micros();
        assert!(!used.verify_in_place(None, micros + LOOK_EVERY_MICROS));
        let entry = try_open(&place);
        assert!(
            matches!(entry, Ok(FolderTry::InUse(StoreRest::Half))),
            "it noticed, and may still hold something: {part}: {entry:?}"
        );
        used.leave();
        let (new, _map) = opened(&place);

        assert!(is_whole(&new), "{part}");
        assert!(!used.verify_in_place(None, micros), "{part}");
        drop(map);
    }
}

fn header_at(place: &StorePlace) -> Header {
    let found = found(place);
    let here = World::here().unwrap();
    header(&found.directory, &found.store.unwrap(), &here).unwrap()
}
