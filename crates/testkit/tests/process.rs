//! Helpers: the test binary started again, and what is left when the test process is killed.
#![allow(
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use testkit::process::{self, Child};
use testkit::{LIMIT, Server, eventually, servers};

/// Repeats what it hears, after its arguments.
#[test]
fn echo() {
    let Some(role) = process::role() else { return };
    println!("{}, printed and not said", role.name());
    role.say(&role.args().join("|"));
    loop {
        match role.hear().as_str() {
            "end" => return,
            "fail" => panic!("as asked"),
            line => role.say(line),
        }
    }
}

/// Never listens.
#[test]
fn deaf() {
    let Some(role) = process::role() else { return };
    role.say("here");
    loop {
        std::thread::park();
    }
}

/// Starts a server and another helper, tells where they are, and waits for its death.
#[test]
fn landlord() {
    let Some(role) = process::role() else { return };
    let kind = servers()[0];
    let server = Server::start(kind);
    let mut tenant = Child::again("deaf", &[]);
    tenant.hear(LIMIT);
    if role.args() == ["frozen"] {
        server.stop_signal();
        tenant.stop_signal();
    }
    role.say(&format!("{} {}", server.pid(), tenant.pid()));
    role.say(server.folder().to_str().unwrap());
    role.hear();
}

#[test]
fn a_helper_gets_its_arguments_and_answers() {
    let mut helper = Child::again("echo", &["a b", "", "\"c\""]);

    assert_eq!(helper.hear(LIMIT), "a b||\"c\"");
    helper.say("one");
    helper.say("#> two");
    assert_eq!(helper.hear(LIMIT), "one");
    assert_eq!(helper.hear(LIMIT), "#> two");
    helper.say("end");
    assert!(helper.wait(LIMIT).success());
}

#[test]
fn a_helper_that_fails_shows_it_in_its_status() {
    let mut helper = Child::again("echo", &[]);

    helper.say("fail");

    assert!(!helper.wait(LIMIT).success());
}

#[test]
#[should_panic(expected = "echo, printed and not said")]
fn a_silent_end_shows_what_the_helper_printed() {
    let mut helper = Child::again("echo", &[]);
    helper.hear(LIMIT);

    helper.say("end");

    helper.hear(LIMIT);
}

#[test]
fn a_stopped_helper_answers_when_it_goes_on() {
    let mut helper = Child::again("echo", &[]);
    helper.hear(LIMIT);

    helper.stop_signal();
    helper.say("awake");
    helper.cont_signal();

    assert_eq!(helper.hear(LIMIT), "awake");
}

#[test]
fn a_killed_helper_is_gone() {
    let mut helper = Child::again("echo", &[]);
    helper.hear(LIMIT);

    let status = helper.kill();

    assert_eq!(status.signal(), Some(9));
    assert!(!is_alive(helper.pid()));
}

#[test]
fn a_dropped_helper_is_gone_even_when_stopped() {
    let helper = Child::again("echo", &[]);
    let pid = helper.pid();
    helper.stop_signal();

    drop(helper);

    assert!(!is_alive(pid));
}

#[test]
fn servers_and_helpers_end_with_a_killed_test_process() {
    nothing_outlives(&[]);
}

#[test]
fn even_frozen_servers_and_helpers_end_with_a_killed_test_process() {
    nothing_outlives(&["frozen"]);
}

fn nothing_outlives(args: &[&str]) {
    if servers().is_empty() {
        return;
    }
    let mut landlord = Child::again("landlord", args);
    let pids: Vec<u32> = landlord
        .hear(LIMIT)
        .split(' ')
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let folder = landlord.hear(LIMIT);
    assert_eq!(pids.len(), 2);
    assert!(pids.iter().copied().all(is_alive));
    assert!(Path::new(&folder).exists());

    landlord.kill();

    eventually(LIMIT, "the server and the helper are gone", || {
        !pids.iter().copied().any(is_alive)
    });
    assert!(!Path::new(&folder).exists());
}

/// Whether a process is there and has not merely been left unburied.
fn is_alive(pid: u32) -> bool {
    let status = Path::new("/proc").join(pid.to_string()).join("status");
    std::fs::read_to_string(status).is_ok_and(|status| !status.contains("State:\tZ"))
}
