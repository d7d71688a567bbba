//! A test in a process of its own.

use super::{MARK, parents_lines};
use crate::wait::{LIMIT, PAUSE};
use std::env;
use std::fs::read_to_string;
use std::io::{Write, stdout};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const ALONE: &str = "FERROLOCK_TEST_ALONE";

/// The limit of a whole test, and not of a single wait in it.
const HANGS: Duration = LIMIT.saturating_mul(10);

/// What the child sends when the body has returned.
const DONE: &str = "done alone";

/// Runs the body of a test in a process of its own, where it may change the state of the whole process.
///
/// A test calls it once, directly, and has everything in the body. The test binary is started again for this test only, and
/// the body runs there. If the body fails, the test fails here, and shows what the body printed. It also fails if the body
/// does not return, even if the process ended successfully. The body has no standard input of its own, and ends with the
/// process that waits for it.
#[track_caller]
pub fn alone(body: impl FnOnce()) {
    // The harness gives each test a thread with the test's name.
    let test = thread::current().name().expect("a test").to_owned();
    assert_ne!(
        test, "main",
        "its name is not known with one test thread: use --test-threads=2"
    );
    if env::var(ALONE).is_ok_and(|told| told == test) {
        parents_lines();
        body();
        say_done();
    } else {
        elsewhere(&test);
    }
}

fn say_done() {
    let mut output = stdout().lock();
    write!(output, "\n{MARK}{DONE}\n")
        .and_then(|()| output.flush())
        .expect("a file");
}

#[track_caller]
fn elsewhere(test: &str) {
    // Not a pipe: a process that the body leaves behind would keep it open.
    let printed = tempfile::NamedTempFile::new().expect("a file for what is printed");
    let mut child = Command::new(env::current_exe().expect("the running program"))
        .args([test, "--exact", "--include-ignored"])
        .env(ALONE, test)
        .stdin(Stdio::piped())
        .stdout(printed.reopen().expect("the same file"))
        .spawn()
        .expect("the test binary starts again");
    let ended = end_of(&mut child);
    let printed = read_to_string(printed.path()).unwrap_or_default();
    let done = format!("{MARK}{DONE}");
    let is_done = printed.lines().any(|line| line == done);
    if !is_done || !ended.is_some_and(|status| status.success()) {
        let how = ended.map_or("killed after its limit".to_owned(), |ended| {
            ended.to_string()
        });
        panic!("alone, it did not pass ({how}); it printed:\n{printed}");
    }
}

/// How it ended; `None` if it had to be killed because it did not end.
fn end_of(child: &mut Child) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < HANGS {
        let ended = child.try_wait().expect("a process of ours");
        if ended.is_some() {
            return ended;
        }
        thread::sleep(PAUSE);
    }
    child.kill().expect("a process of ours");
    child.wait().expect("a process of ours");
    None
}
