//! Whatever happens to `ferrolock`, no process of the command's group runs on without the lock.

use nix::sys::ptrace;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use testkit::{LIMIT, Server, eventually};

use crate::losing::end_of_last_lease;
use crate::run::{
    Run, assert_gone_soon, is_alive, is_mentioned, is_stopped, living_in_group, wait_until_gone,
};
use crate::stage::Stage;

stories!(
    kill_9_leaves_neither_child_nor_grandchild,
    after_kill_9_a_waiter_gets_the_lock_when_the_group_is_gone,
    kill_9_at_any_moment_leaves_no_process,
    the_command_of_a_stopped_ferrolock_is_killed_before_the_lease_ends,
    a_run_whose_command_the_shim_has_killed_ends_with_76,
    a_shim_that_was_killed_is_replaced,
    a_shim_that_is_killed_again_and_again_is_replaced_after_growing_pauses,
    helpers_that_were_killed_while_we_wait_are_replaced,
    helpers_that_were_stopped_while_we_wait_are_continued,
    ferrolock_waits_for_a_shim_that_stands_still_for_a_while,
    the_helpers_of_a_wait_end_with_it,
    a_shim_that_was_stopped_is_continued,
    pkill_ferrolock_does_not_match_the_shim,
    the_command_itself_ends_also_if_ferrolock_and_the_shim_are_killed,
    background_processes_of_a_command_that_has_ended_run_on,
);

/// A shell with children and grandchildren, all of which ignore TERM, INT, HUP and QUIT.
const FAMILY: &str = "trap '' TERM INT HUP QUIT; \
    (trap '' TERM; sleep 1000 & sleep 1000) & \
    sleep 1000 & \
    echo $$ > leader; wait";

fn leader(stage: &Stage) -> i32 {
    stage.wait_for("leader").trim().parse().unwrap()
}

fn kill_9_leaves_neither_child_nor_grandchild(stage: &Stage) {
    let run = stage.script("x", FAMILY);
    let group = leader(stage);
    eventually(LIMIT, "the whole family", || {
        living_in_group(group).len() >= 4
    });
    let shim = run.shim().as_raw_pid();

    run.kill();

    assert_gone_soon(group);
    eventually(LIMIT, "the end of the shim", || !is_alive(shim));
}

fn after_kill_9_a_waiter_gets_the_lock_when_the_group_is_gone(stage: &Stage) {
    let run = stage.start(&["--lease", "1h", "x", "--", "sh", "-c", FAMILY]);
    let group = leader(stage);
    let next = stage.start(&["--json", "x", "--", "echo", "next"]);
    next.wait_for_error("\"waiting\"");

    run.kill();

    // In a folder the waiter gets the lock when both are dead; on a server the lease must end first, so we shorten it to a
    // second. (A holder that asks for such a lease may lose it while this machine is busy.)
    if let Some(server) = stage.server() {
        server.command(&["PEXPIRE", "x", "1000"]);
    }
    let ended = next.end();
    assert_eq!(ended.output, "next\n");
    let left = living_in_group(group);
    assert!(
        left.is_empty(),
        "nobody runs on when the next one starts: {left:?}"
    );
}

/// In a folder the shim keeps the lock too: until it has killed the group, no other run gets the lock.
#[test]
fn the_lock_is_busy_until_the_shim_has_killed_the_group() {
    let stage = Stage::file();
    let run = stage.start(&["--lease", "1h", "x", "--", "sh", "-c", FAMILY]);
    let group = leader(&stage);
    assert_busy_until_the_shim_is_done(&stage, run, group);
}

#[test]
fn the_lock_is_busy_until_the_second_shim_has_killed_the_group() {
    let stage = Stage::file();
    let run = stage.start(&["--lease", "1h", "x", "--", "sh", "-c", FAMILY]);
    let group = leader(&stage);
    let first = run.shim();
    kill_process(first, Signal::KILL).unwrap();
    eventually(LIMIT, "another shim", || run.shim() != first);
    assert_busy_until_the_shim_is_done(&stage, run, group);
}

fn assert_busy_until_the_shim_is_done(stage: &Stage, run: Run, group: i32) {
    let shim = run.shim();
    // While it is stopped, it cannot continue its shim.
    run.signal(Signal::STOP);
    kill_process(shim, Signal::STOP).unwrap();
    eventually(LIMIT, "a stopped shim", || is_stopped(shim.as_raw_pid()));

    run.kill();

    for _ in 0..3 {
        assert!(!stage.is_free("x"));
    }
    let left = living_in_group(group);
    assert!(!left.is_empty(), "the children go on until the shim does");
    kill_process(shim, Signal::CONT).unwrap();
    let next = stage.run(&["x", "--", "echo", "next"]);
    assert_eq!(next.output, "next\n");
    assert!(living_in_group(group).is_empty());
}

fn kill_9_at_any_moment_leaves_no_process(stage: &Stage) {
    // With the folder's name in its arguments we find it among all processes, as the gate and as the command.
    let mark = stage.folder().display().to_string();
    let script = format!("echo $$ >> leaders; sleep 1000; : {mark}");
    for moment in 0..25_u64 {
        let name = format!("x{moment}");
        let run = stage.script(&name, &script);
        // Not a wait for something: each run is killed at another point of its start.
        std::thread::sleep(std::time::Duration::from_millis(moment));
        run.kill();
    }

    eventually(LIMIT, "nothing of ours", || {
        let leaders = stage.read("leaders");
        let is_gone = |group: &str| living_in_group(group.parse().unwrap()).is_empty();
        !is_mentioned(&mark) && leaders.lines().all(is_gone)
    });
}

fn the_command_of_a_stopped_ferrolock_is_killed_before_the_lease_ends(stage: &Stage) {
    let script = format!("(while :; do date +%s%N >> pulse; sleep 0.01; done) & {FAMILY}");
    let heard = stage.server().map(Server::monitor);
    let run = stage.start(&["--lease", "3s", "x", "--", "sh", "-c", &script]);
    let group = leader(stage);
    stage.wait_for("pulse");

    run.signal(Signal::STOP);

    wait_until_gone(group);
    assert!(is_stopped(run.pid().as_raw_pid()));
    let last_sign: u64 = stage
        .read("pulse")
        .lines()
        .rev()
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    // A store cannot be asked: we may have stopped `ferrolock` inside a change of it.
    if let (Some(server), Some(heard)) = (stage.server(), &heard) {
        let end = end_of_last_lease(server, heard);
        assert!(last_sign < end, "{last_sign} {end}");
    }
    run.signal(Signal::CONT);
    assert_eq!(run.end().code, 76);
}

/// `ferrolock` is stopped after the grant and before the command's first step, and continued when its lease is long over:
/// with `--on-lost warn` no process would end a command that it starts then. On a server only: a process that is stopped
/// inside a change of a store blocks the others there.
#[test]
fn a_run_that_was_stopped_after_the_grant_starts_no_command_without_the_lock() {
    let Some(stage) = Stage::redis() else { return };
    let runs: Vec<_> = (0..30)
        .map(|moment: u64| {
            let name = format!("x{moment}");
            let script = format!("echo ran > {name}");
            let words = ["--json", "--lease", "1s", "--on-lost", "warn", &name];
            let run = stage.start(&[&words[..], &["--", "sh", "-c", &script]].concat());
            // Not a wait for something: each run is stopped at another point of its start.
            std::thread::sleep(std::time::Duration::from_micros(moment * 500));
            run.signal(Signal::STOP);
            (name, run)
        })
        .collect();
    for (name, _) in &runs {
        assert_eq!(stage.run(&[name, "--", "true"]).code, 0);
    }

    for (name, run) in runs {
        // A process that has become the command, or is about to, may not have written anything yet.
        let is_between = run.errors().contains("\"acquired\"") && run.waits_at_gate();
        run.signal(Signal::CONT);
        let ended = run.end();
        if is_between {
            assert_eq!(ended.code, 76, "{ended:?}");
            assert_eq!(stage.read(&name), "", "{ended:?}");
            assert!(ended.errors.contains("\"lost\""), "{ended:?}");
        }
    }
}

/// The shim got a deadline and has killed the group at it, although `ferrolock` knows a later one.
fn a_run_whose_command_the_shim_has_killed_ends_with_76(stage: &Stage) {
    let run = stage.script("x", FAMILY);
    let group = leader(stage);
    let orders = format!("/proc/{}/fd/0", run.shim().as_raw_pid());

    std::fs::write(orders, "deadline 1\n").unwrap();

    let ended = run.end();
    assert_eq!(ended.code, 76, "{ended:?}");
    assert!(ended.error_line().contains("KILL"), "{ended:?}");
    assert!(living_in_group(group).is_empty());
    assert!(stage.is_free("x"));
}

fn a_shim_that_was_killed_is_replaced(stage: &Stage) {
    let run = stage.start(&["--json", "--lease", "60s", "x", "--", "sh", "-c", FAMILY]);
    let group = leader(stage);
    let first = run.shim();
    kill(first);
    run.wait_for_error("\"warning\"");
    eventually(LIMIT, "another shim", || run.shim() != first);

    run.kill();

    wait_until_gone(group);
}

/// As when the system kills each of them because memory is short. Only their deaths wake `ferrolock`: with this lease its
/// next regular look is far away.
fn a_shim_that_is_killed_again_and_again_is_replaced_after_growing_pauses(stage: &Stage) {
    const PAUSES: u32 = 50 + 100 + 200 + 400;
    let run = stage.start(&["--json", "--lease", "10m", "x", "--", "sh", "-c", FAMILY]);
    let group = leader(stage);
    let begun = std::time::Instant::now();
    for _ in 0..5 {
        let shim = run.shim();
        kill(shim);
        eventually(LIMIT, "another shim", || run.shim() != shim);
    }
    let took = begun.elapsed();

    println!("five deaths of shims took {took:?}");
    assert!(took.as_millis() >= PAUSES.into(), "{took:?}");
    let warnings = run.errors().matches("another is started").count();
    assert!(warnings <= 5, "{}", run.errors());
    assert_eq!(
        run.zombies(),
        0,
        "each of the dead is taken from the system's table"
    );
    run.kill();
    wait_until_gone(group);
}

/// They are started before the lock is ours.
fn helpers_that_were_killed_while_we_wait_are_replaced(stage: &Stage) {
    let holder = stage.script("x", "echo up > up; until [ -e go ]; do sleep 0.02; done");
    stage.wait_for("up");
    let waiting = stage.start(&["x", "--", "sh", "-c", FAMILY]);
    let (shim, gate) = (waiting.shim(), waiting.gate());
    for helper in [shim, gate] {
        kill_process(helper, Signal::KILL).unwrap();
        eventually(LIMIT, "its end", || !is_alive(helper.as_raw_pid()));
    }

    std::fs::write(stage.path("go"), "").unwrap();

    assert_eq!(holder.end().code, 0);
    let group = leader(stage);
    assert_ne!(waiting.shim(), shim);
    waiting.kill();
    assert_gone_soon(group);
}

fn helpers_that_were_stopped_while_we_wait_are_continued(stage: &Stage) {
    let holder = stage.script("x", "echo up > up; until [ -e go ]; do sleep 0.02; done");
    stage.wait_for("up");
    let waiting = stage.start(&["x", "--", "echo", "ran"]);
    for helper in [waiting.shim(), waiting.gate()] {
        kill_process(helper, Signal::STOP).unwrap();
        eventually(LIMIT, "a stop", || is_stopped(helper.as_raw_pid()));
    }

    std::fs::write(stage.path("go"), "").unwrap();

    assert_eq!(holder.end().code, 0);
    let ended = waiting.end();
    assert_eq!(
        (ended.code, ended.output.as_str()),
        (0, "ran\n"),
        "{ended:?}"
    );
}

/// As on a machine that is short of memory: no signal has stopped it, and none could continue it.
fn ferrolock_waits_for_a_shim_that_stands_still_for_a_while(stage: &Stage) {
    let holder = stage.script("x", "echo up > up; until [ -e go ]; do sleep 0.02; done");
    stage.wait_for("up");
    let waiting = stage.start(&["--json", "x", "--", "echo", "ran"]);
    let shim = nix::unistd::Pid::from_raw(waiting.shim().as_raw_pid());
    ptrace::seize(shim, ptrace::Options::empty()).unwrap();
    ptrace::interrupt(shim).unwrap();
    nix::sys::wait::waitpid(shim, None).unwrap();

    std::fs::write(stage.path("go"), "").unwrap();
    assert_eq!(holder.end().code, 0);
    waiting.wait_for_error("\"acquired\"");
    // Not a wait for something: the time for which it stands still.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    ptrace::detach(shim, None).unwrap();

    let ended = waiting.end();
    assert_eq!(
        (ended.code, ended.output.as_str()),
        (0, "ran\n"),
        "{ended:?}"
    );
}

fn the_helpers_of_a_wait_end_with_it(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");
    let ends_politely = stage.start(&["x", "--", "true"]);
    let is_killed = stage.start(&["x", "--", "true"]);
    let helpers = |run: &Run| [run.shim(), run.gate()].map(Pid::as_raw_pid);
    let (first, second) = (helpers(&ends_politely), helpers(&is_killed));

    // A user may have stopped them.
    for helper in first {
        kill_process(Pid::from_raw(helper).unwrap(), Signal::STOP).unwrap();
    }
    ends_politely.signal(Signal::TERM);
    assert_eq!(ends_politely.end().code, 128 + 15);
    assert!(!first.map(is_alive).contains(&true), "nothing is left");
    is_killed.kill();

    eventually(LIMIT, "the end of the others", || {
        !second.map(is_alive).contains(&true)
    });
}

fn a_shim_that_was_stopped_is_continued(stage: &Stage) {
    let run = stage.start(&["--json", "--lease", "60s", "x", "--", "sh", "-c", FAMILY]);
    let group = leader(stage);
    kill_process(run.shim(), Signal::STOP).unwrap();
    run.wait_for_error("\"warning\"");

    run.kill();

    wait_until_gone(group);
}

/// `pkill` looks at `comm`, `pkill -f` at `cmdline`.
fn pkill_ferrolock_does_not_match_the_shim(stage: &Stage) {
    let run = stage.script("x", FAMILY);
    leader(stage);

    let shim = format!("/proc/{}", run.shim().as_raw_pid());

    for name in ["comm", "cmdline"] {
        let text = std::fs::read_to_string(format!("{shim}/{name}")).unwrap();
        assert!(text.starts_with("lease-shim"), "{text}");
        assert!(!text.contains("ferrolock"), "{text}");
    }
}

fn the_command_itself_ends_also_if_ferrolock_and_the_shim_are_killed(stage: &Stage) {
    let run = stage.script("x", FAMILY);
    let group = leader(stage);
    // While it is stopped, it cannot start another shim.
    run.signal(Signal::STOP);
    kill(run.shim());

    run.kill();

    eventually(LIMIT, "the end of the command", || !is_alive(group));
    let _ = kill_process_group(Pid::from_raw(group).unwrap(), Signal::KILL);
}

fn kill(pid: Pid) {
    kill_process(pid, Signal::KILL).unwrap();
}

fn background_processes_of_a_command_that_has_ended_run_on(stage: &Stage) {
    let script = "sleep 1000 > /dev/null 2>&1 & echo $! > background; exit 4";

    let ended = stage.run(&["x", "--", "sh", "-c", script]);

    let background = stage.wait_for("background").trim().parse().unwrap();
    assert_eq!(ended.code, 4);
    assert!(is_alive(background));
    assert!(stage.is_free("x"));
    kill(Pid::from_raw(background).unwrap());
}
