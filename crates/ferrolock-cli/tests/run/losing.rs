//! A command whose lock is lost is ended in time.

use std::io::Write;
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use testkit::{Kind, LIMIT, Monitor, Proxy, Server, eventually};

use crate::run::{Run, assert_term_before_kill, living_in_group, wait_until_gone};
use crate::stage::Stage;

stories!(
    a_lock_that_was_removed_ends_the_command_with_term,
    after_the_grace_comes_kill_for_the_whole_group,
    a_child_that_outlives_a_polite_command_is_killed_too,
    with_on_lost_kill_the_group_is_killed_at_once,
    with_on_lost_warn_the_command_runs_on,
    a_loss_that_is_seen_at_the_release_counts_too,
    an_error_output_that_is_not_read_delays_nothing,
);

/// Runs on after TERM. Writes the time at which it got TERM, and every 10 ms the time, in nanoseconds; so does its child.
const STUBBORN: &str = "trap 'date +%s%N >> term' TERM; \
    (trap '' TERM; while :; do date +%s%N >> child; sleep 0.01; done) & \
    echo $$ > leader; \
    while :; do date +%s%N >> pulse; sleep 0.01; done";

/// Removes the lock while its holder has it.
fn remove(stage: &Stage, name: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async {
        let client = ferrolock::Client::connect(stage.url()).await.unwrap();
        assert!(client.lock(name).force_unlock().await.unwrap());
    });
}

fn leader(stage: &Stage) -> i32 {
    stage.wait_for("leader").trim().parse().unwrap()
}

fn a_lock_that_was_removed_ends_the_command_with_term(stage: &Stage) {
    let script =
        "trap 'echo term > term; exit 0' TERM; echo $$ > leader; while :; do sleep 0.02; done";
    let run = stage.start(&["--lease", "3s", "x", "--", "sh", "-c", script]);
    leader(stage);

    remove(stage, "x");

    let ended = run.end();
    assert_eq!(ended.code, 76);
    assert_eq!(stage.read("term"), "term\n");
    let line = ended.error_line();
    assert!(line.contains("removed") && line.contains("TERM"), "{line}");
}

fn after_the_grace_comes_kill_for_the_whole_group(stage: &Stage) {
    let words = [
        "--json", "--lease", "3s", "--grace", "1500ms", "x", "--", "sh", "-c", STUBBORN,
    ];
    let run = stage.start(&words);
    let group = leader(stage);

    remove(stage, "x");

    let ended = run.end();
    assert_eq!(ended.code, 76);
    assert!(living_in_group(group).is_empty());
    assert_term_before_kill(&ended);
    assert_eq!(stage.read("term").lines().count(), 1);
}

fn a_child_that_outlives_a_polite_command_is_killed_too(stage: &Stage) {
    let script = "(trap '' TERM; echo up > up; while :; do sleep 0.02; done) & \
        trap 'exit 0' TERM; echo $$ > leader; while :; do sleep 0.02; done";
    let words = [
        "--lease", "3s", "--grace", "500ms", "x", "--", "sh", "-c", script,
    ];
    let run = stage.start(&words);
    stage.wait_for("up");
    let group = leader(stage);

    remove(stage, "x");

    assert_eq!(run.end().code, 76);
    assert!(living_in_group(group).is_empty());
}

fn with_on_lost_kill_the_group_is_killed_at_once(stage: &Stage) {
    let words = [
        "--json",
        "--lease",
        "3s",
        "--on-lost",
        "kill",
        "x",
        "--",
        "sh",
        "-c",
        STUBBORN,
    ];
    let run = stage.start(&words);
    let group = leader(stage);

    remove(stage, "x");

    let ended = run.end();
    assert_eq!(ended.code, 76);
    assert_eq!(stage.read("term"), "");
    assert!(!ended.errors.contains("\"TERM\""), "{ended:?}");
    wait_until_gone(group);
}

fn with_on_lost_warn_the_command_runs_on(stage: &Stage) {
    let script = "trap 'echo term > term' TERM; echo $$ > leader; \
        until [ -e go ]; do sleep 0.02; done; echo done";
    let run = stage.start(&[
        "--lease",
        "1s",
        "--on-lost",
        "warn",
        "x",
        "--",
        "sh",
        "-c",
        script,
    ]);
    leader(stage);
    remove(stage, "x");
    run.wait_for_error("was lost");
    // Another run holds it now, for longer than the lease that was lost.
    let other = stage.run(&["x", "--", "sleep", "1.5"]);

    std::fs::write(stage.path("go"), "").unwrap();

    let ended = run.end();
    assert_eq!((other.code, ended.code), (0, 76));
    assert_eq!(ended.output, "done\n");
    assert_eq!(stage.read("term"), "");
    let line = ended.error_line();
    assert_eq!(line.matches("lost").count(), 1, "{line}");
}

fn a_loss_that_is_seen_at_the_release_counts_too(stage: &Stage) {
    // The lease is so long that no renewal comes before the command ends.
    let script = "echo $$ > leader; until [ -e go ]; do sleep 0.02; done";
    let run = stage.start(&["--lease", "10m", "x", "--", "sh", "-c", script]);
    leader(stage);
    remove(stage, "x");

    std::fs::write(stage.path("go"), "").unwrap();

    let ended = run.end();
    assert_eq!(ended.code, 76);
    assert!(ended.error_line().contains("was lost"));
}

fn an_error_output_that_is_not_read_delays_nothing(stage: &Stage) {
    let (reader, errors) = full_pipe();
    let mut command = stage.command(&["run", "--json", "--lease", "3s", "x", "--"]);
    let mut run = Run::start_without_reader(command.args(["sh", "-c", STUBBORN]).stderr(errors));
    // `Command` still owns the pipe's writing end: as long as one is open, the reader does not see the pipe's end.
    drop(command);
    let group = leader(stage);

    remove(stage, "x");

    wait_until_gone(group);
    run.read_errors(reader);
    let ended = run.end();
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.errors.contains("\"KILL\""), "{ended:?}");
}

/// A pipe that is full until it is read.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    while writer.write(b"\n").is_ok() {}
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// A run on a server behind a proxy, which lets no request through: the run gets no answers, and the test can still ask the
/// server.
struct Silent {
    stage: Stage,
    run: Run,
    group: i32,
    server: Server,
    heard: Monitor,
    _proxy: Proxy,
}

impl Silent {
    fn start(lease: Duration, on_lost: &str, script: &str) -> Option<Self> {
        if !Kind::Redis.is_here() {
            return None;
        }
        let server = Server::start(Kind::Redis);
        let heard = server.monitor();
        let proxy = Proxy::start(server.address());
        let stage = Stage::on(proxy.url(), None);
        let lease = format!("{}s", lease.as_secs());
        let words = ["--json", "--lease", &lease, "--on-lost", on_lost, "x"];
        let run = stage.start(&[&words[..], &["--", "sh", "-c", script]].concat());
        let group = leader(&stage);
        proxy.hold_requests(true);
        Some(Self {
            stage,
            run,
            group,
            server,
            heard,
            _proxy: proxy,
        })
    }

    /// The time in the last whole line of that file.
    fn last(stage: &Stage, name: &str) -> u64 {
        stage
            .read(name)
            .lines()
            .rev()
            .nth(1)
            .map(first_time)
            .unwrap()
    }
}

fn with_a_server_that_falls_silent(lease: Duration) {
    let Some(silent) = Silent::start(lease, "term", STUBBORN) else {
        return;
    };
    let stage = &silent.stage;

    let ended = silent.run.end();

    assert_eq!(ended.code, 76);
    let lease_ends = end_of_last_lease(&silent.server, &silent.heard);
    assert!(living_in_group(silent.group).is_empty());
    let (pulse, child) = (Silent::last(stage, "pulse"), Silent::last(stage, "child"));
    let (term, kill) = (
        time_of(&ended.errors, "TERM").unwrap(),
        time_of(&ended.errors, "KILL").unwrap(),
    );
    let before_end = |time: u64| (i128::from(lease_ends) - i128::from(time)) / 1_000_000;
    println!(
        "lease {lease:?}: before its end TERM was sent {} ms, KILL {} ms, the last sign of the command came {} ms, of its child {} ms",
        before_end(term),
        before_end(kill),
        before_end(pulse),
        before_end(child),
    );
    let lease_ns = u64::try_from(lease.as_nanos()).unwrap();
    assert!(
        term > lease_ends - lease_ns,
        "not before there was a reason"
    );
    assert!(term < kill && kill < lease_ends);
    assert!(pulse < lease_ends && child < lease_ends);
    // The command may not have written when it got TERM: on a busy machine a shell may have no time between TERM and KILL.
    if let Some(heard) = stage.read("term").lines().last() {
        assert!(first_time(heard) < lease_ends);
    }
    assert!(ended.errors.contains("could not be renewed"), "{ended:?}");
}

#[test]
fn with_a_silent_server_and_on_lost_kill_kill_comes_before_the_lease_ends() {
    let Some(silent) = Silent::start(Duration::from_secs(3), "kill", STUBBORN) else {
        return;
    };

    let ended = silent.run.end();

    assert_eq!(ended.code, 76);
    assert_eq!(time_of(&ended.errors, "TERM"), None, "{ended:?}");
    let lease_ends = end_of_last_lease(&silent.server, &silent.heard);
    assert!(time_of(&ended.errors, "KILL").unwrap() < lease_ends);
    assert!(Silent::last(&silent.stage, "pulse") < lease_ends);
    assert!(living_in_group(silent.group).is_empty());
}

#[test]
fn with_a_silent_server_and_on_lost_warn_the_command_runs_on() {
    let script = "echo $$ > leader; until [ -e go ]; do sleep 0.02; done; echo done";
    let Some(silent) = Silent::start(Duration::from_secs(1), "warn", script) else {
        return;
    };
    silent.run.wait_for_error("\"lost\"");

    std::fs::write(silent.stage.path("go"), "").unwrap();

    let ended = silent.run.end();
    assert_eq!((ended.code, ended.output.as_str()), (76, "done\n"));
    assert!(!ended.errors.contains("\"signalled\""), "{ended:?}");
}

/// When that signal was sent, in nanoseconds of the time of day; `None`: it was not.
fn time_of(events: &str, signal: &str) -> Option<u64> {
    // What the shell prints about its dead children is no event.
    let mut events = events
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let event = events.find(|event: &serde_json::Value| {
        event["event"] == "signalled" && event["signal"] == signal
    });
    let time = Duration::from_secs_f64(event?["time"].as_f64().unwrap());
    Some(u64::try_from(time.as_nanos()).unwrap())
}

/// When the lease that the server was last asked for ends, in nanoseconds of the time of day. `heard` has all commands that
/// the server got.
pub(crate) fn end_of_last_lease(server: &Server, heard: &Monitor) -> u64 {
    // Then all commands before this one are in the list.
    server.command(&["ECHO", "until here"]);
    heard.wait_for(|line| line.contains("until here"), LIMIT);
    let lines = heard.lines();
    let end = lines.iter().rev().find_map(|line| {
        let (time, asked) = line.split_once(" [0 lua] \"PEXPIRE\" \"x\" ")?;
        let (time, lease): (f64, u64) = (time.parse().ok()?, asked.trim_matches('"').parse().ok()?);
        Some(Duration::from_secs_f64(time) + Duration::from_millis(lease))
    });
    u64::try_from(end.expect("a lease").as_nanos()).unwrap()
}

fn first_time(text: &str) -> u64 {
    text.lines().next().unwrap().parse().unwrap()
}

#[test]
fn with_a_lease_of_1_s_term_and_kill_come_before_it_ends() {
    with_a_server_that_falls_silent(Duration::from_secs(1));
}

#[test]
fn with_a_lease_of_30_s_term_and_kill_come_before_it_ends() {
    with_a_server_that_falls_silent(Duration::from_secs(30));
}

/// The server process is stopped; its answer comes too late.
#[test]
fn a_server_that_is_stopped_ends_the_command() {
    let Some(stage) = Stage::redis() else { return };
    let run = stage.start(&["--json", "--lease", "1s", "x", "--", "sh", "-c", STUBBORN]);
    let group = leader(&stage);

    stage.server().unwrap().stop_signal();

    let ended = run.end();
    assert_eq!(ended.code, 76);
    assert!(living_in_group(group).is_empty());
    assert_term_before_kill(&ended);
    stage.server().unwrap().cont_signal();
}

/// The stop is shorter than the lease: afterwards the renewal comes before TERM.
#[test]
fn a_short_stop_of_ferrolock_ends_nothing() {
    let Some(stage) = Stage::redis() else { return };
    let server = stage.server().unwrap();
    let run = stage.start(&[
        "--lease",
        "8s",
        "x",
        "--",
        "sh",
        "-c",
        "echo $$ > leader; until [ -e go ]; do sleep 0.05; done",
    ]);
    leader(&stage);

    run.signal(rustix::process::Signal::STOP);
    // Past the point at which TERM would come (8 s - 0.8 s - 2.67 s), well before the deadline.
    eventually(LIMIT, "most of the lease to pass", || {
        server.command(&["PTTL", "x"]).int() < 3000
    });
    run.signal(rustix::process::Signal::CONT);

    eventually(LIMIT, "a renewal", || {
        server.command(&["PTTL", "x"]).int() > 6000
    });
    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(run.end().code, 0);
}
