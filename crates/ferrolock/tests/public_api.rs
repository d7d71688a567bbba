//! The public API, compiled from outside: which traits its types and futures have.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "test code"
)]

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt::{Debug, Display};
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ferrolock::kind::{Fair, Kind, Lockable, Named, Plain, Spin};
use ferrolock::{
    AnyGuard, AnyLock, BackOff, CancellationToken, Client, ClientBuilder, Error, ErrorKind,
    FairLock, Fence, FenceGate, FencedGuard, FencedLock, Guard, HoldState, Holder, Lock, LockName,
    LostReason, MultiLock, NodeError, Owner, OwnerId, Quorum, QuorumLock, ReadGuard, ReadLock,
    Remaining, Result, RwLock, SpinLock, StaleFence, Unlocked, WriteGuard, WriteLock,
};

const SHORT: Duration = Duration::from_secs(1);

fn thing<T: Send + Sync + Unpin + Debug + 'static>() {}
fn value<T: Clone + PartialEq + Eq>() {}
fn hashed<T: Hash + Eq>() {}
fn shown<T: Display>() {}

/// Accepts a future that can be spawned, without the handle it came from.
fn spawned<F: Future + Send + 'static>(future: F) -> F {
    future
}

/// Accepts a future that can be awaited inside a spawned task, with what it borrows.
fn sent<F: Future + Send>(future: F) -> F {
    future
}

#[test]
fn every_type_can_be_sent_shared_moved_stored_and_printed() {
    thing::<Client>();
    thing::<ClientBuilder>();
    thing::<Lock>();
    thing::<Lock<Plain>>();
    thing::<Guard>();
    thing::<FairLock>();
    thing::<Guard<Fair>>();
    thing::<FencedLock>();
    thing::<FencedGuard>();
    thing::<SpinLock>();
    thing::<Guard<Spin>>();
    thing::<BackOff>();
    thing::<Fence>();
    thing::<FenceGate>();
    thing::<StaleFence>();
    thing::<RwLock>();
    thing::<ReadLock>();
    thing::<WriteLock>();
    thing::<ReadGuard>();
    thing::<WriteGuard>();
    thing::<AnyLock>();
    thing::<AnyGuard>();
    thing::<MultiLock>();
    thing::<Guard<ferrolock::kind::Multi>>();
    thing::<QuorumLock>();
    thing::<Guard<ferrolock::kind::Quorum>>();
    thing::<Quorum>();
    thing::<NodeError>();
    thing::<Owner>();
    thing::<OwnerId>();
    thing::<LockName>();
    thing::<Holder>();
    thing::<Remaining>();
    thing::<HoldState>();
    thing::<Unlocked>();
    thing::<Error>();
    thing::<ErrorKind>();
    thing::<LostReason>();
    thing::<Plain>();
    thing::<CancellationToken>();
    #[cfg(feature = "tls")]
    thing::<ferrolock::Tls>();
}

#[test]
fn values_can_be_compared_cloned_and_shown() {
    value::<Owner>();
    value::<OwnerId>();
    value::<LockName>();
    value::<Holder>();
    value::<Remaining>();
    value::<HoldState>();
    value::<Unlocked>();
    value::<ErrorKind>();
    value::<LostReason>();
    value::<Fence>();
    value::<StaleFence>();
    hashed::<Owner>();
    hashed::<OwnerId>();
    hashed::<LockName>();
    hashed::<ErrorKind>();
    hashed::<LostReason>();
    hashed::<Fence>();
    shown::<Error>();
    shown::<LostReason>();
    shown::<OwnerId>();
    shown::<LockName>();
    shown::<Fence>();
    shown::<StaleFence>();
    fn cloned<T: Clone>() {}
    cloned::<Client>();
    cloned::<ClientBuilder>();
    cloned::<Lock>();
    cloned::<FairLock>();
    cloned::<FencedLock>();
    cloned::<SpinLock>();
    cloned::<RwLock>();
    cloned::<ReadLock>();
    cloned::<WriteLock>();
    cloned::<BackOff>();
    cloned::<Error>();
    cloned::<AnyLock>();
    cloned::<MultiLock>();
    cloned::<QuorumLock>();
    cloned::<Quorum>();
    cloned::<NodeError>();
    fn error<T: std::error::Error>() {}
    error::<Error>();
    error::<StaleFence>();
}

/// Of a bundle as of one lock.
#[tokio::test(start_paused = true)]
async fn futures_of_several_locks_can_be_spawned() -> Result<()> {
    let clients = || [Client::memory(), Client::memory(), Client::memory()];
    let quorum = Quorum::new(clients());
    spawned(quorum.initialise()).await?;
    spawned(quorum.lock("x").is_locked()).await?;
    spawned(quorum.lock("x").holders()).await?;
    let both = quorum.lock("x").and(Client::memory().lock("y"));
    let guard = spawned(both.lock()).await?;
    assert!(spawned(both.try_lock()).await?.is_none());
    assert!(spawned(both.try_lock_for(SHORT)).await?.is_none());
    let again = spawned(guard.relock()).await?;
    spawned(guard.renew(SHORT * 60)).await?;
    spawned(guard.check()).await?;
    drop(sent(guard.lost()));
    sent(guard.while_held(async {})).await?;
    spawned(again.unlock()).await?;
    spawned(guard.erase().unlock_after(SHORT)).await?;
    sent(both.run(async |_| ())).await?;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn every_future_that_does_not_borrow_can_be_spawned() -> Result<()> {
    let client = spawned(Client::connect("memory:")).await?;
    spawned(Client::builder().url("memory:").connect()).await?;
    spawned(client.ping()).await?;
    let me = Owner::new();
    let lock = client.lock("x").owned_by(&me);

    let guard = spawned(lock.lock()).await?;
    let again = spawned(lock.try_lock()).await?.expect("re-entry");
    let third = spawned(lock.try_lock_for(SHORT)).await?.expect("re-entry");
    let fourth = spawned(third.relock()).await?;
    spawned(lock.is_locked()).await?;
    spawned(lock.is_held_by(&me)).await?;
    spawned(lock.hold_count(&me)).await?;
    spawned(lock.remaining()).await?;
    spawned(lock.holders()).await?;
    spawned(guard.renew(SHORT * 60)).await?;
    spawned(guard.check()).await?;
    drop(sent(guard.lost()));
    sent(guard.while_held(async {})).await?;
    spawned(fourth.unlock()).await?;
    drop((again, third));
    spawned(guard.unlock_after(SHORT)).await?;
    spawned(lock.force_unlock()).await?;
    sent(lock.run(async |_| ())).await?;
    spawned(spawned(client.fair_lock("f").lock()).await?.unlock()).await?;
    spawned(spawned(client.fenced_lock("n").lock()).await?.unlock()).await?;
    spawned(spawned(client.spin_lock("s").lock()).await?.unlock()).await?;
    let rw = client.rw_lock("y");
    spawned(rw.try_read()).await?;
    spawned(rw.try_read_for(SHORT)).await?;
    spawned(rw.read()).await?.unlock().await?;
    spawned(rw.try_write()).await?;
    spawned(rw.try_write_for(SHORT)).await?;
    let writing = spawned(rw.write()).await?;
    spawned(writing.downgrade()).await?.unlock().await?;
    spawned(me.scope(async {})).await;
    spawned(client.shutdown(SHORT)).await
}

#[tokio::test(start_paused = true)]
async fn run_and_while_held_work_in_a_spawned_task_with_borrows_of_guard_and_surroundings() {
    let client = Client::memory();
    let task = tokio::spawn(async move {
        let text = String::from("orders");
        let mut lines = Vec::new();
        let lock = client.lock(&text);
        let length = lock
            .run(async |guard| {
                tokio::task::yield_now().await;
                lines.push(guard.name().len());
                guard.ensure_held().map(|()| text.len())
            })
            .await??;
        let guard = lock.lock().await?;
        let held = guard
            .while_held(async {
                tokio::task::yield_now().await;
                lines.push(guard.name().len());
                guard.is_held()
            })
            .await?;
        guard.unlock().await?;
        Ok::<_, Error>((length, held, lines))
    });

    assert_eq!(task.await.unwrap().unwrap(), (6, true, vec![6, 6]));
}

#[tokio::test(start_paused = true)]
async fn a_body_may_fail_with_an_error_of_its_own() {
    let client = Client::memory();

    let answer = client
        .lock("x")
        .run(async |_| "seven".parse::<u32>())
        .await
        .unwrap();

    assert!(answer.is_err());
    assert!(!client.lock("x").is_locked().await.unwrap());
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A trait behind which a user hides this library.
trait Locks: Send + Sync {
    fn take<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<Box<dyn Held>>>;
}

trait Held: Send {
    fn is_held(&self) -> bool;
}

impl Held for Guard {
    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }
}

impl Locks for Client {
    fn take<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<Box<dyn Held>>> {
        Box::pin(async move { Ok(Box::new(self.lock(name).lock().await?) as Box<dyn Held>) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_users_own_trait_can_stand_in_front_of_a_client() {
    let locks: Arc<dyn Locks> = Arc::new(Client::memory());

    assert!(locks.take("x").await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn code_can_be_general_over_the_kind_of_lock() {
    async fn twice<K: Lockable + Named>(lock: &Lock<K>) -> Result<u32> {
        let guard: Guard<K> = lock.lock().await?;
        let again = guard.relock().await?;
        Ok(again.hold_count())
    }
    fn name_of<K: Kind>(guard: &Guard<K>) -> &str {
        guard.name()
    }
    let client = Client::memory();

    assert_eq!(twice(&client.lock("x")).await.unwrap(), 2);
    assert_eq!(name_of(&client.lock("y").lock().await.unwrap()), "y");
}

#[tokio::test(start_paused = true)]
async fn a_name_can_be_given_in_every_form() {
    let client = Client::memory();
    let string = String::from("x");
    let name = LockName::new("x").unwrap();
    let names = [
        client.lock("x"),
        client.lock(string.clone()),
        client.lock(&string),
        client.lock(Cow::Borrowed("x")),
        client.lock(Arc::<str>::from("x")),
        client.lock(Box::<str>::from("x")),
        client.lock(&name),
        client.lock(name),
    ];

    for lock in names {
        assert_eq!(lock.name(), "x");
        lock.lock().await.unwrap().unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn debug_output_shows_type_and_contents() {
    let client = Client::memory();
    let lock = client.lock("orders").label("import");
    let guard = lock.lock().await.unwrap();
    let printed = [
        (format!("{client:?}"), "Client"),
        (format!("{client:?}"), client.id()),
        (
            format!("{:?}", Client::builder().url("memory:")),
            "ClientBuilder",
        ),
        (format!("{lock:?}"), "orders"),
        (format!("{guard:?}"), "orders"),
        (format!("{guard:?}"), "Held"),
        (format!("{:?}", guard.owner_id()), client.id()),
        (format!("{:?}", guard.owner()), "Owner"),
        (format!("{:?}", lock.holders().await.unwrap()), "import"),
        (format!("{:?}", lock.remaining().await.unwrap()), "Left"),
        (format!("{:?}", LockName::new("orders").unwrap()), "orders"),
        (
            format!("{:?}", client.lock("").lock().await.unwrap_err()),
            "Invalid",
        ),
        (format!("{:?}", guard.unlock().await.unwrap()), "Released"),
    ];

    for (text, part) in printed {
        assert!(text.contains(part), "{text} does not show {part}");
    }
}

#[test]
fn owners_and_ids_serve_as_keys() {
    let (one, other) = (Owner::new(), Owner::new());

    let owners: HashSet<Owner> = [one.clone(), one.clone(), other].into();

    assert_eq!(owners.len(), 2);
    assert!("a:1".parse::<OwnerId>().is_ok());
}
