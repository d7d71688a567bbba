//! A store that is full, and what tests can only see from inside of this module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use super::FileEngine;
use super::address::StorePlace;
use super::environment::{Environment, StoreCaller, StoreTry};
use super::folder::{Folder, FolderTry};
use crate::engine::{Clock, Failure, KEEPER_THREAD, Listener, Signal, Tick};
use crate::protocol::call::{Call, Value};
use crate::protocol::keys::lock_channel;
use crate::protocol::lock::PlainScheme;
use crate::protocol::scheme::{Ask, Bearer, Scheme};

const LEASE: Duration = Duration::from_secs(600);

fn opened(place: &StorePlace, size: usize) -> &'static Environment {
    let Ok(StoreTry::Now(environment)) = Environment::open_sized(place, size) else {
        panic!("a new store can be opened");
    };
    environment
}

/// A store of that size, and its directory.
fn store(size: usize) -> (&'static Environment, tempfile::TempDir) {
    let folder = testkit::store_folder();
    let place = StorePlace::parse(folder.path().to_str().unwrap()).unwrap();
    (opened(&place, size), folder)
}

/// A lock with a long name, and an owner for it.
fn lock(number: usize) -> (PlainScheme, Bearer) {
    let keys = PlainScheme::new(format!("{} {number}", "name".repeat(50)).into());
    let who = Some(Arc::from("1\nhost\nlabel"));
    let field = Arc::from(format!("client:{number}"));
    (keys, Bearer { field, who })
}

async fn run(environment: &'static Environment, call: Call) -> Result<Value, Failure> {
    let caller = StoreCaller {
        client: Some("client".into()),
        ..StoreCaller::default()
    };
    environment.call(caller, call).await.0
}

async fn acquire(environment: &'static Environment, number: usize) -> Result<Value, Failure> {
    let (keys, bearer) = lock(number);
    run(environment, keys.acquire(&Ask::once(&bearer, LEASE))).await
}

async fn release(environment: &'static Environment, number: usize) -> Result<Value, Failure> {
    let (keys, bearer) = lock(number);
    run(environment, keys.release(&bearer, 0, Duration::ZERO)).await
}

fn code(reply: &Result<Value, Failure>) -> &str {
    match reply {
        Err(Failure::Refused { code, .. }) => code,
        _ => "",
    }
}

/// Takes locks until no more fit; returns how many there are.
async fn fill(environment: &'static Environment, from: usize) -> usize {
    for number in from.. {
        let reply = acquire(environment, number).await;
        if code(&reply) == "OOM" {
            return number;
        }
        assert_eq!(reply, Ok(Value::Nil), "{number}");
        assert!(number < 100_000, "it is never full");
    }
    unreachable!("numbers do not end")
}

#[tokio::test]
async fn a_full_store_refuses_new_locks_but_renews_and_releases() {
    let (environment, _folder) = store(8 << 20);
    environment
        .perform(|store| store.attach(1, Arc::default()))
        .await
        .unwrap();

    let taken = fill(environment, 0).await;
    assert_eq!(code(&acquire(environment, taken).await), "OOM");
    for number in 0..taken {
        let (keys, bearer) = lock(number);
        let renewed = run(environment, keys.renew(&bearer, 2 * LEASE).call()).await;
        assert_eq!(renewed, Ok(Value::List(vec![Value::Int(1)])), "{number}");
    }
    for number in 0..taken / 2 {
        assert_eq!(release(environment, number).await, Ok(Value::Int(0)));
    }
    for number in taken / 2..taken / 2 + 10 {
        let forced = lock(number).0.force_unlock();
        assert_eq!(run(environment, forced).await, Ok(Value::Int(1)));
    }

    let again = fill(environment, taken).await - taken;
    assert!(again > taken / 4, "{taken} at first, and then {again} only");
    for number in taken / 2 + 10..taken + again {
        assert_eq!(release(environment, number).await, Ok(Value::Int(0)));
    }
    let third = fill(environment, 0).await;
    assert!(
        third > taken / 2,
        "{taken} at first, and at last {third} only"
    );
}

/// A call that is refused removes nothing: once, a store that was full of expired locks stayed full.
#[tokio::test]
async fn a_store_full_of_expired_locks_makes_room() {
    let (environment, _folder) = store(8 << 20);
    let taken = fill(environment, 0).await;
    let (keys, bearer) = lock(taken);
    let call = keys.acquire(&Ask::once(&bearer, LEASE));

    let tried = environment.perform(move |store| {
        let over = store.folder.header.micros() + 2 * 1_000_000 * LEASE.as_secs().cast_signed();
        let mut tries = (1..=taken).map(|_| store.call_at(over, None, &call).0);
        Ok(tries.position(|reply| reply == Ok(Value::Nil)))
    });

    let refused = tried.await.unwrap();
    eprintln!("{taken} locks were over; refused {refused:?} times, then taken");
    assert!(refused.is_some_and(|refused| refused < 10));
}

/// A full store still lets processes come and go, and listen.
#[tokio::test]
async fn a_full_store_still_has_room_for_listeners() {
    struct Deaf(AtomicUsize);
    impl Listener for Deaf {
        fn hear(&self, _signal: Signal) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (environment, _folder) = store(8 << 20);
    environment
        .perform(|store| store.attach(1, Arc::default()))
        .await
        .unwrap();
    fill(environment, 0).await;
    let (keys, _) = lock(0);
    let listener = Arc::new(Deaf(AtomicUsize::new(0)));

    let theirs = listener.clone();
    let listening = environment.perform(move |store| {
        let bind = |session: &str| environment.hear(session);
        store.listen(
            lock_channel(keys.subject().name.as_ref()).as_bytes(),
            1,
            theirs,
            bind,
        )
    });

    listening.await.unwrap();
    assert_eq!(release(environment, 0).await, Ok(Value::Int(1)));
    assert_eq!(listener.0.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_acquire_that_comes_too_late_is_not_made() {
    let (environment, _folder) = store(8 << 20);
    let (keys, bearer) = lock(0);
    let call = || keys.acquire(&Ask::once(&bearer, LEASE));

    let by = |late: Tick| StoreCaller {
        late: Some(late),
        ..StoreCaller::default()
    };
    let (late, _) = environment.call(by(Tick::ZERO), call()).await;
    assert!(matches!(late, Err(Failure::NotSent(_))), "{late:?}");

    let soon = Clock::Boot.now().after(LEASE);
    assert_eq!(environment.call(by(soon), call()).await.0, Ok(Value::Nil));
}

/// A process found the file `store`, and before it began a store there, the file was removed and another process had begun
/// one. Once, the first process removed that one while it was used.
#[tokio::test]
async fn a_store_that_replaced_another_is_not_removed() {
    let folder = testkit::store_folder();
    let place = StorePlace::parse(folder.path().to_str().unwrap()).unwrap();
    std::fs::write(folder.path().join("store"), "").unwrap();
    let old = Folder::find(&place).unwrap().unwrap();
    std::fs::remove_file(folder.path().join("store")).unwrap();
    let environment = opened(&place, 8 << 20);
    assert_eq!(acquire(environment, 0).await, Ok(Value::Nil));
    let listed = || {
        std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
    };
    let before: BTreeSet<_> = listed().collect();

    let entry = Folder::open(old, 8 << 20).unwrap();

    assert!(matches!(entry, FolderTry::Later), "{entry:?}");
    assert_eq!(listed().collect::<BTreeSet<_>>(), before);
    assert_eq!(release(environment, 0).await, Ok(Value::Int(0)));
}

/// An engine enters again if the future was dropped that waited for its entry; it leaves once.
#[tokio::test]
async fn an_engine_that_entered_twice_leaves_once() {
    let (environment, folder) = store(8 << 20);
    let sessions = || {
        std::fs::read_dir(folder.path().join("sessions"))
            .unwrap()
            .count()
    };

    for _ in 0..3 {
        environment
            .perform(|store| store.attach(1, Arc::default()))
            .await
            .unwrap();
    }
    assert_eq!(sessions(), 1);
    environment.post(|store| store.detach(1, None));

    assert_eq!(sessions(), 0);
    environment.post(|store| store.detach(1, None));
    environment
        .perform(|store| store.attach(2, Arc::default()))
        .await
        .unwrap();
    assert_eq!(sessions(), 1);
}

/// The keeper ends a client whose last release it has sent. Once, it hung with a disk that hung, and renewed nothing for any
/// other client of the process.
#[tokio::test]
async fn the_keeper_does_not_wait_for_the_disk_when_it_ends_a_client() {
    let (environment, _folder) = store(8 << 20);
    let (stands, standing) = std::sync::mpsc::channel();
    let (goes_on, still) = std::sync::mpsc::channel::<()>();
    let disk = std::thread::spawn(move || {
        environment.post(move |_| {
            stands.send(()).unwrap();
            // Until the sender of this is dropped.
            let _ = still.recv();
        });
    });
    standing.recv_timeout(testkit::LIMIT).unwrap();
    let (done, is_done) = std::sync::mpsc::channel();
    let (told, is_told) = std::sync::mpsc::channel();

    let keeper = std::thread::Builder::new().name(KEEPER_THREAD.to_owned());
    let keeper = keeper.spawn(move || {
        environment.post(move |_| done.send(()).unwrap());
        told.send(()).unwrap();
    });

    is_told.recv_timeout(testkit::LIMIT).unwrap();
    assert!(is_done.try_recv().is_err(), "nobody had the turn for it");
    drop(goes_on);
    is_done.recv_timeout(testkit::LIMIT).unwrap();
    disk.join().unwrap();
    keeper.unwrap().join().unwrap();
}

/// Once, it was tried a hundred times, each by a thread of its own, as if the directory had been removed each time.
#[tokio::test]
async fn a_directory_without_a_parent_is_tried_once() {
    let around = testkit::store_folder();
    let place = StorePlace::parse(around.path().join("no/such").to_str().unwrap()).unwrap();
    let engine = FileEngine::new(place.clone(), LEASE);

    let opened = engine.open().await.map(|()| Value::Nil);

    assert_eq!(code(&opened), "ENOENT");
    let begun = super::openings::BEGUN.lock().unwrap();
    assert_eq!(begun.iter().filter(|begun| **begun == place).count(), 1);
}
