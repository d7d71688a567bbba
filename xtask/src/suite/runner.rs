//! The program that Cargo starts for each test binary (its "runner"): runs it, shows its tests, and records them.
//!
//! The harness reports times and the starts of tests only in JSON, and JSON only with `RUSTC_BOOTSTRAP`. That is set for the
//! test binary alone: with it, a build would not reuse what was built without it.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::events::{self, Event};
use super::record::{BinaryRun, End, Outcome, TestRun};
use super::screen::Screen;
use crate::shell;

/// With this argument this program is the runner.
pub(crate) const WORD: &str = "--runner";

/// The variable with the order, which Cargo passes on.
pub(super) const ORDER: &str = "FERROLOCK_XTASK_ORDER";

/// Begins a line in which a test says what it does not test.
const LEFT_OUT: &str = "NOT RUN ";

/// How often we check whether the binary has ended, while it prints nothing.
const LOOK: Duration = Duration::from_millis(100);

/// How long we read on after the binary has ended, if a process that it left behind keeps the output open.
const ECHO: Duration = Duration::from_secs(2);

/// The name in the report if the binary crashed or hung while no test ran.
const NO_TEST: &str = "(no test ran then)";

/// The exit code of a harness with a failed test; we also use it for a binary that crashed or hung.
const FAILED: u8 = 101;

/// How the tests are to be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// Where the outcome is written to.
    pub(crate) record: PathBuf,
    /// Only tests whose path contains one of these, if there are any.
    pub(crate) filters: Vec<String>,
    /// After this time a binary is killed.
    pub(crate) limit: Option<Duration>,
}

/// Runs the binary with Cargo's arguments; returns its exit code.
pub(crate) fn run(binary: &str, args: &[&str]) -> ExitCode {
    match ordered(binary, args) {
        Ok(code) => ExitCode::from(code),
        Err(why) => {
            eprintln!("{binary}: {why}");
            ExitCode::from(FAILED)
        }
    }
}

fn ordered(binary: &str, args: &[&str]) -> Result<u8, String> {
    let order = std::env::var(ORDER).map_err(|_| format!("{ORDER} is not set"))?;
    let order: Order = serde_json::from_str(&order).map_err(|why| why.to_string())?;
    let file = Path::new(binary).file_name().unwrap_or_default();
    let file = file.to_string_lossy();
    let name = name(&file);
    let mut command = shell::with_default_signals(Command::new(binary));
    command.args(args).env_remove(ORDER);
    if !order.filters.is_empty() {
        let tests = asked_for(binary, &name, &order.filters)?;
        if tests.is_empty() {
            return Ok(0);
        }
        command.arg("--exact").args(tests);
    }
    let output = io::stdout();
    let mut screen = Screen::new(&output, output.is_terminal());
    let is_late = |runs_for| order.limit.is_some_and(|limit| runs_for >= limit);
    let watched = watch(in_json(&mut command), is_late, &mut screen)?;
    let run = BinaryRun {
        binary: name,
        ..watched.run
    };
    run.write(&order.record, &file)?;
    Ok(watched.code)
}

/// Package and binary; Cargo puts a hash behind the name.
fn name(file: &str) -> String {
    let binary = file.rsplit_once('-').map_or(file, |(name, _)| name);
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    format!("{package}/{binary}")
}

/// The tests whose path, which begins with the binary's name, contains one of the filters.
fn asked_for(binary: &str, name: &str, filters: &[String]) -> Result<Vec<String>, String> {
    let listing = shell::read(Command::new(binary).args(["--list", "--format", "terse"]))?;
    Ok(listing
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .filter(|test| {
            let path = format!("{name}::{test}");
            filters.iter().any(|filter| path.contains(filter))
        })
        .map(str::to_owned)
        .collect())
}

fn in_json(command: &mut Command) -> &mut Command {
    command
        .args(["-Z", "unstable-options", "--format", "json"])
        .arg("--report-time")
        .env("RUSTC_BOOTSTRAP", "1")
}

/// The outcome of a binary.
struct Watched {
    /// All but its name.
    run: BinaryRun,
    code: u8,
}

/// Runs it, shows its tests, and kills it when it has run for too long.
fn watch<W: Write>(
    command: &mut Command,
    is_late: impl Fn(Duration) -> bool,
    screen: &mut Screen<W>,
) -> Result<Watched, String> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| format!("it cannot be started: {why}"))?;
    let heard = listen(child.stdout.take(), child.stderr.take());
    let begun = now();
    let mut tally = Tally::default();
    let mut ended: Option<(ExitStatus, Instant)> = None;
    let mut hung = None;
    loop {
        match heard.recv_timeout(LOOK) {
            Ok(line) => tally.take(line, screen),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if ended.is_none() {
            let status = child.try_wait().map_err(|why| why.to_string())?;
            ended = status.map(|status| (status, now()));
        }
        if ended.is_some_and(|(_, when)| when.elapsed() >= ECHO) {
            break;
        }
        if hung.is_none() && is_late(begun.elapsed()) {
            hung = Some(begun.elapsed().as_secs());
            child.kill().map_err(|why| why.to_string())?;
        }
    }
    let status = child.wait().map_err(|why| why.to_string())?;
    let end = match (hung, tally.is_done) {
        (Some(seconds), _) => End::Hung { seconds },
        (None, true) => End::Whole,
        (None, false) => End::Crashed(status.to_string()),
    };
    tell(&end, &tally.running, screen);
    let code = match end {
        End::Whole => status.code().and_then(|code| u8::try_from(code).ok()),
        End::Crashed(_) | End::Hung { .. } => None,
    };
    Ok(Watched {
        run: tally.into_run(end),
        code: code.unwrap_or(FAILED),
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time of a process that is not ours"
)]
fn now() -> Instant {
    Instant::now()
}

/// Prints what happened to a binary that crashed or hung.
fn tell<W: Write>(end: &End, running: &BTreeSet<String>, screen: &mut Screen<W>) {
    let how = match end {
        End::Whole => return,
        End::Crashed(how) => format!("the test binary ended before its tests did ({how})"),
        End::Hung { seconds } => format!("the test binary was killed after {seconds} s"),
    };
    let names: Vec<&str> = running.iter().map(String::as_str).collect();
    screen.print(&format!("\n{how}; running were: {}\n\n", names.join(", ")));
}

enum Line {
    Output(String),
    LeftOut(String),
}

/// Reads both streams line by line; the channel ends when both have ended.
fn listen(
    output: Option<impl Read + Send + 'static>,
    errors: Option<impl Read + Send + 'static>,
) -> Receiver<Line> {
    let (sender, heard) = mpsc::channel();
    let also = sender.clone();
    thread::spawn(move || each_line(output, |line| send(&sender, Line::Output(line))));
    thread::spawn(move || {
        each_line(errors, |line| {
            eprint!("{line}");
            match line.starts_with(LEFT_OUT) {
                true => send(&also, Line::LeftOut(line.trim_end().to_owned())),
                false => true,
            }
        });
    });
    heard
}

fn send(sender: &Sender<Line>, line: Line) -> bool {
    sender.send(line).is_ok()
}

/// Hands over each line with its line break, until `hand_over` returns false.
fn each_line(stream: Option<impl Read>, mut hand_over: impl FnMut(String) -> bool) {
    let Some(stream) = stream else { return };
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream
        .read_until(b'\n', &mut line)
        .is_ok_and(|count| count > 0)
    {
        if !hand_over(String::from_utf8_lossy(&line).into_owned()) {
            return;
        }
        line.clear();
    }
}

/// The tests so far.
#[derive(Default)]
struct Tally {
    running: BTreeSet<String>,
    tests: Vec<TestRun>,
    left_out: Vec<String>,
    is_done: bool,
}

impl Tally {
    fn take<W: Write>(&mut self, line: Line, screen: &mut Screen<W>) {
        let line = match line {
            Line::Output(line) => line,
            Line::LeftOut(line) => return self.left_out.push(line),
        };
        let (printed, event) = events::read(&line);
        screen.print(printed);
        let Some(event) = event else { return };
        screen.show(&event);
        match event {
            Event::Started(name) => {
                self.running.insert(name);
            }
            Event::Ended(ended) => {
                self.running.remove(&ended.name);
                self.tests.push(TestRun {
                    name: ended.name,
                    outcome: ended.outcome,
                    seconds: ended.seconds,
                });
            }
            Event::Done { .. } => self.is_done = true,
            Event::Begun(_) | Event::Slow(_) => {}
        }
    }

    fn into_run(self, end: End) -> BinaryRun {
        let mut running = self.running;
        if running.is_empty() && end != End::Whole {
            running.insert(NO_TEST.to_owned());
        }
        let unfinished = running.into_iter().map(|name| TestRun {
            name,
            outcome: Outcome::Unfinished,
            seconds: None,
        });
        BinaryRun {
            binary: String::new(),
            tests: self.tests.into_iter().chain(unfinished).collect(),
            left_out: self.left_out,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    const BEGUN: &str = r#"echo '{ "type": "suite", "event": "started", "test_count": 2 }'"#;
    const STARTED: &str = r#"echo '{ "type": "test", "event": "started", "name": "a" }'"#;

    /// The output so far, which can be read while more is written.
    #[derive(Clone, Default)]
    struct Shown(Rc<RefCell<Vec<u8>>>);

    impl Shown {
        fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    impl Write for Shown {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// When the binary has printed this, its limit counts as over.
    const LATE: &str = "it is late";

    fn watched(command: &mut Command) -> (Watched, String) {
        let shown = Shown::default();
        let mut screen = Screen::new(shown.clone(), false);
        let is_late = |_| shown.text().contains(LATE);
        let watched = watch(command, is_late, &mut screen).unwrap();
        (watched, shown.text())
    }

    fn script(lines: &[&str]) -> (Watched, String) {
        watched(Command::new("sh").args(["-c", &lines.join("\n")]))
    }

    fn unfinished(run: &BinaryRun) -> Vec<&str> {
        let unfinished = |test: &&TestRun| test.outcome == Outcome::Unfinished;
        let tests = run.tests.iter().filter(unfinished);
        tests.map(|test| test.name.as_str()).collect()
    }

    /// The test binary that is run is this one, so the harness is the real one.
    #[test]
    fn a_real_harness_reports_names_and_times() {
        let this = std::env::current_exe().unwrap();
        let name = "shell::tests::only_what_is_on_the_path_is_found";
        let mut command = Command::new(this);
        command.args([name, "--exact"]);

        let (watched, shown) = watched(in_json(&mut command));

        assert_eq!(watched.code, 0, "{shown}");
        assert_eq!(watched.run.end, End::Whole);
        let [test] = watched.run.tests.as_slice() else {
            panic!("one test: {:?}", watched.run);
        };
        assert_eq!((test.name.as_str(), test.outcome), (name, Outcome::Passed));
        assert!(test.seconds.is_some());
        assert!(shown.contains(&format!("test {name} ... ok\n")), "{shown}");
        assert!(shown.contains("test result: ok. 1 passed;"), "{shown}");
    }

    #[test]
    fn a_filter_selects_the_tests_whose_path_contains_it() {
        let this = std::env::current_exe().unwrap();
        let listed = |filters: &[&str]| {
            let filters: Vec<String> = filters.iter().map(|&text| text.to_owned()).collect();
            asked_for(this.to_str().unwrap(), "xtask/xtask", &filters).unwrap()
        };

        let found = "shell::tests::only_what_is_on_the_path_is_found";
        assert_eq!(listed(&["on_the_path_is_found"]), [found]);
        assert_eq!(
            listed(&["xtask::shell::tests::only", "no such test"]),
            [found]
        );
        assert!(listed(&["xtask/xtask"]).len() > 10);
        assert!(listed(&["ferrolock/waiting"]).is_empty());
    }

    #[test]
    fn a_binary_that_hangs_is_killed_and_the_tests_that_ran_are_named() {
        let hangs = format!("echo {LATE}; exec sleep 1000");

        let (watched, shown) = script(&[BEGUN, STARTED, &hangs]);

        assert!(matches!(watched.run.end, End::Hung { .. }));
        assert_eq!(watched.code, FAILED);
        assert_eq!(unfinished(&watched.run), ["a"]);
        assert!(shown.contains("s; running were: a\n"), "{shown}");
    }

    #[test]
    fn a_binary_that_crashes_is_a_failure_of_the_tests_that_ran() {
        let (watched, shown) = script(&[BEGUN, STARTED, "kill -ABRT $$"]);

        assert!(matches!(watched.run.end, End::Crashed(ref how) if how.contains("signal: 6")));
        assert_eq!(watched.code, FAILED);
        assert_eq!(unfinished(&watched.run), ["a"]);
        assert!(
            shown.contains("ended before its tests did (signal: 6"),
            "{shown}"
        );
    }

    /// Also if its exit code is 0.
    #[test]
    fn a_binary_that_ends_without_running_its_tests_is_a_failure() {
        let (watched, _) = script(&[BEGUN, "exit 0"]);

        assert_eq!(watched.code, FAILED);
        assert_eq!(unfinished(&watched.run), [NO_TEST]);
    }

    #[test]
    fn the_lines_not_run_are_recorded() {
        let prints = "echo 'NOT RUN on redis: a' >&2; echo 'something else' >&2";

        let (watched, _) = script(&[BEGUN, prints]);

        assert_eq!(watched.run.left_out, ["NOT RUN on redis: a"]);
    }

    /// A process that a test left behind keeps the output open.
    #[test]
    fn the_runner_ends_soon_after_the_binary_although_the_output_stays_open() {
        let orphan = "sleep 1000 & echo $!";

        let (watched, shown) = script(&[BEGUN, orphan, "exit 3"]);

        assert_eq!(watched.code, FAILED);
        let is_pid = |line: &&str| line.parse::<u32>().is_ok();
        let pid = shown.lines().find(is_pid).unwrap();
        let killed = Command::new("kill").arg(pid).status().unwrap();
        assert!(killed.success(), "{shown}");
    }
}
