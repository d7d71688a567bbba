//! The examples in the docs, which have a harness of their own: it reports no times.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::record::{BinaryRun, End, Outcome, TestRun};
use super::{Manner, Suite, judged};

/// Used instead of a binary's name.
const DOCS: &str = "docs";

pub(super) fn run(
    suite: &Suite<'_>,
    limit: Option<Duration>,
    manner: &Manner,
) -> (BinaryRun, Result<(), String>) {
    let mut run = BinaryRun {
        binary: DOCS.to_owned(),
        ..BinaryRun::default()
    };
    let done = suite
        .test(&["--doc"], manner)
        .and_then(|mut command| watch(&mut command, limit, manner, &mut run));
    (run, done)
}

/// Runs it and records the tests; after the limit it is killed, with all processes it started.
fn watch(
    command: &mut Command,
    limit: Option<Duration>,
    manner: &Manner,
    run: &mut BinaryRun,
) -> Result<(), String> {
    if limit.is_some() {
        group(command);
    }
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("`cargo test --doc` cannot be started: {why}"))?;
    let output = child.stdout.take();
    let killer = limit.map(|limit| Killer::start(&child, limit));
    for line in lines(output) {
        show(&line, manner);
        run.tests.extend(test(&line));
    }
    let status = child.wait();
    if let Some(killer) = killer
        && killer.was_needed()
    {
        let seconds = limit.unwrap_or_default().as_secs();
        run.end = End::Hung { seconds };
        run.tests.push(TestRun {
            name: "an example that had not ended".to_owned(),
            outcome: Outcome::Unfinished,
            seconds: None,
        });
        return Err(format!("`cargo test --doc` was killed after {seconds} s"));
    }
    judged("cargo test --doc", status)
}

/// Gives it a group of its own, so that it can be killed as a whole. Only if there is a limit: Ctrl-C does not reach another
/// group.
#[cfg(unix)]
fn group(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    command.process_group(0);
}

#[cfg(not(unix))]
fn group(_: &mut Command) {}

fn lines(output: Option<impl Read>) -> impl Iterator<Item = String> {
    output
        .into_iter()
        .flat_map(|output| BufReader::new(output).lines().map_while(Result::ok))
}

fn show(line: &str, manner: &Manner) {
    match manner {
        Manner::Watched => println!("{line}"),
        // A full disk does not stop the tests.
        Manner::Logged(file) => {
            let mut file = file;
            let _ = writeln!(file, "{line}");
        }
    }
}

/// The test in a line such as `test src/lib.rs - Client (line 12) ... ok`.
fn test(line: &str) -> Option<TestRun> {
    let (name, word) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
    let outcome = match word {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Ignored,
        _ => return None,
    };
    Some(TestRun {
        name: name.to_owned(),
        outcome,
        seconds: None,
    })
}

/// Kills a group of processes after the limit, unless `was_needed` is called before.
struct Killer {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<bool>,
}

impl Killer {
    fn start(child: &Child, limit: Duration) -> Self {
        let group = format!("-{}", child.id());
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let is_late = stopped.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_late {
                let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            }
            is_late
        });
        Self { stop, thread }
    }

    fn was_needed(self) -> bool {
        drop(self.stop);
        self.thread.join().unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_outcome_of_a_test_are_read_from_its_line() {
        let line = "test crates/ferrolock/src/lib.rs - Client::lock (line 12) ... ok";

        let test = test(line).unwrap();

        assert_eq!(
            test.name,
            "crates/ferrolock/src/lib.rs - Client::lock (line 12)"
        );
        assert_eq!(test.outcome, Outcome::Passed);
    }

    #[test]
    fn other_lines_are_no_tests() {
        for line in [
            "running 3 tests",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured",
            "",
        ] {
            assert_eq!(test(line), None, "{line}");
        }
    }

    fn watched(script: &str, limit: Duration) -> (BinaryRun, Result<(), String>) {
        let mut run = BinaryRun::default();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let done = watch(&mut command, Some(limit), &Manner::Watched, &mut run);
        (run, done)
    }

    #[test]
    fn a_run_within_the_limit_is_recorded_as_it_ended() {
        let (run, done) = watched("echo 'test a ... FAILED'; exit 101", Duration::MAX);

        assert!(done.is_err());
        assert_eq!(run.end, End::Whole);
        assert_eq!(run.tests.len(), 1);
    }

    /// The grandchild holds the pipe: if only the child were killed, this would hang.
    #[test]
    fn a_run_that_hangs_is_killed_with_all_it_started() {
        let (run, done) = watched("sleep 1000 & wait", Duration::from_millis(50));

        assert!(done.is_err());
        assert_eq!(run.end, End::Hung { seconds: 0 });
        assert_eq!(run.tests.last().unwrap().outcome, Outcome::Unfinished);
    }
}
