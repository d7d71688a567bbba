//! Every exit code, with the one line that goes with it.

use std::process::Command;

use crate::run::Run;
use crate::stage::{Stage, ferrolock};

stories!(
    a_run_ends_with_the_commands_own_code,
    a_command_that_a_signal_ended_gives_128_and_the_signal,
    a_busy_lock_is_75_without_waiting,
    a_lock_that_stays_busy_is_75_after_the_wait,
    a_wait_of_zero_is_a_try,
    the_code_for_a_busy_lock_can_be_chosen,
    a_command_that_is_not_there_is_127_and_one_that_is_not_executable_126,
    a_command_that_the_system_refuses_leaves_the_lock_free,
    a_command_with_longer_arguments_than_the_system_allows_is_126,
    wrong_arguments_are_64,
    a_nested_run_of_the_same_name_is_64_at_once,
    a_nested_run_is_64_through_any_number_of_levels,
    a_nested_run_of_another_name_works,
    with_hold_after_the_lock_stays_taken_after_success_only,
    with_quiet_nothing_is_printed_about_a_busy_lock,
);

fn a_run_ends_with_the_commands_own_code(stage: &Stage) {
    for code in [0, 1, 7, 64, 76, 255] {
        let ended = stage.run(&["x", "--", "sh", "-c", &format!("echo out; exit {code}")]);

        assert_eq!(ended.code, code);
        assert_eq!(ended.output, "out\n");
        assert_eq!(ended.errors, "");
    }
}

fn a_command_that_a_signal_ended_gives_128_and_the_signal(stage: &Stage) {
    for signal in [1, 2, 9, 15] {
        let ended = stage.run(&["x", "--", "sh", "-c", &format!("kill -{signal} $$")]);

        assert_eq!(ended.code, 128 + signal);
        assert!(stage.is_free("x"));
    }
}

fn a_busy_lock_is_75_without_waiting(stage: &Stage) {
    let holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");

    let ended = stage.run(&["--try", "x", "--", "touch", "ran"]);

    assert_eq!(ended.code, 75);
    let line = ended.error_line();
    assert!(line.contains("\"x\" is busy: held by sh on"), "{line}");
    assert!(
        line.contains(&holder.pid().as_raw_pid().to_string()),
        "{line}"
    );
    assert!(!stage.path("ran").exists());
}

fn a_lock_that_stays_busy_is_75_after_the_wait(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");

    // Connecting counts, and must be done within that time.
    let ended = stage.run(&["--wait", "2s", "x", "--", "touch", "ran"]);

    assert_eq!(ended.code, 75);
    assert!(ended.error_line().contains("is busy"));
    assert!(!stage.path("ran").exists());
}

fn a_wait_of_zero_is_a_try(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");

    let busy = stage.run(&["--wait", "0s", "x", "--", "touch", "ran"]);
    let free = stage.run(&["--wait", "0s", "y", "--", "true"]);

    assert_eq!((busy.code, free.code), (75, 0), "{busy:?} {free:?}");
    assert!(!stage.path("ran").exists());
}

fn the_code_for_a_busy_lock_can_be_chosen(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");

    for code in ["0", "9", "255"] {
        let words = ["--try", "--conflict-exit-code", code, "x", "--", "true"];
        assert_eq!(stage.run(&words).code.to_string(), code);
    }
    let words = [
        "--wait",
        "2s",
        "--conflict-exit-code",
        "9",
        "x",
        "--",
        "true",
    ];
    assert_eq!(stage.run(&words).code, 9);
}

fn a_command_that_is_not_there_is_127_and_one_that_is_not_executable_126(stage: &Stage) {
    std::fs::write(stage.path("plain"), "").unwrap();
    // That the lock is busy does not matter: the command is looked for first.
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");
    let cases = [
        ("no-such-command", 127),
        ("./no-such-file", 127),
        ("./plain", 126),
        (".", 127),
        ("./", 126),
    ];
    for (command, code) in cases {
        let ended = stage.run(&["x", "--", command]);

        assert_eq!(ended.code, code, "{ended:?}");
        assert!(ended.error_line().starts_with("ferrolock: "));
    }
}

fn a_command_that_the_system_refuses_leaves_the_lock_free(stage: &Stage) {
    // Another process writes it: the system does not run a script that is open for writing, and a child of another test may
    // have inherited a handle of ours.
    let write = "echo '#!/no/such/interpreter' > script && chmod 755 script";
    let written = Command::new("sh")
        .args(["-c", write])
        .current_dir(stage.folder())
        .status();
    assert!(written.unwrap().success());

    let ended = stage.run(&["--lease", "1h", "x", "--", "./script"]);

    assert_eq!(ended.code, 127);
    assert!(ended.error_line().contains("cannot be executed"));
    assert!(stage.is_free("x"));
}

/// The arguments just fit for `ferrolock`, but not for the gate, which gets a few more of ours.
fn a_command_with_longer_arguments_than_the_system_allows_is_126(stage: &Stage) {
    let command = |length: usize| {
        let mut command = stage.command(&["run", "--lease", "1h", "x", "--", "true"]);
        let part = 100_000;
        command.args(vec!["x".repeat(part); length / part]);
        command.arg("x".repeat(length % part));
        command
    };
    let (mut fits, mut too_long) = (0_usize, 64_000_000);
    while too_long - fits > 1 {
        let length = fits.midpoint(too_long);
        let started = command(length).stderr(std::process::Stdio::null()).spawn();
        match started {
            Ok(mut child) => {
                let has_ended = || child.try_wait().unwrap().is_some();
                testkit::eventually(testkit::LIMIT, "its end", has_ended);
                fits = length;
            }
            Err(_) => too_long = length,
        }
    }

    let ended = Run::start(&mut command(fits)).end();

    assert_eq!(ended.code, 126, "{}", ended.errors);
    assert!(ended.error_line().contains("cannot be executed"));
    assert!(stage.is_free("x"));
}

fn wrong_arguments_are_64(stage: &Stage) {
    let cases: [&[&str]; 17] = [
        &["--lease", "11years", "x", "--", "true"],
        &["--max-hold", "11years", "x", "--", "true"],
        &["--wait", "11years", "x", "--", "true"],
        &["x", "echo", "hi"],
        &["--hold-after", "11years", "x", "--", "true"],
        &["x"],
        &["--", "true"],
        &["--no-such-option", "x", "--", "true"],
        &["--lease", "soon", "x", "--", "true"],
        &["--lease", "500ms", "x", "--", "true"],
        &["--grace", "16s", "x", "--", "true"],
        &["--grace", "5s", "--max-hold", "5s", "x", "--", "true"],
        &["--on-lost", "pray", "x", "--", "true"],
        &["--conflict-exit-code", "256", "x", "--", "true"],
        &["--try", "--wait", "1s", "x", "--", "true"],
        &["", "--", "true"],
        &["--url", "gopher://x", "x", "--", "true"],
    ];
    for words in cases {
        let ended = stage.run(words);

        assert_eq!(ended.code, 64, "{words:?} {ended:?}");
        assert!(ended.error_line().starts_with("ferrolock: "));
    }
}

fn a_nested_run_of_the_same_name_is_64_at_once(stage: &Stage) {
    let inner = env!("CARGO_BIN_EXE_ferrolock");

    let ended = stage.run(&["x", "--", inner, "run", "x", "--", "touch", "ran"]);

    assert_eq!(ended.code, 64);
    assert!(ended.error_line().contains("wait for itself"));
    assert!(!stage.path("ran").exists());
}

fn a_nested_run_is_64_through_any_number_of_levels(stage: &Stage) {
    let inner = env!("CARGO_BIN_EXE_ferrolock");
    let words = [
        "x", "--", inner, "run", "y", "--", inner, "run", "z", "--", inner, "run", "x", "--",
        "true",
    ];

    let ended = stage.run(&words);

    assert_eq!(ended.code, 64);
    assert!(ended.error_line().contains("\"x\""), "{ended:?}");
}

fn a_nested_run_of_another_name_works(stage: &Stage) {
    let inner = env!("CARGO_BIN_EXE_ferrolock");

    let ended = stage.run(&["x", "--", inner, "run", "y", "--", "echo", "inside"]);

    assert_eq!((ended.code, ended.output.as_str()), (0, "inside\n"));
}

fn with_hold_after_the_lock_stays_taken_after_success_only(stage: &Stage) {
    let failed = stage.run(&["--hold-after", "10m", "x", "--", "false"]);
    let succeeded = stage.run(&["--try", "--hold-after", "10m", "x", "--", "true"]);

    assert_eq!((failed.code, succeeded.code), (1, 0));
    assert!(!stage.is_free("x"));
}

fn with_quiet_nothing_is_printed_about_a_busy_lock(stage: &Stage) {
    let _holder = stage.script("x", "echo up > up; sleep 1000");
    stage.wait_for("up");

    let busy = stage.run(&["--quiet", "--try", "x", "--", "true"]);
    let wrong = stage.run(&["--quiet", "y", "--", "no-such-command"]);

    assert_eq!((busy.code, busy.errors.as_str()), (75, ""));
    assert_eq!(wrong.code, 127);
    assert!(wrong.error_line().contains("not found"));
}

#[test]
fn a_server_that_is_not_there_is_69() {
    let mut command = ferrolock();
    command.args([
        "run",
        "--url",
        "redis://127.0.0.1:1",
        "x",
        "--",
        "touch",
        "ran",
    ]);

    let ended = Run::start(&mut command).end();

    assert_eq!(ended.code, 69);
    assert!(ended.error_line().contains("redis://127.0.0.1:1"));
}

#[test]
fn a_store_that_cannot_be_made_is_69() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let url = format!("file:{}/store", file.display());

    let ended = Run::start(ferrolock().args(["run", "--url", &url, "x", "--", "true"])).end();

    assert_eq!(ended.code, 69, "{ended:?}");
    assert!(ended.error_line().contains(file.to_str().unwrap()));
}

#[test]
fn a_server_that_wants_another_password_is_69() {
    if !testkit::Kind::Redis.is_here() {
        return;
    }
    let server = testkit::Server::builder(testkit::Kind::Redis)
        .requirepass("secret")
        .start();
    let url = server.url().replace("secret", "geheim");

    let ended = Run::start(ferrolock().args(["run", "--url", &url, "x", "--", "true"])).end();

    assert_eq!(ended.code, 69);
    assert!(!ended.error_line().contains("geheim"), "{ended:?}");
}
