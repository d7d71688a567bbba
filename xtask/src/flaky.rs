//! `cargo xtask flaky`: the tests many times, on a busy machine, and which of them do not always pass.

pub(crate) mod load;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use crate::java::Java;
use crate::servers::Servers;
use crate::suite::{self, Manner, Order, Report, Suite};
use crate::{test, workspace};
use load::Load;

const USAGE: &str = "usage: cargo xtask flaky [--times N] [--load M] [--limit SECONDS] [FILTER...]";

/// The arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    times: u32,
    /// Processes that compute beside the tests.
    load: u32,
    /// For each test binary.
    limit: Duration,
    filters: Vec<String>,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            times: 3,
            load: 2,
            limit: Duration::from_secs(1800),
            filters: Vec::new(),
        }
    }
}

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let wanted = wanted(args)?;
    let (root, program) = (workspace::root()?, suite::this_program()?);
    let (servers, java) = (Servers::get(&root), Java::get(&root));
    for line in servers.missing.iter().chain(&java.missing) {
        eprintln!("MISSING {line}");
    }
    let suite = Suite {
        root: &root,
        servers: &servers,
        java: &java,
        program: &program,
        is_long: false,
    };
    suite.build()?;
    let folder = suite::folder(&root, "flaky")?;
    let troubles = rounds(&suite, &wanted, &folder)?;
    println!("{}", troubles.summary(wanted.times));
    match troubles.0.is_empty() {
        true => Ok(()),
        false => Err(format!("what was printed is in {}", folder.display())),
    }
}

fn rounds(suite: &Suite<'_>, wanted: &Wanted, folder: &Path) -> Result<Troubles, String> {
    let explain = |why: std::io::Error| format!("{}: {why}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(explain)?;
    }
    fs::create_dir_all(folder).map_err(explain)?;
    let _load = Load::start(suite.program, wanted.load)?;
    let mut troubles = Troubles::default();
    for round in 1..=wanted.times {
        let order = Order {
            record: folder.join(format!("round-{round}")),
            filters: wanted.filters.clone(),
            limit: Some(wanted.limit),
        };
        let log = File::create(order.record.with_extension("log")).map_err(explain)?;
        let ((report, done), time) = test::timed(|| suite.run(&order, &Manner::Logged(log)));
        if done.is_ok() && report.tests().next().is_none() {
            return Err(format!(
                "no test has any of {:?} in its path",
                wanted.filters
            ));
        }
        let (times, seconds) = (wanted.times, time.as_secs_f64());
        println!(
            "round {round} of {times}: {}, in {seconds:.1} s",
            report.counts()
        );
        for line in troubles.add(round, &report, done) {
            println!("  {line}");
        }
    }
    Ok(troubles)
}

/// What went wrong, and in which rounds.
#[derive(Debug, Default)]
struct Troubles(BTreeMap<String, Vec<u32>>);

impl Troubles {
    /// Adds a round, and returns what went wrong in it.
    fn add(&mut self, round: u32, report: &Report, done: Result<(), String>) -> Vec<String> {
        let mut lines = report.troubles();
        if let (Err(why), true) = (done, lines.is_empty()) {
            lines.push(format!("{why}, and no test says why"));
        }
        for line in &lines {
            self.0.entry(line.clone()).or_default().push(round);
        }
        lines
    }

    fn summary(&self, times: u32) -> String {
        if self.0.is_empty() {
            return format!("every test passed each time, of {times}");
        }
        let mut lines = vec![format!("\n{:>8}  what happened", "times")];
        for (what, rounds) in &self.0 {
            let often = format!("{} of {times}", rounds.len());
            let rounds: Vec<String> = rounds.iter().map(u32::to_string).collect();
            lines.push(format!("{often:>8}  {what} (round {})", rounds.join(", ")));
        }
        lines.join("\n")
    }
}

fn wanted(args: &[&str]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    let mut args = args.iter();
    while let Some(&arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or(USAGE)?;
            text.parse::<u32>().map_err(|_| USAGE)
        };
        match arg {
            "--times" => wanted.times = number()?,
            "--load" => wanted.load = number()?,
            "--limit" => wanted.limit = Duration::from_secs(number()?.into()),
            option if option.starts_with('-') => return Err(USAGE.to_owned()),
            filter => wanted.filters.push(filter.to_owned()),
        }
    }
    match wanted.times {
        0 => Err(USAGE.to_owned()),
        _ => Ok(wanted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::{BinaryRun, Outcome, TestRun};

    fn report(failed: &[&str]) -> Report {
        let test = |name: &&str| TestRun {
            name: (*name).to_owned(),
            outcome: Outcome::Failed,
            seconds: None,
        };
        let run = BinaryRun {
            binary: "ferrolock/waiting".to_owned(),
            tests: failed.iter().map(test).collect(),
            ..BinaryRun::default()
        };
        Report { runs: vec![run] }
    }

    #[test]
    fn each_test_that_failed_is_named_once_with_how_often() {
        let mut troubles = Troubles::default();
        let failed = || Err("`cargo test`: exit status: 101".to_owned());

        troubles.add(1, &report(&["a", "b"]), failed());
        troubles.add(2, &report(&[]), Ok(()));
        troubles.add(3, &report(&["a"]), failed());

        let summary = troubles.summary(3);
        let a = "  2 of 3  FAILED: ferrolock/waiting::a (round 1, 3)";
        let b = "  1 of 3  FAILED: ferrolock/waiting::b (round 1)";
        assert!(summary.lines().any(|line| line == a), "{summary}");
        assert!(summary.lines().any(|line| line == b), "{summary}");
    }

    #[test]
    fn a_failure_of_cargo_without_a_failed_test_is_reported_too() {
        let mut troubles = Troubles::default();

        let lines = troubles.add(1, &report(&[]), Err("`cargo test`: killed".to_owned()));

        assert_eq!(lines, ["`cargo test`: killed, and no test says why"]);
        assert!(!troubles.0.is_empty());
    }

    #[test]
    fn numbers_and_filters_are_read_in_any_order() {
        let expected = Wanted {
            times: 100,
            load: 0,
            limit: Duration::from_secs(5),
            filters: vec!["wakes::".to_owned(), "fairness".to_owned()],
        };

        let args = ["wakes::", "--times", "100", "--load", "0"];
        let args = [&args[..], &["fairness", "--limit", "5"]].concat();
        assert_eq!(wanted(&args), Ok(expected));
        assert_eq!(wanted(&[]), Ok(Wanted::default()));
    }

    #[test]
    fn wrong_arguments_return_the_usage() {
        for args in [
            &["--times"][..],
            &["--times", "x"],
            &["--times", "0"],
            &["--loud", "1"],
        ] {
            assert_eq!(wanted(args), Err(USAGE.to_owned()), "{args:?}");
        }
    }
}
