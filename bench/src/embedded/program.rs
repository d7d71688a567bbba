//! The command line: what `ferrolock run` adds to a command, how long it takes to build, how large it is.

use crate::report::{Must, Row};
use crate::rounds::{Turns, median, micros_since, now};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use testkit::Server;

const ROUNDS: usize = 11;
const PER_ROUND: usize = 20;

pub(crate) fn run(_: &Server) -> Vec<Row> {
    let target = std::env::current_exe().unwrap();
    let ferrolock = build(target.parent().unwrap().parent().unwrap());
    let folder = testkit::store_folder();
    let url = format!("file:{}", folder.path().display());
    let under_lock = ["run", "--url", &url, "bench", "--", "true"];
    let (mut added, mut twice) = (Turns::default(), Turns::default());
    for round in 0..=ROUNDS {
        let alone = p50_ms(|| Command::new("true"));
        let locked = p50_ms(|| {
            let mut command = Command::new(&ferrolock);
            command.args(under_lock);
            command
        });
        // The first round warms up.
        if round > 0 {
            added.push(locked - alone, 1.0);
            twice.push(locked - alone, 2.0 * alone);
        }
    }
    let what = "p50 of `ferrolock run NAME -- true` minus `true` alone, `file:`";
    vec![
        Row {
            what: what.to_owned(),
            unit: " ms",
            ours: added.ours(),
            reference: None,
            ratio: None,
            must: Must::AtMost(10.0),
        },
        Row {
            what: format!("{what}, ÷ p50 of starting `true` twice"),
            unit: " ms",
            ours: twice.ours(),
            reference: Some(twice.reference()),
            ratio: Some(twice.ratio()),
            must: Must::AtMost(4.0),
        },
    ]
}

pub(crate) fn size(_: &Server) -> Vec<Row> {
    let folder = tempfile::tempdir().unwrap();
    let begun = now();
    let program = build(folder.path());
    let took = micros_since(begun) / 1e6;
    let bytes = std::fs::metadata(program).unwrap().len();
    let stated = |what: &str, unit, ours| Row {
        what: what.to_owned(),
        unit,
        ours,
        reference: None,
        ratio: None,
        must: Must::Stated,
    };
    vec![
        stated("clean build of the command line, release", " s", took),
        stated(
            "size of the program, with line tables",
            " MB",
            bytes as f64 / 1e6,
        ),
        stated(
            "size of the program, stripped",
            " MB",
            stripped(folder.path()) / 1e6,
        ),
    ]
}

/// Builds the command line into that folder; returns the path of the program.
fn build(target: &Path) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--quiet",
            "--release",
            "-p",
            "ferrolock-cli",
            "--target-dir",
        ])
        .arg(target)
        .status()
        .unwrap();
    assert!(built.success(), "the command line is built");
    program_in(target)
}

fn program_in(target: &Path) -> PathBuf {
    target.join("release/ferrolock")
}

fn stripped(target: &Path) -> f64 {
    let small = target.join("stripped");
    let done = Command::new("strip")
        .arg("-o")
        .args([&small, &program_in(target)])
        .status();
    // A machine with a C compiler mostly has `strip` too.
    match done {
        Ok(status) if status.success() => std::fs::metadata(small).unwrap().len() as f64,
        _ => f64::NAN,
    }
}

fn p50_ms(command: impl Fn() -> Command) -> f64 {
    let mut took = Vec::with_capacity(PER_ROUND);
    for _ in 0..PER_ROUND {
        let mut command = command();
        let begun = now();
        let status = command.stdin(Stdio::null()).status().unwrap();
        took.push(micros_since(begun) / 1e3);
        assert!(status.success());
    }
    median(&took)
}
