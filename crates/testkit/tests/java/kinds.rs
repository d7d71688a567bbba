//! Every kind of object, in both versions of Redisson.

use super::{Stage, stage};
use std::time::Duration;
use testkit::java::{Exception, JavaThread, MS, json};
use testkit::{JavaPeer, Kind, Redisson, Server};

/// The kind, the result of one call, and a key that the call leaves on the server.
type Row = (&'static str, Result<String, Exception>, &'static str);

fn shown<T: ToString>(answer: Result<T, Exception>) -> Result<String, Exception> {
    answer.map(|value| value.to_string())
}

fn rows(thread: &JavaThread) -> Vec<Row> {
    let semaphore = thread.semaphore("semaphore");
    let permits = thread.permits("permits");
    let latch = thread.latch("latch");
    let multi = thread.multi(&[thread.lock("one"), thread.fair("other")]);
    vec![
        ("lock", shown(thread.lock("lock").try_lock()), "lock"),
        ("fair", shown(thread.fair("fair").try_lock()), "fair"),
        ("read", shown(thread.read("read").try_lock()), "read"),
        ("write", shown(thread.write("write").try_lock()), "write"),
        ("spin", shown(thread.spin("spin").try_lock()), "spin"),
        ("multi", shown(multi.try_lock()), "other"),
        (
            "semaphore",
            shown(semaphore.call::<bool>("trySetPermits", json!([3]))),
            "semaphore",
        ),
        (
            "permits",
            shown(permits.call::<bool>("trySetPermits", json!([2]))),
            "permits",
        ),
        (
            "latch",
            shown(latch.call::<bool>("trySetCount", json!([1]))),
            "latch",
        ),
    ]
}

#[test]
fn every_kind_is_reached_in_every_version() {
    for redisson in Redisson::ALL {
        let Some(java) = JavaPeer::shared(redisson) else {
            continue;
        };
        if !Kind::Redis.is_here() {
            return;
        }
        let server = Server::start(Kind::Redis);
        let client = java.open(&server);
        let thread = client.thread("a");

        for (kind, answer, key) in rows(&thread) {
            assert_eq!(answer.as_deref(), Ok("true"), "{kind} of {redisson:?}");
            assert!(server.keys().iter().any(|known| known == key), "{kind}");
        }

        assert_eq!(java.redisson(), redisson);
    }
}

#[test]
fn the_exception_names_the_method_that_a_version_lacks() {
    for redisson in Redisson::ALL {
        let Some(java) = JavaPeer::shared(redisson) else {
            continue;
        };
        if !Kind::Redis.is_here() {
            return;
        }
        let server = Server::start(Kind::Redis);
        let client = java.open(&server);
        let thread = client.thread("a");

        let token = thread
            .fenced("fenced")
            .call::<i64>("lockAndGetToken", json!([]));
        let single = thread.non_reentrant("single").try_lock();
        let unheard_of = thread.lock("x").call::<()>("lockTwice", json!([1]));

        let unheard_of = unheard_of.unwrap_err();
        assert!(unheard_of.is_not_in_this_version());
        assert!(
            unheard_of.message.starts_with("RLock.lockTwice[1]"),
            "{unheard_of}"
        );
        assert!(
            unheard_of.message.ends_with(redisson.version()),
            "{unheard_of}"
        );
        match redisson {
            Redisson::Newest => assert_eq!((token, single), (Ok(1), Ok(true))),
            Redisson::Oldest => {
                assert!(token.unwrap_err().message.contains("getFencedLock"));
                assert!(single.unwrap_err().is_not_in_this_version());
            }
        }
    }
}

#[test]
fn arguments_choose_among_methods_of_one_name() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let thread = client.thread("a");
    let (semaphore, permits) = (thread.semaphore("s"), thread.permits("p"));
    semaphore.call::<bool>("trySetPermits", json!([2])).unwrap();
    permits.call::<bool>("trySetPermits", json!([5])).unwrap();

    let one = permits.call::<String>("tryAcquire", json!([]));
    let two = permits.call::<Vec<String>>("tryAcquire", json!([2, 10, 60_000, MS]));
    let returned = permits.call::<i32>("tryRelease", json!([two.clone().unwrap()]));

    assert!(one.is_ok_and(|id| !id.is_empty()));
    assert_eq!(two.unwrap().len(), 2);
    assert_eq!(returned, Ok(2));
    assert_eq!(permits.call("availablePermits", json!([])), Ok(4));
    assert_eq!(semaphore.call("tryAcquire", json!([2])), Ok(true));
    assert_eq!(semaphore.call("tryAcquire", json!([{"ms": 20}])), Ok(false));
    assert_eq!(semaphore.call("tryAcquire", json!([20, MS])), Ok(false));
}

#[test]
fn an_instance_is_shared_unless_fresh_ones_are_wanted() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let lease = Duration::from_secs(300);
    let (shared, fresh) = (
        client.thread("a").lock("shared"),
        client.thread("a").lock("fresh").fresh(),
    );

    // An instance remembers the last lease, and a partial release sets that lease again.
    for lock in [&shared, &fresh] {
        lock.lock_for(lease).unwrap();
        lock.lock_for(lease).unwrap();
        lock.unlock().unwrap();
    }

    assert!(shared.remaining_ms().unwrap() > 60_000);
    assert!(fresh.remaining_ms().unwrap() <= 30_000);
}
