//! How threads and JVMs end.

use super::{Stage, stage};
use rustix::process::{getpid, set_child_subreaper};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use testkit::java::Jvm;
use testkit::process::{Child, Role, alone};
use testkit::{JavaPeer, Kind, LIMIT, Redisson, Server, eventually};

/// A JVM of the test's own, and a server.
#[track_caller]
fn own() -> Option<(JavaPeer, Server)> {
    if !Kind::Redis.is_here() {
        return None;
    }
    let java = JavaPeer::start(Redisson::Newest, Jvm::Quick)?;
    Some((java, Server::start(Kind::Redis)))
}

/// Whether it is there, and not only because nobody has asked how it ended.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_thread_that_was_ended_is_another_one_when_it_is_asked_again() {
    let Some(Stage {
        client,
        server: _server,
    }) = stage()
    else {
        return;
    };
    let thread = client.thread("a");
    let first = thread.id();
    thread.lock("orders").lock().unwrap();

    thread.end();

    assert_ne!(thread.id(), first);
    assert_eq!(thread.lock("orders").is_held(), Ok(false));
    assert_eq!(thread.lock("orders").is_held_by(first), Ok(true));
}

#[test]
fn a_halt_leaves_everything_as_it_is() {
    let Some((java, server)) = own() else { return };
    let client = java.open(&server);
    let lock = client.thread("a").lock("orders");
    lock.lock_for(Duration::from_secs(300)).unwrap();

    let status = java.halt();

    assert!(status.success(), "{status}");
    assert_eq!(server.keys(), ["orders"]);
}

#[test]
fn a_jvm_that_was_killed_is_told_to_who_waits_for_it() {
    let Some((java, server)) = own() else { return };
    let client = java.open(&server);
    client.thread("a").lock("orders").lock().unwrap();
    let waiting = client.thread("b").lock("orders").begin_lock();

    let status = java.kill();

    assert_eq!(status.signal(), Some(9));
    for pending in [waiting, client.thread("c").lock("orders").begin_lock()] {
        let told = catch_unwind(AssertUnwindSafe(|| pending.wait())).unwrap_err();
        let told = told.downcast_ref::<String>().unwrap();
        assert!(told.contains("the JVM is gone"), "{told}");
        assert!(told.contains("signal: 9"), "{told}");
        assert!(told.contains("\"method\":\"lock\""), "{told}");
    }
}

#[test]
fn a_jvm_that_stands_still_answers_when_it_goes_on() {
    let Some((java, server)) = own() else { return };
    let client = java.open(&server);

    java.stop_signal();
    let answer = client.thread("a").lock("orders").begin_lock();
    let told = catch_unwind(AssertUnwindSafe(|| {
        let late = client.thread("b").lock("others").begin_lock();
        late.answer(Duration::from_millis(50))
    }));
    java.cont_signal();

    let told = told.unwrap_err();
    let told = told.downcast_ref::<String>().unwrap();
    assert!(told.contains("did not answer in time: it runs"), "{told}");
    assert_eq!(answer.wait(), Ok(()));
}

#[test]
fn a_jvm_ends_with_its_handle() {
    let Some((java, _server)) = own() else { return };
    let pid = java.pid();
    assert!(is_alive(pid));

    drop(java);

    eventually(LIMIT, "the JVM is gone", || !is_alive(pid));
}

/// Starts a JVM, tells where it is, and waits for its death.
pub(crate) fn landlord(role: &Role) {
    let (java, server) = own().unwrap();
    let client = java.open(&server);
    client.thread("a").lock("orders").lock().unwrap();
    if role.args() == ["frozen"] {
        java.stop_signal();
    }
    role.say(&java.pid().to_string());
    role.hear();
}

#[test]
fn a_jvm_does_not_outlive_the_test_process() {
    alone(|| {
        if own().is_none() {
            return;
        }
        // As in a container: orphans get a parent in their session, and no stopped one is hung up by the system.
        set_child_subreaper(Some(getpid())).unwrap();
        for state in ["running", "frozen"] {
            let mut landlord = Child::again("lives::landlord", &[state]);
            let pid: u32 = landlord.hear(LIMIT).parse().unwrap();
            assert!(is_alive(pid));

            landlord.kill();

            eventually(LIMIT, &format!("the {state} JVM is gone"), || {
                !is_alive(pid)
            });
        }
    });
}
