//! Somebody removes the directory, or a part of it, between two steps of those who begin a store or take part in it.

use std::cell::RefCell;

use super::*;

const SIZE: usize = 8 << 20;

type Mischief = Box<dyn FnOnce()>;

thread_local! {
    /// What happens after so many steps from now.
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

/// A directory that is not made yet.
fn nowhere() -> (tempfile::TempDir, Place) {
    let around = testkit::store_folder();
    let path = around.path().join("store of locks");
    let place = Place::parse(path.to_str().unwrap()).unwrap();
    (around, place)
}

fn found(place: &Place) -> Found {
    Folder::find(place).unwrap().expect("nobody removes it")
}

fn try_open(place: &Place) -> Result<Entry, Failure> {
    Folder::open(found(place), SIZE)
}

/// Opened by somebody who tries a few times, as everybody does.
#[track_caller]
fn opened(place: &Place) -> (Box<Folder>, Opening) {
    let mut last = None;
    for _ in 0..4 {
        match try_open(place) {
            Ok(Entry::Open(folder, opening)) => return (folder, opening),
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

/// Somebody has it open, so that no other file gets its number.
fn remove_file(path: &Path) {
    if let Ok(file) = File::open(path) {
        std::mem::forget(file);
        fs::remove_file(path).unwrap();
    }
}

/// Does it at each step in turn, until there are no more; how many there were.
fn at_each_step(mut story: impl FnMut(usize) -> bool) -> usize {
    (0..).find(|at| !story(*at)).unwrap()
}

#[test]
fn a_part_that_is_removed_while_a_store_is_begun_is_in_nobodys_way() {
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
                Ok(Entry::Open(folder, _)) if is_whole(folder) => {}
                Ok(Entry::Open(..)) => in_half.push(at),
                Ok(Entry::Later) => {}
                other => panic!("{part} at step {at}: {other:?}"),
            }
            drop(begun);
            let (folder, _opening) = opened(&place);
            assert!(is_whole(&folder), "{part} at step {at}");
            true
        });
        assert!(steps > 10, "{part}: {steps}");
        // Only after its last look it cannot know.
        assert_eq!(in_half, [steps - 1], "{part}");
    }
}

/// It has to try again, or learns of it with its first call.
#[track_caller]
fn assert_is_told(begun: Result<Entry, Failure>, at: usize) {
    match begun {
        Ok(Entry::Later) => {}
        Ok(Entry::Open(mut folder, _)) => assert!(!folder.verify_in_place(None, 0), "step {at}"),
        other => panic!("step {at}: {other:?}"),
    }
}

/// Whoever began a store went on in a directory that another process had made anew meanwhile, and removed that one's files: it was
/// `CORRUPT` for all who came later. Or it put its own files there before that one's header, and the directory was `FOREIGN`.
#[test]
fn who_begins_a_store_in_a_removed_directory_leaves_the_new_one_alone() {
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

        let (new, _opening) = told.recv().unwrap();
        assert_is_told(begun, at);
        assert!(is_whole(&new), "step {at}");
        true
    });
    assert!(steps > 10, "{steps}");
}

/// The new directory is there, and nothing in it yet.
#[test]
fn who_begins_a_store_in_a_removed_directory_puts_nothing_into_the_new_one() {
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

        assert_is_told(begun, at);
        assert_eq!(fs::read_dir(&place.path).unwrap().count(), 0, "step {at}");
        true
    });
}

/// The header is removed under somebody who begins a store, and another begins one in the same directory: it has to wait.
#[test]
fn two_never_begin_a_store_in_one_directory() {
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
        let are_both_in = matches!((&begun, &other), (Ok(Entry::Open(..)), Ok(Entry::Open(..))));
        assert!(!are_both_in, "step {at}");
        for entry in [begun, other] {
            assert!(
                matches!(entry, Ok(Entry::Open(..) | Entry::Later)),
                "step {at}: {entry:?}"
            );
        }
        opened(&place);
        true
    });
}

/// LMDB makes a file that is missing when it opens a map. Others took the store for one whose parts were replaced then.
#[test]
fn a_part_that_is_removed_while_somebody_joins_is_in_nobodys_way() {
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
                matches!(joined, Ok(Entry::Open(..) | Entry::Later)),
                "{part} at step {at}: {joined:?}"
            );
            drop(joined);
            let (folder, _opening) = opened(&place);
            assert!(is_whole(&folder), "{part} at step {at}");
            true
        });
        assert!(steps >= 4, "{part}: {steps}");
    }
}

/// What is left of a store that somebody uses is not begun anew, and is again when nobody does.
#[test]
fn half_a_store_is_begun_anew_when_nobody_uses_it() {
    for part in ["turn", "sessions", "data.mdb", "lock.mdb"] {
        let (_around, place) = nowhere();
        let (mut used, opening) = opened(&place);
        remove(&place.path, part);

        for _ in 0..2 {
            let entry = try_open(&place);
            assert!(
                matches!(entry, Ok(Entry::InUse(Rest::Half))),
                "{part}: {entry:?}"
            );
        }
        assert_eq!(used.header, header_at(&place), "{part}");
        let micros = used.header.micros();
        assert!(!used.verify_in_place(None, micros + LOOK_EVERY_MICROS));
        let entry = try_open(&place);
        assert!(
            matches!(entry, Ok(Entry::InUse(Rest::Half))),
            "it noticed, and may still hold something: {part}: {entry:?}"
        );
        used.leave();
        let (new, _opening) = opened(&place);

        assert!(is_whole(&new), "{part}");
        assert!(!used.verify_in_place(None, micros), "{part}");
        drop(opening);
    }
}

fn header_at(place: &Place) -> Header {
    let found = found(place);
    let here = World::here().unwrap();
    header(&found.directory, &found.store.unwrap(), &here).unwrap()
}
