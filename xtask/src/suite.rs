//! All tests, run by Cargo through a runner of ours, which records the outcome of each.

mod docs;
mod events;
mod record;
mod report;
pub(crate) mod runner;
mod screen;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::java::Java;
use crate::servers::Servers;
use crate::{shell, workspace};

#[cfg(test)]
pub(crate) use record::{BinaryRun, Outcome, TestRun};
pub(crate) use report::Report;
pub(crate) use runner::Order;

/// The workspace with everything in it.
pub(crate) const ALL: [&str; 2] = ["--workspace", "--all-features"];

/// Where the tests are, and what they run on.
#[derive(Debug)]
pub(crate) struct Suite<'a> {
    pub(crate) root: &'a Path,
    pub(crate) servers: &'a Servers,
    pub(crate) java: &'a Java,
    /// The path of this program, read before a build could replace it.
    pub(crate) program: &'a Path,
    /// Tests that count rounds or grants go on about ten times as long.
    pub(crate) is_long: bool,
}

/// Set to `1`, it makes them do so: `testkit::count` reads it.
const LONG: &str = "FERROLOCK_LONG";

/// What happens after a failure, and where the output goes.
#[derive(Debug)]
pub(crate) enum Manner {
    /// Output goes to the terminal, and nothing runs after the first binary with a failure.
    Watched,
    /// Everything runs, and all output goes into the file.
    Logged(File),
}

impl Suite<'_> {
    /// Builds what [`run`](Self::run) runs, and the examples.
    pub(crate) fn build(&self) -> Result<(), String> {
        shell::run(cargo_test(self.root).args(ALL).arg("--no-run"))
    }

    /// Runs the tests, and without filters the examples in the docs; the report has all that ran, also after a failure.
    pub(crate) fn run(&self, order: &Order, manner: &Manner) -> (Report, Result<(), String>) {
        let mut report = Report::default();
        let mut done = self.binaries(order, manner);
        match record::read(&order.record) {
            Ok(runs) => report.runs = runs,
            Err(why) => done = done.and(Err(why)),
        }
        let goes_on = done.is_ok() || matches!(manner, Manner::Logged(_));
        if goes_on && order.filters.is_empty() {
            let (run, docs_done) = docs::run(self, order.limit, manner);
            report.runs.push(run);
            done = done.and(docs_done);
        }
        (report, done)
    }

    fn binaries(&self, order: &Order, manner: &Manner) -> Result<(), String> {
        record::begin(&order.record)?;
        let json = serde_json::to_string(order).map_err(|why| why.to_string())?;
        let mut command = self.test(&["--tests"], manner)?;
        command
            .arg("--config")
            .arg(runner_setting(self.program, &[runner::WORD])?)
            .env(runner::ORDER, json);
        let status = command.status();
        judged("cargo test --tests", status)
    }

    /// `cargo test` with the servers and Java, for these targets.
    fn test(&self, targets: &[&str], manner: &Manner) -> Result<Command, String> {
        let mut command = cargo_test(self.root);
        command.args(ALL).args(targets);
        self.servers.hand_to(&mut command);
        self.java.hand_to(&mut command);
        if self.is_long {
            command.env(LONG, "1");
        }
        match manner {
            Manner::Watched => eprintln!("$ {}", shell::line(&command)),
            Manner::Logged(file) => {
                let copy = || file.try_clone().map_err(|why| why.to_string());
                command
                    .arg("--no-fail-fast")
                    .stdin(Stdio::null())
                    .stdout(copy()?)
                    .stderr(copy()?);
            }
        }
        Ok(command)
    }
}

/// `cargo test`, with more tests at a time than there are processors: most tests sleep most of their time.
pub(crate) fn cargo_test(root: &Path) -> Command {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = shell::cargo(root);
    command.arg("test");
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        command.env("RUST_TEST_THREADS", (4 * threads).to_string());
    }
    command
}

/// The path of this program. Ask before a build: that replaces the file, and then the running program has no path.
pub(crate) fn this_program() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|why| why.to_string())
}

/// A folder of ours in Cargo's target folder.
pub(crate) fn folder(root: &Path, name: &str) -> Result<PathBuf, String> {
    let metadata = workspace::metadata(root, &root.join("Cargo.toml"), workspace::Depth::Members)?;
    let target = workspace::text(&metadata, "target_directory");
    Ok(Path::new(target).join("xtask").join(name))
}

/// The setting by which Cargo starts test binaries through this program, with these arguments before theirs. A string in
/// JSON is also one in TOML.
pub(crate) fn runner_setting(program: &Path, words: &[&str]) -> Result<String, String> {
    let program = program.to_str().ok_or("a path that is no text")?;
    let words: Vec<&str> = std::iter::once(program)
        .chain(words.iter().copied())
        .collect();
    let words = serde_json::to_string(&words).map_err(|why| why.to_string())?;
    Ok(format!("target.'cfg(all())'.runner = {words}"))
}

fn judged(what: &str, status: std::io::Result<std::process::ExitStatus>) -> Result<(), String> {
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{what}`: {status}")),
        Err(why) => Err(format!("`{what}` cannot be started: {why}")),
    }
}
