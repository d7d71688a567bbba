//! The store that is used without `--url` and `FERROLOCK_URL`.

use std::path::Path;
use std::process::Command;

use crate::run::{Ended, Run};
use crate::stage::ferrolock;

const SCRIPT: [&str; 4] = ["--", "sh", "-c", "echo $FERROLOCK_ADDRESS"];

fn run(mut command: Command) -> Ended {
    let name = format!("ferrolock-test-{}", std::process::id());
    Run::start(command.args(["run", &name]).args(SCRIPT)).end()
}

#[test]
fn a_login_shell_an_empty_environment_and_cron_use_one_store() {
    let login = ferrolock();
    let mut empty = ferrolock();
    empty.env_clear();
    let mut cron = ferrolock();
    cron.env_clear()
        .env("HOME", "/var/spool/elsewhere")
        .env("LOGNAME", "nobody")
        .env("PATH", "/usr/bin:/bin")
        .env("SHELL", "/bin/sh");
    let mut desktop = ferrolock();
    desktop
        .env("XDG_STATE_HOME", "/nowhere")
        .env("HOME", "/nowhere");

    let met: Vec<Ended> = [login, empty, cron, desktop].into_iter().map(run).collect();

    for ended in &met {
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.output, met[0].output);
        assert!(ended.output.starts_with("file:/"), "{ended:?}");
        assert!(
            ended.output.ends_with("/.local/state/ferrolock\n"),
            "{ended:?}"
        );
    }
}

/// Only root can become a user that the user database does not know.
#[test]
fn the_error_for_a_user_without_an_entry_suggests_a_url() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        testkit::left_out(
            "without root",
            "it needs root to become a user without an entry\n",
        );
        return;
    }
    // Other users cannot reach the program where it was built.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("ferrolock");
    copy(env!("CARGO_BIN_EXE_ferrolock").as_ref(), &program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let mut command = Command::new(&program);
    command
        .uid(3_999_999_999)
        .current_dir("/")
        .env_remove("FERROLOCK_URL");

    let ended = run(command);

    assert_eq!(ended.code, 69);
    assert!(ended.error_line().contains("--url file:PATH"), "{ended:?}");
}

/// Copies by another process: a process that another test starts just then would inherit our handle that writes to the
/// program, and as long as a process has such a handle, the program cannot be executed.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args([from, to]).status();
    assert!(copied.unwrap().success());
}
