//! Signals are passed on to the command while it runs, and end a `ferrolock` that waits.

use rustix::process::Signal;
use testkit::{LIMIT, eventually};

use crate::run::{Run, is_alive};
use crate::stage::Stage;

stories!(
    every_signal_is_passed_on_to_the_command,
    tstp_and_cont_are_passed_on_to_the_command,
    a_signal_while_waiting_ends_the_wait_and_the_command_never_runs,
    a_signal_that_ferrolock_was_started_to_ignore_stays_ignored,
    a_signal_that_was_blocked_at_the_start_is_passed_on,
    signals_do_not_end_the_shim,
);

/// If set, this process becomes `ferrolock` with all signals blocked, and runs this script.
const BLOCKED: &str = "FERROLOCK_TEST_BLOCKED";

const ALL: [Signal; 15] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::TERM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::XCPU,
    Signal::XFSZ,
    Signal::IO,
    Signal::URG,
    Signal::POWER,
    Signal::WINCH,
];

fn every_signal_is_passed_on_to_the_command(stage: &Stage) {
    let traps: String = ALL
        .iter()
        .map(|signal| signal.as_raw())
        .map(|number| format!("trap 'echo :{number}: >> heard' {number}; "))
        .collect();
    let run = stage.script(
        "x",
        &format!("{traps} echo up > up; while :; do sleep 0.02; done"),
    );
    stage.wait_for("up");

    for signal in ALL {
        run.signal(signal);

        let line = format!(":{}:\n", signal.as_raw());
        eventually(LIMIT, &line, || stage.read("heard").ends_with(&line));
    }
    assert_eq!(stage.read("heard").lines().count(), ALL.len());
}

fn tstp_and_cont_are_passed_on_to_the_command(stage: &Stage) {
    // The script waits without a child: TSTP would stop one, and it would not go on.
    rustix_fifo(stage, "never");
    let run = stage.script(
        "x",
        "trap 'echo TSTP >> heard' TSTP; trap 'echo CONT >> heard' CONT; echo up > up; \
         while :; do read _ <> never; done",
    );
    stage.wait_for("up");

    for (signal, line) in [(Signal::TSTP, "TSTP\n"), (Signal::CONT, "CONT\n")] {
        run.signal(signal);

        eventually(LIMIT, line, || stage.read("heard").ends_with(line));
    }
}

fn a_signal_while_waiting_ends_the_wait_and_the_command_never_runs(stage: &Stage) {
    rustix_fifo(stage, "go");
    let holder = stage.script("x", "echo up > up; read _ < go");
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

/// Makes a named pipe, before a process looks for it.
fn rustix_fifo(stage: &Stage, name: &str) {
    let made = std::process::Command::new("mkfifo")
        .arg(stage.path(name))
        .status();
    assert!(made.unwrap().success());
}

fn a_signal_that_ferrolock_was_started_to_ignore_stays_ignored(stage: &Stage) {
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

fn a_signal_that_was_blocked_at_the_start_is_passed_on(stage: &Stage) {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["signals::blocked", "--exact", "--nocapture"])
        .env(
            BLOCKED,
            "trap 'exit 5' USR1; echo up > up; while :; do sleep 0.02; done",
        )
        .env("FERROLOCK_URL", stage.url())
        .current_dir(stage.folder());
    let run = Run::start(&mut command);
    stage.wait_for("up");

    run.signal(Signal::USR1);

    assert_eq!(run.end().code, 5);
}

/// Not a test: the process that becomes a `ferrolock` with all signals blocked.
#[test]
fn blocked() {
    let Ok(script) = std::env::var(BLOCKED) else {
        return;
    };
    nix::sys::signal::SigSet::all().thread_block().unwrap();
    let words = [
        env!("CARGO_BIN_EXE_ferrolock"),
        "run",
        "x",
        "--",
        "sh",
        "-c",
        &script,
    ];
    let words = words.map(|word| std::ffi::CString::new(word).unwrap());
    let why = nix::unistd::execv(&words[0], &words).unwrap_err();
    panic!("cannot become ferrolock: {why}");
}

fn signals_do_not_end_the_shim(stage: &Stage) {
    let run = stage.script(
        "x",
        "trap 'exit 5' USR1; echo up > up; while :; do sleep 0.02; done",
    );
    stage.wait_for("up");
    let shim = run.shim();

    for signal in ALL {
        rustix::process::kill_process(shim, signal).unwrap();
    }

    // It has a session of its own, so a signal to our group or from our terminal would not reach it either.
    assert_eq!(rustix::process::getsid(Some(shim)).unwrap(), shim);
    assert!(is_alive(shim.as_raw_pid()));
    run.signal(Signal::USR1);
    assert_eq!(run.end().code, 5);
    assert!(!is_alive(shim.as_raw_pid()), "the shim ends with the run");
}
