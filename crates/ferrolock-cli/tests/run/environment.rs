//! What `ferrolock` adds to the command's environment, and what it passes on unchanged.

use std::io::Write;
use std::process::Stdio;

use testkit::{Kind, Server};

use crate::run::Run;
use crate::stage::Stage;

stories!(
    the_command_has_variables_about_its_lock,
    the_commands_streams_folder_and_arguments_are_passed_on_unchanged,
    the_command_leads_a_group_of_its_own_in_our_session,
);

fn the_command_has_variables_about_its_lock(stage: &Stage) {
    let script =
        "echo $FERROLOCK_NAME; echo $FERROLOCK_OWNER; echo $FERROLOCK_ADDRESS; echo $FERROLOCK_URL";

    let ended = stage.run(&["a name", "--", "sh", "-c", script]);

    let lines: Vec<&str> = ended.output.lines().collect();
    let [name, owner, address, url] = lines[..] else {
        panic!("{ended:?}");
    };
    assert_eq!((name, address, url), ("a name", stage.url(), stage.url()));
    owner.parse::<ferrolock::OwnerId>().unwrap();
}

fn the_commands_streams_folder_and_arguments_are_passed_on_unchanged(stage: &Stage) {
    let mut command = stage.command(&["run", "x", "--", "sh", "-c"]);
    command.args([
        r#"cat; printf '%s|' "$0" "$@"; pwd; echo oops >&2"#,
        "zero",
        "--try",
        "",
        "a b",
        "--",
    ]);
    let (input, mut given) = std::io::pipe().unwrap();
    let run = Run::start(command.stdin(input));

    given.write_all(b"given\n").unwrap();
    drop(given);
    let ended = run.end();

    let folder = stage.folder().canonicalize().unwrap();
    let expected = format!("given\nzero|--try||a b|--|{}\n", folder.display());
    assert_eq!((ended.output, ended.errors.as_str()), (expected, "oops\n"));
}

fn the_command_leads_a_group_of_its_own_in_our_session(stage: &Stage) {
    let ended = stage.run(&[
        "x",
        "--",
        "sh",
        "-c",
        "echo $$; cut -d' ' -f5,6 /proc/$$/stat",
    ]);

    let words: Vec<&str> = ended.output.split_whitespace().collect();
    assert_eq!(words[0], words[1]);
    // Zero if its leader is outside of our namespace, which functions that return a `Pid` cannot return.
    let own = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, own) = own.rsplit_once(") ").unwrap();
    assert_eq!(words[2], own.split(' ').nth(3).unwrap());
}

/// As `3< file` in a shell.
#[test]
fn a_handle_that_is_passed_on_reaches_the_command() {
    let stage = Stage::file();
    std::fs::write(stage.path("given"), "passed on\n").unwrap();
    let mut command = std::process::Command::new("sh");
    command
        .args([
            "-c",
            "exec \"$@\" 7< given",
            "sh",
            env!("CARGO_BIN_EXE_ferrolock"),
        ])
        .args(["run", "x", "--", "sh", "-c", "cat <&7"])
        .env("FERROLOCK_URL", stage.url())
        .current_dir(stage.folder());

    let ended = Run::start(&mut command).end();

    assert_eq!(ended.output, "passed on\n", "{ended:?}");
}

/// The command inherits what the tests' own parents left open, with and without `ferrolock`. It would also inherit what other
/// tests leave open in their process, for they open stores.
#[test]
fn the_command_inherits_no_handle_of_ours() {
    testkit::process::alone(|| {
        let stage = Stage::file();
        let script = "ls /proc/$$/fd";

        let ended = stage.run(&["x", "--", "sh", "-c", script]);

        let mut plain = std::process::Command::new("sh");
        let plain = plain
            .args(["-c", script])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert_eq!(ended.output, String::from_utf8(plain.stdout).unwrap());
    });
}

#[test]
fn credentials_are_passed_on_in_the_url_only() {
    if !Kind::Redis.is_here() {
        return;
    }
    let server = Server::builder(Kind::Redis).requirepass("secret").start();
    let stage = Stage::on(server.url(), None);

    let ended = stage.run(&[
        "-v",
        "x",
        "--",
        "sh",
        "-c",
        "echo $FERROLOCK_URL; echo $FERROLOCK_ADDRESS",
    ]);

    let shown = format!("redis://127.0.0.1:{}", server.port());
    assert_eq!(ended.output, format!("{}\n{shown}\n", server.url()));
    assert!(!ended.errors.contains("secret"), "{ended:?}");
    assert!(ended.errors.contains(&shown), "{ended:?}");
}

#[test]
fn the_option_url_wins_over_the_variable() {
    let (named, other) = (Stage::file(), Stage::file());

    let ended = other.run(&[
        "--url",
        named.url(),
        "x",
        "--",
        "sh",
        "-c",
        "echo $FERROLOCK_ADDRESS $FERROLOCK_URL",
    ]);

    assert_eq!(ended.output, format!("{} {}\n", named.url(), other.url()));
}
