//! How threads and JVMs end.

use super::{Stage, stage};
use rustix::process::{getpid, set_child_subreaper};
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use testkit::java::Jvm;
use testkit::process::{Child, Role, alone};
use testkit::{JavaPeer, Kind, LIMIT, Redisson, Server, eventually};

/// A JVM and a server that only this test uses.
#[track_caller]
fn own() -> Option<(JavaPeer, Server)> {
    if !Kind::Redis.is_here() {
        return None;
    }
    let java = JavaPeer::start(Redisson::Newest, Jvm::Quick)?;
    Some((java, Server::start(Kind::Redis)))
}

/// Whether the process runs; not if it has ended and is only waiting to be reaped.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn a_name_gets_a_new_thread_after_its_thread_was_ended() {
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
fn calls_to_a_jvm_that_was_killed_panic_with_how_it_ended() {
    let Some((java, server)) = own() else { return };
    let client = java.open(&server);
    client.thread("a").lock("orders").lock().unwrap();
    let waiting = client.thread("b").lock("orders").begin_lock();

    let status = java.kill();

    assert_eq!(status.signal(), Some(9));
    for pending in [waiting, client.thread("c").lock("orders").begin_lock()] {
        let message = catch_unwind(AssertUnwindSafe(|| pending.wait())).unwrap_err();
        let message = message.downcast_ref::<String>().unwrap();
        assert!(message.contains("the JVM is gone"), "{message}");
        assert!(message.contains("signal: 9"), "{message}");
        assert!(message.contains("\"method\":\"lock\""), "{message}");
    }
}

#[test]
fn a_stopped_jvm_answers_when_it_continues() {
    let Some((java, server)) = own() else { return };
    let client = java.open(&server);

    java.stop_signal();
    let answer = client.thread("a").lock("orders").begin_lock();
    let message = catch_unwind(AssertUnwindSafe(|| {
        let late = client.thread("b").lock("others").begin_lock();
        late.answer(Duration::from_millis(50))
    }));
    java.cont_signal();

    let message = message.unwrap_err();
    let message = message.downcast_ref::<String>().unwrap();
    assert!(
        message.contains("did not answer in time: it runs"),
        "{message}"
    );
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

/// Starts a JVM, reports its process id, and waits to be killed.
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
        // As in a container: orphans get a parent in their session, and the system sends no hang-up to a stopped orphan.
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
