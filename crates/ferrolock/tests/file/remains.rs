//! What `rm -rf` leaves of a store when it is interrupted, or runs while processes connect: the directory does not refuse
//! clients for ever, and files that are not ours are never touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::actor::Actor;
use crate::stage::{LONG, Store, assert_refused, contents};

/// What `rm` can remove in one step. The contents of a folder go before the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Header,
    Turn,
    Data,
    Locks,
    Map,
    SessionFiles,
    Sessions,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Header,
        Self::Turn,
        Self::Data,
        Self::Locks,
        Self::Map,
        Self::SessionFiles,
        Self::Sessions,
    ];

    /// What must be removed before.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Map => &[Self::Data, Self::Locks],
            Self::Sessions => &[Self::SessionFiles],
            _ => &[],
        }
    }

    fn remove(self, store: &Store, map: &PathBuf) {
        match self {
            Self::Header => fs::remove_file(store.file("store")).unwrap(),
            Self::Turn => fs::remove_file(store.file("turn")).unwrap(),
            Self::Data => fs::remove_file(map.join("data.mdb")).unwrap(),
            Self::Locks => fs::remove_file(map.join("lock.mdb")).unwrap(),
            Self::Map => fs::remove_dir(map).unwrap(),
            Self::Sessions => fs::remove_dir(store.file("sessions")).unwrap(),
            Self::SessionFiles => {
                for name in store.sessions() {
                    fs::remove_file(store.file("sessions").join(name)).unwrap();
                }
            }
        }
    }
}

/// All combinations of parts that can be gone when `rm` is interrupted, whatever its order.
fn losses() -> impl Iterator<Item = Vec<Part>> {
    (1_u32..1 << Part::ALL.len()).filter_map(|chosen| {
        let all = Part::ALL.into_iter().enumerate();
        let lost: Vec<_> = all
            .filter(|(at, _)| chosen & (1 << at) != 0)
            .map(|(_, part)| part)
            .collect();
        let is_possible = lost
            .iter()
            .all(|part| part.needs().iter().all(|needed| lost.contains(needed)));
        is_possible.then_some(lost)
    })
}

fn remove_parts(store: &Store, lost: &[Part]) {
    let map = store.map();
    lost.iter().for_each(|part| part.remove(store, &map));
}

/// All newcomers can connect, and share the same locks.
#[track_caller]
fn assert_usable(store: &Store, newcomers: &mut [Actor; 2], lost: &[Part]) {
    let [one, two] = newcomers;
    let lease = LONG.as_millis().to_string();
    for newcomer in [&mut *one, &mut *two] {
        let answer = newcomer.does(&["connect", &store.url(), &lease]);
        assert_eq!(answer, "connected", "{lost:?}");
    }
    one.takes("next");
    assert_eq!(two.does(&["try", "next"]), "busy", "{lost:?}");
    one.releases("next");
    two.takes("next");
    assert_eq!(two.does(&["close"]), "closed");
}

/// A store whose only user was killed.
fn used() -> Store {
    let (store, mut actor) = (Store::new(), Actor::start());
    actor.connects(&store);
    actor.takes("x");
    actor.is_killed();
    store
}

#[test]
fn a_partly_removed_store_is_begun_anew() {
    let mut newcomers = [Actor::start(), Actor::start()];
    let mut states = 0;
    for lost in losses() {
        let store = used();
        remove_parts(&store, &lost);

        assert_usable(&store, &mut newcomers, &lost);
        states += 1;
    }
    assert_eq!(states, 2 * 2 * 5 * 3 - 1);
}

/// If there are other files in it, a directory without a header may be anything: not even files with names of ours are touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partly_removed_store_with_other_files_in_it_is_left_alone() {
    type Change = fn(&Store);
    let changes: [(&str, Change); 8] = [
        ("a file", |store| {
            fs::write(store.file("photo"), "").unwrap()
        }),
        ("a file among the sessions", |store| {
            fs::write(store.file("sessions").join("photo"), "").unwrap();
        }),
        ("a session with something in it", |store| {
            fs::write(store.file("sessions").join("00112233445566aa"), "text").unwrap();
        }),
        ("a file beside the table", |store| {
            fs::write(store.file(&map_of(store)).join("photo"), "").unwrap();
        }),
        ("another map", |store| {
            fs::create_dir(store.file("map-of-treasure")).unwrap()
        }),
        ("a turn with something in it", |store| {
            fs::write(store.file("turn"), "text").unwrap();
        }),
        ("a turn for all", |store| mode(&store.file("turn"), 0o644)),
        ("sessions for all", |store| {
            mode(&store.file("sessions"), 0o755)
        }),
    ];
    for (what, change) in changes {
        let store = used();
        fs::remove_file(store.file("store")).unwrap();
        change(&store);
        for header in ["none", "empty"] {
            if header == "empty" {
                fs::write(store.file("store"), "").unwrap();
            }
            let before = contents(store.path());

            assert_refused(
                store.builder().connect().await,
                "FOREIGN",
                "another directory",
            );

            assert_eq!(contents(store.path()), before, "{what}, header: {header}");
        }
    }
}

/// The name of the folder of the table, also without a header.
fn map_of(store: &Store) -> String {
    let names = fs::read_dir(store.path()).unwrap().flatten();
    let mut names = names.map(|entry| entry.file_name().into_string().unwrap());
    names.find(|name| name.starts_with("map-")).unwrap()
}

fn mode(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// What can be removed while the store is in use, and makes it unusable: each part with what must be removed before it, with
/// and without the header, and all parts together.
fn losses_in_use() -> Vec<Vec<Part>> {
    let with_needs = |part: &Part| [part.needs(), &[*part]].concat();
    let mut losses: Vec<_> = Part::ALL.iter().map(with_needs).collect();
    let others = losses.iter().filter(|lost| !lost.contains(&Part::Header));
    let with_header: Vec<_> = others
        .map(|lost| [&[Part::Header], &lost[..]].concat())
        .collect();
    losses.extend(with_header);
    // Without a session's file it is still a store.
    losses.retain(|lost| *lost != [Part::SessionFiles]);
    losses.push(Part::ALL.to_vec());
    losses
}

/// All losses at once, in threads: it takes a while until a newcomer is refused.
fn each_loss_at_once(story: impl Fn(&[Part]) + Sync) {
    std::thread::scope(|scope| {
        for lost in losses_in_use() {
            let story = &story;
            scope.spawn(move || story(&lost));
        }
    });
}

#[track_caller]
fn assert_in_use(newcomer: &mut Actor, store: &Store, lost: &[Part]) -> String {
    let before = contents(store.path());
    let refused = newcomer.does(&["connect", &store.url(), "30000"]);
    assert!(refused.starts_with("Refused INUSE"), "{lost:?}: {refused}");
    assert_eq!(contents(store.path()), before, "{lost:?}");
    refused
}

/// Processes that still use the remains keep what they hold until they notice the removal, or end: no other process may get
/// these locks. In an earlier version, a store without its header was begun anew while processes used it; and a process that
/// had noticed still held its locks, until its next renewal or the end of the lease.
#[test]
fn a_partly_removed_store_refuses_newcomers_until_its_users_notice() {
    each_loss_at_once(|lost| {
        let (store, mut user, mut newcomer) = (Store::new(), Actor::start(), Actor::start());
        user.connects(&store);
        user.takes("renewed");
        assert_eq!(user.does(&["try leased", "fixed", "3600000"]), "held");
        remove_parts(&store, lost);

        let refused = assert_in_use(&mut newcomer, &store, lost);
        let named = format!("process {}", user.pid());
        assert!(refused.contains(&named), "{lost:?}: {refused}");
        for name in ["renewed", "fixed"] {
            assert_eq!(user.does(&["held", name]), "true", "{lost:?}");
        }

        let told = user.does(&["try", "other"]);
        assert!(told.starts_with("Refused REMOVED"), "{lost:?}: {told}");
        for name in ["renewed", "fixed"] {
            let reason = user.does(&["lost", name]);
            assert!(reason.starts_with("Removed"), "{lost:?}: {reason}");
        }
        newcomer.connects(&store);
        newcomer.takes("fixed");
        // After it has connected again, in the same process, it shares the locks of the others.
        user.connects(&store);
        assert_eq!(user.does(&["try", "fixed"]), "busy", "{lost:?}");
    });
}

/// A child that has the lifeline goes on with work that its process's lock protects.
#[test]
fn a_partly_removed_store_refuses_newcomers_until_its_users_children_end() {
    for lost in [Part::Header, Part::Turn] {
        let (store, mut user, mut newcomer) = (Store::new(), Actor::start(), Actor::start());
        user.connects(&store);
        user.takes("x");
        let child: i32 = user.does(&["lifeline"]).parse().unwrap();
        remove_parts(&store, &[lost]);
        // This takes longer than the interval at which the process checks all parts.
        assert_in_use(&mut newcomer, &store, &[lost]);
        let told = user.does(&["try", "y"]);
        assert!(told.starts_with("Refused REMOVED"), "{lost:?}: {told}");
        let reason = user.does(&["lost", "x"]);
        assert!(reason.starts_with("Removed"), "{lost:?}: {reason}");

        assert_in_use(&mut newcomer, &store, &[lost]);
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();

        newcomer.connects(&store);
        newcomer.takes("x");
    }
}

#[test]
fn a_partly_removed_store_is_begun_anew_when_its_user_has_ended() {
    let (store, mut user, mut newcomer) = (Store::new(), Actor::start(), Actor::start());
    user.connects(&store);
    remove_parts(&store, &[Part::Turn]);
    let refused = newcomer.does(&["connect", &store.url(), "30000"]);
    assert!(refused.starts_with("Refused INUSE"), "{refused}");

    user.is_killed();

    newcomer.connects(&store);
    newcomer.takes("x");
}

/// `rm` itself, run once while processes connect: it may remove a part only, or leave what they created meanwhile.
#[test]
fn newcomers_can_connect_after_a_removal_during_which_others_connected() {
    let store = Store::new();
    for round in 0..40 {
        let mut actors: Vec<_> = (0..4).map(|_| Actor::start()).collect();
        for actor in &mut actors {
            actor.begins(&["connect", &store.url(), "60000"]);
        }
        let mut remove = Command::new("rm");
        remove.arg("-rf").arg(store.path()).stderr(Stdio::null());
        remove.status().unwrap();
        let mut answers = Vec::new();
        for actor in &mut actors {
            answers.push(actor.answers());
        }
        for answer in &answers {
            let is_expected = answer == "connected" || answer.starts_with("Refused INUSE");
            assert!(is_expected, "round {round}: {answer}");
        }

        // Users of a partly removed store block newcomers until they notice.
        for actor in &mut actors {
            actor.does(&["close"]);
        }
        drop(actors);

        let mut newcomers = [Actor::start(), Actor::start()];
        assert_usable(&store, &mut newcomers, &[]);
    }
}

/// When `rm` is killed, it leaves what it has not removed yet.
#[test]
fn newcomers_can_connect_after_a_removal_that_was_killed() {
    let mut newcomers = [Actor::start(), Actor::start()];
    let mut left = std::collections::BTreeMap::new();
    for round in 0..60 {
        let store = used();
        for number in 0..round {
            fs::write(store.file("sessions").join(format!("{number:016x}")), "").unwrap();
        }
        let mut remove = Command::new("rm");
        let mut remove = remove.arg("-rf").arg(store.path()).spawn().unwrap();
        for _ in 0..round * 10 {
            std::thread::yield_now();
        }
        remove.kill().unwrap();
        remove.wait().unwrap();
        let parts = fs::read_dir(store.path()).map_or(0, Iterator::count);
        *left.entry(parts).or_insert(0) += 1;

        assert_usable(&store, &mut newcomers, &[]);
    }
    eprintln!("how many parts were left how often: {left:?}");
}
