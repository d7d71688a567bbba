//! `cargo xtask test`: every check, in order, until one fails.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::java::Java;
use crate::servers::Servers;
use crate::suite::{self, Manner, Order, Report, Suite};
use crate::{api, msrv, package, shell, tidy, workspace};

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Full,
    /// The steps that need no server, no docs and no other toolchain.
    Quick,
    /// All steps; tests that count rounds or grants go on about ten times as long.
    Long,
}

impl Extent {
    fn has(self, step: &Step) -> bool {
        self != Extent::Quick || step.extent == Extent::Quick
    }
}

struct Run {
    root: PathBuf,
    program: PathBuf,
    extent: Extent,
    servers: Servers,
    java: Java,
    /// The outcomes of the tests, if they were run.
    tests: Option<Report>,
    /// What could not be checked on this machine, for the closing block.
    left_out: Vec<String>,
}

struct Step {
    name: &'static str,
    extent: Extent,
    check: fn(&mut Run) -> Result<(), String>,
}

/// A step's `extent` is the smallest that includes it.
const STEPS: [Step; 14] = [
    Step::new("servers", Extent::Full, servers),
    Step::new("java", Extent::Full, java),
    Step::new("format", Extent::Quick, format),
    Step::new("clippy", Extent::Quick, clippy),
    Step::new("features", Extent::Quick, features),
    Step::new("tidy", Extent::Quick, |_| tidy::run()),
    Step::new("memory orderings", Extent::Quick, orderings),
    Step::new("tests", Extent::Quick, tests),
    Step::new("plain cargo test", Extent::Full, plain),
    Step::new("docs", Extent::Full, docs),
    Step::new("rust-versions", Extent::Quick, |run| {
        msrv::dependencies(&run.root)
    }),
    Step::new("older toolchain", Extent::Full, toolchain),
    Step::new("package", Extent::Quick, |run| package::check(&run.root)),
    Step::new("public api", Extent::Quick, |_| api::check()),
];

/// The library with each feature alone, and with none.
const FEATURES: [&str; 5] = ["", "redis", "embedded", "redis,tls", "metrics"];

impl Step {
    const fn new(
        name: &'static str,
        extent: Extent,
        check: fn(&mut Run) -> Result<(), String>,
    ) -> Self {
        Self {
            name,
            extent,
            check,
        }
    }
}

pub(crate) fn run(extent: Extent) -> Result<(), String> {
    let mut run = Run {
        root: workspace::root()?,
        program: suite::this_program()?,
        extent,
        servers: Servers::default(),
        java: Java::default(),
        tests: None,
        left_out: Vec::new(),
    };
    let mut times = Vec::new();
    let mut failed = None;
    for step in STEPS.iter().filter(|step| extent.has(step)) {
        println!("\n== {}", step.name);
        let (outcome, time) = timed(|| (step.check)(&mut run));
        times.push((step.name, time));
        if let Err(why) = outcome.and_then(|()| complete(&run.left_out, is_ci())) {
            failed = Some(format!("FAILED in step `{}`: {why}", step.name));
            break;
        }
    }
    println!("\n{}", table(&times, failed.is_some()));
    if let Some(report) = &run.tests {
        println!("\n{}", report.summary());
    }
    if !run.left_out.is_empty() {
        println!("{}", closing(&run.left_out));
    }
    failed.map_or(Ok(()), Err)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the time of a step is printed; nothing depends on it"
)]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}

fn servers(run: &mut Run) -> Result<(), String> {
    run.servers = Servers::get(&run.root);
    run.left_out.extend(run.servers.missing.iter().cloned());
    for line in &run.servers.missing {
        eprintln!("MISSING {line}");
    }
    Ok(())
}

fn java(run: &mut Run) -> Result<(), String> {
    run.java = Java::get(&run.root);
    run.left_out.extend(run.java.missing.clone());
    if let Some(line) = &run.java.missing {
        eprintln!("MISSING {line}");
    }
    Ok(())
}

/// On CI nothing may be left out.
fn complete(left_out: &[String], is_ci: bool) -> Result<(), String> {
    if !is_ci || left_out.is_empty() {
        return Ok(());
    }
    Err(format!(
        "on CI (`CI=true`) nothing may be left out: {}",
        left_out.join("; ")
    ))
}

fn is_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

fn format(run: &mut Run) -> Result<(), String> {
    shell::run(shell::cargo(&run.root).args(["fmt", "--all", "--check"]))
}

fn clippy(run: &mut Run) -> Result<(), String> {
    shell::run(
        shell::cargo(&run.root)
            .args(["clippy", "--workspace", "--all-targets", "--all-features"])
            .args(["--", "-D", "warnings"]),
    )
}

fn features(run: &mut Run) -> Result<(), String> {
    for features in FEATURES {
        shell::run(
            shell::cargo(&run.root)
                .args(["clippy", "-p", "ferrolock", "--no-default-features"])
                .args(["--features", features])
                .args(["--", "-D", "warnings"]),
        )?;
    }
    Ok(())
}

fn orderings(run: &mut Run) -> Result<(), String> {
    shell::run(shell::cargo(&run.root).args(["run", "--quiet", "-p", "orderings"]))
}

fn tests(run: &mut Run) -> Result<(), String> {
    let suite = Suite {
        root: &run.root,
        servers: &run.servers,
        java: &run.java,
        program: &run.program,
        is_long: run.extent == Extent::Long,
    };
    suite.build()?;
    let order = Order {
        record: suite::folder(&run.root, "tests")?,
        ..Order::default()
    };
    let (report, done) = suite.run(&order, &Manner::Watched);
    run.tests = Some(report);
    done
}

/// What a user meets who has cloned the repository and installed nothing: default features, no server, no Java.
///
/// With default features all tests are checked, and the test tools, which say what is not run, are built and run. All other
/// tests run once more as they were built for the step `tests`, without servers: building all of them a second time took
/// longer than everything else. What needs no server has just run, and is skipped.
fn plain(run: &mut Run) -> Result<(), String> {
    shell::run(shell::cargo(&run.root).args(["check", "--tests", "--examples"]))?;
    let mut tools = suite::cargo_test(&run.root);
    tools.args(["-p", "testkit"]);
    without_servers(tools)?;
    let mut rest = suite::cargo_test(&run.root);
    rest.args(suite::ALL).args(["--tests", "--"]);
    rest.args(SERVERLESS.map(|part| format!("--skip={part}")));
    without_servers(rest)
}

/// Parts of the paths of tests that need no server.
const SERVERLESS: [&str; 6] = [
    "memory::",
    "file::",
    "storm::",
    "removed::",
    "embedded::",
    "coordination::",
];

fn without_servers(mut command: Command) -> Result<(), String> {
    command.env_remove("CI");
    Servers::hide_from(&mut command);
    Java::hide_from(&mut command);
    shell::run(&mut shell::with_default_signals(command))
}

fn docs(run: &mut Run) -> Result<(), String> {
    shell::run(
        shell::cargo(&run.root)
            .args(["doc", "--workspace", "--no-deps", "--all-features"])
            .env("RUSTDOCFLAGS", "-D warnings"),
    )
}

fn toolchain(run: &mut Run) -> Result<(), String> {
    match msrv::build(&run.root)? {
        msrv::Built::Yes => {}
        msrv::Built::NoToolchain(why) => run.left_out.push(why),
    }
    Ok(())
}

fn table(times: &[(&str, Duration)], failed: bool) -> String {
    let mut lines = vec![format!("{:<18}{:>8}", "step", "seconds")];
    for (position, (name, time)) in times.iter().enumerate() {
        let last = position + 1 == times.len();
        let mark = if failed && last { "  FAILED" } else { "" };
        lines.push(format!("{name:<18}{:>8.1}{mark}", time.as_secs_f64()));
    }
    let total: Duration = times.iter().map(|(_, time)| time).sum();
    lines.push(format!("{:<18}{:>8.1}", "all", total.as_secs_f64()));
    lines.join("\n")
}

fn closing(left_out: &[String]) -> String {
    let rule = "!".repeat(72);
    let lines: Vec<String> = left_out
        .iter()
        .map(|line| format!("!! NOT CHECKED: {line}"))
        .collect();
    format!("\n{rule}\n{}\n{rule}", lines.join("\n"))
}

#[cfg(test)]
mod tests_of_the_report {
    use super::*;

    #[test]
    fn the_table_marks_the_step_that_failed_and_sums_up() {
        let times = [
            ("format", Duration::from_millis(500)),
            ("clippy", Duration::from_secs(2)),
        ];

        let text = table(&times, true);

        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("format") && lines[1].ends_with("0.5"));
        assert!(lines[2].ends_with("2.0  FAILED"));
        assert!(lines[3].ends_with("2.5"));
        assert!(!table(&times, false).contains("FAILED"));
    }

    #[test]
    fn the_long_form_has_every_step_and_the_quick_one_only_its_own() {
        let count = |extent: Extent| STEPS.iter().filter(|step| extent.has(step)).count();

        assert_eq!(count(Extent::Long), STEPS.len());
        assert_eq!(count(Extent::Full), STEPS.len());
        assert!(count(Extent::Quick) < STEPS.len());
    }

    #[test]
    fn a_check_that_was_left_out_is_a_failure_on_ci_only() {
        let nothing = [];
        let toolchain = ["build with Rust 1.88: no rustup".to_owned()];

        let error = complete(&toolchain, true).unwrap_err();

        assert!(error.contains("1.88"), "{error}");
        assert!(complete(&toolchain, false).is_ok());
        assert!(complete(&nothing, true).is_ok());
    }

    #[test]
    fn each_check_that_was_left_out_has_a_line() {
        let text = closing(&["a".to_owned(), "b".to_owned()]);

        assert_eq!(text.matches("NOT CHECKED").count(), 2);
    }
}
