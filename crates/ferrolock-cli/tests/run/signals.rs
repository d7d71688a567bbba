//! Signals are the command's while it runs, and end a `ferrolock` that waits.

use rustix::process::Signal;
use testkit::{LIMIT, eventually};

use crate::run::{Run, is_alive};
use crate::stage::Stage;

stories!(
    every_signal_is_passed_on_to_the_command,
    a_signal_while_waiting_ends_the_wait_and_leaves_nothing,
    a_signal_that_is_ignored_from_outside_stays_ignored,
    signals_do_not_end_the_shim,
);

/// With their numbers: what a command that dies of it makes of our exit code.
const ALL: [(Signal, &str, i32); 8] = [
    (Signal::HUP, "HUP", 1),
    (Signal::INT, "INT", 2),
    (Signal::QUIT, "QUIT", 3),
    (Signal::USR1, "USR1", 10),
    (Signal::USR2, "USR2", 12),
    (Signal::ALARM, "ALRM", 14),
    (Signal::TERM, "TERM", 15),
    (Signal::WINCH, "WINCH", 28),
];

fn every_signal_is_passed_on_to_the_command(stage: &Stage) {
    let traps: String = ALL
        .iter()
        .map(|(_, name, _)| format!("trap 'echo {name} >> heard' {name}; "))
        .collect();
    let run = stage.script(
        "x",
        &format!("{traps} echo up > up; while :; do sleep 0.02; done"),
    );
    stage.wait_for("up");

    for (signal, name, _) in ALL {
        run.signal(signal);

        let line = format!("{name}\n");
        eventually(LIMIT, name, || stage.read("heard").ends_with(&line));
    }
    assert_eq!(stage.read("heard").lines().count(), ALL.len());
}

fn a_signal_while_waiting_ends_the_wait_and_leaves_nothing(stage: &Stage) {
    let holder = stage.script("x", "echo up > up; read _ < go");
    rustix_fifo(stage, "go");
    stage.wait_for("up");
    for (signal, number) in [
        (Signal::INT, 2),
        (Signal::TERM, 15),
        (Signal::HUP, 1),
        (Signal::QUIT, 3),
    ] {
        let waiter = stage.start(&["--json", "x", "--", "touch", "ran"]);
        waiter.wait_for_error("\"waiting\"");

        waiter.signal(signal);

        assert_eq!(waiter.end().code, 128 + number);
    }
    std::fs::write(stage.path("go"), "\n").unwrap();
    assert_eq!(holder.end().code, 0);
    assert!(stage.is_free("x"));
    assert!(!stage.path("ran").exists());
}

/// A named pipe; made while nobody looks for it yet.
fn rustix_fifo(stage: &Stage, name: &str) {
    let made = std::process::Command::new("mkfifo")
        .arg(stage.path(name))
        .status();
    assert!(made.unwrap().success());
}

fn a_signal_that_is_ignored_from_outside_stays_ignored(stage: &Stage) {
    // As `nohup` does.
    let mut command = std::process::Command::new("sh");
    command
        .args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_ferrolock")])
        .args(["run", "--lease", "60s", "x", "--", "sh", "-c"])
        .arg("grep SigIgn /proc/$$/status; trap 'echo usr > heard; exit 3' USR1; echo up > up; while :; do sleep 0.02; done")
        .env("FERROLOCK_URL", stage.url())
        .current_dir(stage.folder());
    let run = Run::start(&mut command);
    stage.wait_for("up");

    run.signal(Signal::HUP);
    run.signal(Signal::USR1);

    let ended = run.end();
    assert_eq!(ended.code, 3, "{ended:?}");
    let mask = ended.output.split_whitespace().last().unwrap();
    assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 1, 1, "{ended:?}");
}

fn signals_do_not_end_the_shim(stage: &Stage) {
    let run = stage.script(
        "x",
        "trap 'exit 5' USR1; echo up > up; while :; do sleep 0.02; done",
    );
    stage.wait_for("up");
    let shim = run.shim();

    for (signal, ..) in ALL {
        rustix::process::kill_process(shim, signal).unwrap();
    }

    // It has a session of its own, so a signal to our group or from our terminal would not reach it either.
    assert_eq!(rustix::process::getsid(Some(shim)).unwrap(), shim);
    assert!(is_alive(shim.as_raw_pid()));
    run.signal(Signal::USR1);
    assert_eq!(run.end().code, 5);
    assert!(!is_alive(shim.as_raw_pid()), "the shim ends with the run");
}
