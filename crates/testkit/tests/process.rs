//! Helpers: the test binary started again, and what is left when the test process is killed.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "test code"
)]

use rustix::process::{Signal, getpid, kill_process};
use std::io::Write;
use std::os::unix::process::{ExitStatusExt, parent_id};
use std::path::Path;
use testkit::process::{Child, Role, alone};
use testkit::{LIMIT, Server, eventually, servers};

testkit::roles![echo, deaf, landlord, plumber];

/// Sends its arguments, and then repeats each line from its parent.
fn echo(role: &Role) {
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
fn deaf(role: &Role) {
    role.say("here");
    loop {
        std::thread::park();
    }
}

/// Starts a server and another helper, reports their process ids and the server's folder, and waits to be killed.
fn landlord(role: &Role) {
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

/// Writes to a pipe that no longer has a reader, and reports the error.
fn plumber(role: &Role) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    drop(reader);
    let error = writer.write_all(b"x").unwrap_err();
    role.say(&format!("{:?}", error.kind()));
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
fn a_role_that_the_binary_does_not_have_fails() {
    let mut helper = Child::again("ehco", &[]);

    assert_eq!(helper.wait(LIMIT).code(), Some(2));
}

/// The standard library ignores `SIGPIPE` just before `main`; a helper begins earlier, and has to do it itself.
#[test]
fn a_helper_that_writes_to_a_closed_pipe_gets_an_error_and_goes_on() {
    let mut helper = Child::again("plumber", &[]);

    assert_eq!(helper.hear(LIMIT), "BrokenPipe");
    assert!(helper.wait(LIMIT).success());
}

#[test]
#[should_panic(expected = "echo, printed and not said")]
fn waiting_for_a_line_of_a_helper_that_ended_shows_what_it_printed() {
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
fn a_body_that_runs_alone_has_a_process_of_its_own() {
    alone(|| {
        let parent = Path::new("/proc").join(parent_id().to_string());
        let parents_program = std::fs::read_link(parent.join("exe")).unwrap();
        assert_eq!(parents_program, std::env::current_exe().unwrap());
        println!("passed, so this is not shown");
    });
}

#[test]
#[should_panic(expected = "printed before the panic")]
fn a_body_that_fails_alone_fails_the_test_with_what_it_printed() {
    alone(|| {
        println!("printed before the panic");
        panic!("as asked");
    });
}

#[test]
#[should_panic(expected = "it did not pass (exit status: 0)")]
fn a_body_that_does_not_come_to_its_end_fails_the_test() {
    alone(|| std::process::exit(0));
}

#[test]
#[should_panic(expected = "it did not pass (signal: 9")]
fn a_body_that_is_killed_fails_the_test() {
    alone(|| kill_process(getpid(), Signal::KILL).unwrap());
}

#[test]
fn servers_and_helpers_end_with_a_killed_test_process() {
    assert_nothing_outlives_the_test_process(&[]);
}

#[test]
fn even_frozen_servers_and_helpers_end_with_a_killed_test_process() {
    assert_nothing_outlives_the_test_process(&["frozen"]);
}

fn assert_nothing_outlives_the_test_process(args: &[&str]) {
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

/// Whether a process runs; not if it has ended and is only waiting to be reaped.
fn is_alive(pid: u32) -> bool {
    let status = Path::new("/proc").join(pid.to_string()).join("status");
    std::fs::read_to_string(status).is_ok_and(|status| !status.contains("State:\tZ"))
}
