//! Disks that are full or read-only, and file systems that cannot be trusted.

use crate::actor::Actor;
use crate::stage::{Store, is_possible, url};

/// An actor in a namespace of its own in which `mount` was run, if the system allows it.
fn under(mount: &str) -> Option<Actor> {
    let script = format!("{mount} && exec \"$@\"");
    let inside = [
        "unshare",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        &script,
        "sh",
    ];
    if !is_possible(&[&inside[..], &["true"]].concat()) {
        let remedy = "mounts in a namespace of one's own are not allowed here\n";
        testkit::left_out("without namespaces", remedy);
        return None;
    }
    Some(Actor::start_under(&inside))
}

fn shown(path: &std::path::Path) -> String {
    format!("'{}'", path.to_str().unwrap())
}

#[test]
fn a_store_on_a_disk_that_may_not_be_written_is_refused() {
    let store = Store::begun();
    let folder = shown(store.path().parent().unwrap());
    let bind = format!("mount --bind {folder} {folder} && mount -o remount,ro,bind {folder}");
    let Some(mut actor) = under(&bind) else {
        return;
    };
    let before = store.contents();

    let old = actor.does(&["connect", &store.url(), "30000"]);
    let new = actor.does(&["connect", &url(&store.beside("new")), "30000"]);

    assert!(old.starts_with("Refused EROFS"), "{old}");
    assert!(new.starts_with("Refused EROFS"), "{new}");
    assert_eq!(store.contents(), before);
}

#[test]
fn on_a_full_disk_a_store_is_not_begun() {
    let store = Store::new();
    let disk = store.beside("disk");
    std::fs::create_dir(&disk).unwrap();
    let place = shown(&disk);
    let mount = format!("mount -t tmpfs -o size=64k,mode=700 none {place}");
    let Some(mut actor) = under(&mount) else {
        return;
    };
    actor.does(&[
        "shell",
        &format!("dd if=/dev/zero of={place}/filler bs=1k; true"),
    ]);
    let full = actor.does(&["connect", &url(&disk.join("store")), "30000"]);
    assert!(full.starts_with("Refused ENOSPC"), "{full}");

    assert!(
        actor
            .does(&["shell", &format!("rm {place}/filler")])
            .starts_with("ok")
    );

    let room = actor.does(&["connect", &url(&disk.join("store")), "30000"]);
    assert_eq!(room, "connected");
    actor.takes("x");
}

/// There is room for a part of the store only. A process that writes to a mapped file and finds no room is killed by the
/// system; LMDB once ran into this.
#[test]
fn on_a_disk_that_is_almost_full_no_process_dies() {
    const PAGES: usize = 24;
    let store = Store::new();
    let disk = store.beside("disk");
    std::fs::create_dir(&disk).unwrap();
    let (place, url) = (shown(&disk), url(&disk.join("store")));
    let mount = format!(
        "mount -t tmpfs -o size={}k,mode=700 none {place}",
        PAGES * 4
    );
    let mut seen = Vec::new();
    for free in 0..=PAGES {
        let Some(mut actor) = under(&mount) else {
            return;
        };
        let fill = format!(
            "head -c {} /dev/zero > {place}/filler",
            (PAGES - free) * 4096
        );
        assert_eq!(actor.does(&["shell", &fill]), "ok");

        let answer = match actor.does(&["connect", &url, "30000"]) {
            connected if connected == "connected" => actor.does(&["try", "x"]),
            refused => refused,
        };

        // EIO: what LMDB returns for a write that ends half-way.
        let refused = ["Refused ENOSPC", "Refused EIO"];
        let is_expected = answer == "held" || refused.iter().any(|code| answer.starts_with(code));
        assert!(is_expected, "{free} pages are free: {answer}");
        seen.push(answer.split(':').next().unwrap().to_owned());
        actor.does(&["shell", &format!("rm {place}/filler")]);
        assert_eq!(actor.does(&["connect", &url, "30000"]), "connected");
        actor.takes("y");
    }
    let enough = seen.iter().position(|answer| answer == "held");
    eprintln!("a store needs {enough:?} pages");
    assert!(enough.is_some());
}

/// The disk fills up while the store is in use: changes that cannot be written are refused, and locks that are held stay held.
#[test]
fn no_lock_is_lost_when_the_disk_fills_up() {
    let store = Store::new();
    let disk = store.beside("disk");
    std::fs::create_dir(&disk).unwrap();
    let place = shown(&disk);
    let mount = format!("mount -t tmpfs -o size=512k,mode=700 none {place}");
    let Some(mut actor) = under(&mount) else {
        return;
    };
    let url = url(&disk.join("store"));
    assert_eq!(actor.does(&["connect", &url, "120000"]), "connected");
    actor.takes("first");
    actor.does(&[
        "shell",
        &format!("dd if=/dev/zero of={place}/filler bs=1k; true"),
    ]);

    let mut taken = 0;
    let refused = loop {
        let name = format!("{} {taken}", "a long name ".repeat(20));
        match actor.does(&["try", &name]) {
            held if held == "held" => taken += 1,
            refused => break refused,
        }
        assert!(taken < 10_000, "the disk is never full");
    };
    eprintln!("on the full disk {taken} locks were taken, and then: {refused}");

    assert!(refused.starts_with("Refused ENOSPC"), "{refused}");
    assert_eq!(actor.does(&["held", "first"]), "true");
    assert!(
        actor
            .does(&["shell", &format!("rm {place}/filler")])
            .starts_with("ok")
    );
    actor.takes("there is room again");
    assert_eq!(actor.does(&["try other", &url, "first"]), "busy");
    actor.releases("first");
}
