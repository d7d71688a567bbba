//! A run in the foreground of a terminal, under a shell with job control.

use testkit::{LIMIT, eventually};

use crate::pty::{PROMPT, Pty, Shell};
use crate::run::{is_alive, is_stopped, wait_until_gone};
use crate::stage::Stage;

stories!(
    ctrl_c_is_the_commands,
    the_command_reads_from_the_terminal_and_the_shell_gets_it_back,
    ctrl_z_stops_both_and_fg_goes_on,
    a_command_that_is_stopped_too_long_is_killed_and_fg_says_so,
    a_background_job_gets_the_terminal_with_fg,
    a_pipe_keeps_the_terminal_for_its_other_end,
    a_command_whose_input_is_a_pipe_gets_the_terminal_when_it_asks,
);

const CTRL_C: &str = "\x03";
/// A shell that is just starting a program (by `vfork`) cannot be stopped: commands to be stopped read instead.
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

fn ctrl_c_is_the_commands(stage: &Stage) {
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

fn ctrl_z_stops_both_and_fg_goes_on(stage: &Stage) {
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

fn a_command_that_is_stopped_too_long_is_killed_and_fg_says_so(stage: &Stage) {
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
    // It reads in the background, which stops it, and us with it; the shell must have noticed that.
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

fn a_pipe_keeps_the_terminal_for_its_other_end(stage: &Stage) {
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
