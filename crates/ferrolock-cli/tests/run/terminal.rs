//! A run in the foreground of a terminal, under a shell with job control.

use testkit::{LIMIT, eventually};

use crate::pty::{PROMPT, Pty, Shell};
use crate::run::{is_alive, is_stopped, wait_until_gone};
use crate::stage::Stage;

stories!(
    ctrl_c_goes_to_the_command_alone,
    the_command_reads_from_the_terminal_and_the_shell_gets_it_back,
    ctrl_z_stops_ferrolock_and_the_command_and_fg_continues_both,
    a_command_that_is_stopped_too_long_is_killed_and_fg_returns_76,
    a_background_job_gets_the_terminal_with_fg,
    the_reader_of_a_pipe_keeps_the_terminal,
    a_command_whose_input_is_a_pipe_gets_the_terminal_when_it_asks,
    a_job_goes_on_in_the_background_with_bg,
    ctrl_z_stops_a_run_inside_a_run_and_fg_continues_it,
    a_run_inside_a_run_gets_the_terminal_when_it_asks,
    a_command_that_can_never_have_the_terminal_is_ended,
    a_command_that_was_killed_leaves_the_terminal_as_it_was,
    a_wait_in_the_background_shows_nothing,
    a_group_without_a_number_in_our_namespace_keeps_the_terminal,
);

const CTRL_C: &str = "\x03";
/// A shell that is just starting a program (by `vfork`) cannot be stopped. So commands that the tests stop read, and start
/// no program.
const CTRL_Z: &str = "\x1a";

/// A shell in a terminal, where `ferrolock` is found by its name.
fn open(stage: &Stage) -> (Pty, Shell) {
    let mut terminal = Pty::open();
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_ferrolock"));
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", program.parent().unwrap().display());
    let shell = terminal.shell(stage.command(&[]).env("PATH", path));
    terminal.wait_for(PROMPT);
    (terminal, shell)
}

fn close(mut terminal: Pty, shell: Shell) {
    terminal.type_in("exit\n");
    shell.end();
}

fn ctrl_c_goes_to_the_command_alone(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "ferrolock run x -- sh -c 'trap \"echo got-it; exit 5\" INT; echo u\"\"p; while :; do sleep 0.05; done'; echo code=$?\n",
    );
    terminal.wait_for("up\r\n");

    terminal.type_in(CTRL_C);

    terminal.wait_for("got-it");
    terminal.wait_for("code=5");
    close(terminal, shell);
}

fn the_command_reads_from_the_terminal_and_the_shell_gets_it_back(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "ferrolock run x -- sh -c 'echo u\"\"p; read line; echo read:$line'; echo code=$?\n",
    );
    terminal.wait_for("up\r\n");

    terminal.type_in("hello\n");

    terminal.wait_for("read:hello");
    terminal.wait_for("code=0");
    close(terminal, shell);
}

fn ctrl_z_stops_ferrolock_and_the_command_and_fg_continues_both(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "ferrolock run --lease 60s x -- sh -c 'echo $$ > leader; echo u\"\"p; read line; echo read:$line'; echo code=$?\n",
    );
    terminal.wait_for("up\r\n");
    for _ in 0..2 {
        terminal.type_in(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for(PROMPT);
        let leader = stage.read("leader").trim().parse().unwrap();
        assert!(is_alive(leader) && is_stopped(leader));
        assert!(!stage.is_free("x"), "a stopped run keeps its lock");

        terminal.type_in("fg\n");
        terminal.wait_for("ferrolock run");
    }

    terminal.type_in("hello\n");

    terminal.wait_for("read:hello");
    terminal.wait_for(PROMPT);
    close(terminal, shell);
}

fn a_command_that_is_stopped_too_long_is_killed_and_fg_returns_76(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "ferrolock run --lease 1s x -- sh -c 'echo $$ > leader; echo u\"\"p; read line'\n",
    );
    terminal.wait_for("up\r\n");
    let leader = stage.wait_for("leader").trim().parse().unwrap();

    terminal.type_in(CTRL_Z);
    terminal.wait_for("Stopped");
    terminal.wait_for(PROMPT);
    wait_until_gone(leader);

    terminal.type_in("fg; echo code=$?\n");
    terminal.wait_for("code=76");
    close(terminal, shell);
}

fn a_background_job_gets_the_terminal_with_fg(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "ferrolock run --lease 60s x -- sh -c 'echo u\"\"p; read line; echo read:$line' &\n",
    );
    terminal.wait_for("up\r\n");
    // It reads in the background, which stops it, and `ferrolock` with it; the shell must have noticed that.
    eventually(LIMIT, "a job that the shell knows to be stopped", || {
        terminal.type_in("jobs\n");
        terminal.wait_for("jobs\r\n");
        terminal.wait_for(PROMPT);
        terminal.text().contains("Stopped")
    });
    terminal.type_in("fg\n");
    terminal.wait_for("ferrolock run");
    terminal.type_in("hello\n");

    terminal.wait_for("read:hello");
    close(terminal, shell);
}

fn the_reader_of_a_pipe_keeps_the_terminal(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    // Its reader asks the terminal, as a pager does.
    terminal.type_in(
        "ferrolock run x -- echo text | sh -c 'read line; echo piped:$line; read key < /dev/tty; echo key:$key'\n",
    );
    terminal.wait_for("piped:text");

    terminal.type_in("k\n");

    terminal.wait_for("key:k");
    close(terminal, shell);
}

fn a_command_whose_input_is_a_pipe_gets_the_terminal_when_it_asks(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "echo text | ferrolock run x -- sh -c 'read line; echo piped:$line; read key < /dev/tty; echo key:$key'\n",
    );
    terminal.wait_for("piped:text");

    terminal.type_in("k\n");

    terminal.wait_for("key:k");
    close(terminal, shell);
}

fn a_job_goes_on_in_the_background_with_bg(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    // It reads from a file: in the background it does not have the terminal.
    terminal.type_in(
        "mkfifo never; ferrolock run --lease 60s x -- sh -c 'echo u\"\"p; read line <> never; echo read:$line'\n",
    );
    terminal.wait_for("up\r\n");
    terminal.type_in(CTRL_Z);
    terminal.wait_for("Stopped");
    terminal.wait_for(PROMPT);

    terminal.type_in("bg\n");
    terminal.wait_for(PROMPT);
    terminal.type_in("echo hello > never; wait; echo wai\"\"ted\n");

    terminal.wait_for("read:hello");
    terminal.wait_for("waited");
    assert!(stage.is_free("x"));
    close(terminal, shell);
}

fn ctrl_z_stops_a_run_inside_a_run_and_fg_continues_it(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    terminal.type_in(
        "ferrolock run --lease 60s x -- ferrolock run --lease 60s y -- sh -c 'echo u\"\"p; read line; echo read:$line'\n",
    );
    terminal.wait_for("up\r\n");
    for _ in 0..2 {
        terminal.type_in(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for(PROMPT);
        assert!(!stage.is_free("x") && !stage.is_free("y"));
        terminal.type_in("fg\n");
        terminal.wait_for("ferrolock run");
    }

    terminal.type_in("hello\n");

    terminal.wait_for("read:hello");
    terminal.wait_for(PROMPT);
    close(terminal, shell);
}

fn a_run_inside_a_run_gets_the_terminal_when_it_asks(stage: &Stage) {
    let (mut terminal, shell) = open(stage);
    // With a pipe as input neither gets the terminal at its start.
    terminal.type_in(
        "echo text | ferrolock run x -- ferrolock run y -- sh -c 'read line; echo piped:$line; read key < /dev/tty; echo key:$key'\n",
    );
    terminal.wait_for("piped:text");

    terminal.type_in("k\n");

    terminal.wait_for("key:k");
    terminal.wait_for(PROMPT);
    close(terminal, shell);
}

/// Its shell is gone, so no process could ever bring it to the foreground.
fn a_command_that_can_never_have_the_terminal_is_ended(stage: &Stage) {
    let (mut terminal, shell) = open(stage);

    terminal.type_in(
        "mkfifo go; (sh -c 'ferrolock run x -- sh -c \"read go < go; read line < /dev/tty\" 2> errors; echo $? > code' &)\n",
    );
    terminal.wait_for(PROMPT);
    std::fs::write(stage.path("go"), "\n").unwrap();

    assert_eq!(stage.wait_for("code"), "129\n");
    assert!(stage.read("errors").contains("terminal"));
    close(terminal, shell);
}

fn a_command_that_was_killed_leaves_the_terminal_as_it_was(stage: &Stage) {
    let (mut terminal, shell) = open(stage);

    terminal.type_in(
        "ferrolock run x -- sh -c 'stty -echo; kill -9 $$'; stty -a | grep -q -e '-echo ' && echo mo\"\"des:lost || echo mo\"\"des:kept\n",
    );

    terminal.wait_for("modes:kept");
    close(terminal, shell);
}

fn a_wait_in_the_background_shows_nothing(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");
    let (mut terminal, shell) = open(stage);
    terminal.type_in("ferrolock -v run --wait 2s x -- true &\n");
    terminal.wait_for("connecting");

    // The shell waits for it, so the shell has the terminal all the time.
    terminal.type_in("wait; echo o\"\"ver\n");

    terminal.wait_for("is busy");
    terminal.wait_for("over");
    assert!(!terminal.text().contains("waiting for"));
    close(terminal, shell);
}

/// As with `nsenter` and `kubectl exec`: the leader of our group is outside, and our group has no number here.
fn a_group_without_a_number_in_our_namespace_keeps_the_terminal(stage: &Stage) {
    let inside = "unshare --user --map-root-user --pid --fork --mount-proc";
    let try_out = format!("{inside} true");
    let tried = std::process::Command::new("sh")
        .args(["-c", &try_out])
        .output();
    if !tried.is_ok_and(|output| output.status.success()) {
        let remedy = "namespaces of processes are not allowed here\n";
        return testkit::left_out("without process namespaces", remedy);
    }
    let (mut terminal, shell) = open(stage);

    terminal.type_in(&format!(
        "{inside} ferrolock run x -- sh -c 'echo u\"\"p'; read line; echo read:$line\n"
    ));
    terminal.wait_for("up\r\n");
    terminal.type_in("hello\n");

    terminal.wait_for("read:hello");
    close(terminal, shell);
}
