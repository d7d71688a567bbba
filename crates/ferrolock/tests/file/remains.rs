//! What `rm -rf` leaves of a store when it is ended half-way, or runs beside those who connect: never a directory that refuses
//! everybody for good, and never a reason to touch somebody's own files.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::actor::Actor;
use crate::stage::{LONG, Store, assert_refused, contents};

/// What a removal can take away alone. What lies in a folder goes before it.
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

    /// What must be gone before.
    fn needs(self) -> &'static [Self] {
        match self {
            Self::Map => &[Self::Data, Self::Locks],
            Self::Sessions => &[Self::SessionFiles],
            _ => &[],
        }
    }

    fn is_removed(self, store: &Store, map: &PathBuf) {
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

/// All that can be gone when a removal is ended, in whatever order it goes.
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

fn is_removed(store: &Store, lost: &[Part]) {
    let map = store.map();
    lost.iter().for_each(|part| part.is_removed(store, &map));
}

/// The store is one that all newcomers share.
#[track_caller]
fn works(store: &Store, newcomers: &mut [Actor; 2], lost: &[Part]) {
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

/// A store that somebody used who was killed.
fn used() -> Store {
    let (store, mut actor) = (Store::new(), Actor::start());
    actor.connects(&store);
    actor.takes("x");
    actor.is_killed();
    store
}

#[test]
fn whatever_a_removal_leaves_is_begun_anew() {
    let mut newcomers = [Actor::start(), Actor::start()];
    let mut states = 0;
    for lost in losses() {
        let store = used();
        is_removed(&store, &lost);

        works(&store, &mut newcomers, &lost);
        states += 1;
    }
    assert_eq!(states, 2 * 2 * 5 * 3 - 1);
}

/// With something of somebody's in it, what is left without a header may be anything: not even a file that is called as ours is
/// touched.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_removal_leaves_beside_other_things_is_left_alone() {
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

/// What can be gone while somebody uses the store, and makes it less than one: each part with what goes before it, with the header
/// and without, and all.
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

/// All at once: a newcomer is refused after a while only.
fn each_loss_at_once(story: impl Fn(&[Part]) + Sync) {
    std::thread::scope(|scope| {
        for lost in losses_in_use() {
            let story = &story;
            scope.spawn(move || story(&lost));
        }
    });
}

#[track_caller]
fn is_refused(newcomer: &mut Actor, store: &Store, lost: &[Part]) -> String {
    let before = contents(store.path());
    let refused = newcomer.does(&["connect", &store.url(), "30000"]);
    assert!(refused.starts_with("Refused INUSE"), "{lost:?}: {refused}");
    assert_eq!(contents(store.path()), before, "{lost:?}");
    refused
}

/// Those who still use the rest keep it until they notice, or end: nobody else may get what they hold. Once, a store without its
/// header was begun anew under them; and one who noticed had still what it held, until its next renewal or the end of its lease.
#[test]
fn what_is_left_of_a_store_that_is_used_refuses_newcomers_until_its_users_notice() {
    each_loss_at_once(|lost| {
        let (store, mut user, mut newcomer) = (Store::new(), Actor::start(), Actor::start());
        user.connects(&store);
        user.takes("renewed");
        assert_eq!(user.does(&["try leased", "fixed", "3600000"]), "held");
        is_removed(&store, lost);

        let refused = is_refused(&mut newcomer, &store, lost);
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
        // Connected again, in the same process, it meets everybody else.
        user.connects(&store);
        assert_eq!(user.does(&["try", "fixed"]), "busy", "{lost:?}");
    });
}

/// A child that was given the lifeline works on under what its process held.
#[test]
fn what_is_left_of_a_store_refuses_newcomers_until_the_children_of_its_users_end() {
    for lost in [Part::Header, Part::Turn] {
        let (store, mut user, mut newcomer) = (Store::new(), Actor::start(), Actor::start());
        user.connects(&store);
        user.takes("x");
        let child: i32 = user.does(&["lifeline"]).parse().unwrap();
        is_removed(&store, &[lost]);
        // It takes longer than its process goes without a look for all parts.
        is_refused(&mut newcomer, &store, &[lost]);
        let told = user.does(&["try", "y"]);
        assert!(told.starts_with("Refused REMOVED"), "{lost:?}: {told}");
        let reason = user.does(&["lost", "x"]);
        assert!(reason.starts_with("Removed"), "{lost:?}: {reason}");

        is_refused(&mut newcomer, &store, &[lost]);
        kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();

        newcomer.connects(&store);
        newcomer.takes("x");
    }
}

#[test]
fn half_a_store_is_begun_anew_when_its_user_has_ended() {
    let (store, mut user, mut newcomer) = (Store::new(), Actor::start(), Actor::start());
    user.connects(&store);
    is_removed(&store, &[Part::Turn]);
    let refused = newcomer.does(&["connect", &store.url(), "30000"]);
    assert!(refused.starts_with("Refused INUSE"), "{refused}");

    user.is_killed();

    newcomer.connects(&store);
    newcomer.takes("x");
}

/// The program itself, once, beside those who connect: it may end with half of it, or with what they made meanwhile.
#[test]
fn after_a_removal_beside_those_who_connect_newcomers_are_let_in() {
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
            let is_told = answer == "connected" || answer.starts_with("Refused INUSE");
            assert!(is_told, "round {round}: {answer}");
        }

        // Those who use half a store are in the way until they notice.
        for actor in &mut actors {
            actor.does(&["close"]);
        }
        drop(actors);

        let mut newcomers = [Actor::start(), Actor::start()];
        works(&store, &mut newcomers, &[]);
    }
}

/// Killed, it leaves what it has not come to.
#[test]
fn after_a_removal_that_is_killed_newcomers_are_let_in() {
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

        works(&store, &mut newcomers, &[]);
    }
    eprintln!("how many parts were left how often: {left:?}");
}
