//! The outcomes of all tests, in few lines.

use super::record::{BinaryRun, End, Outcome, TestRun};

/// How many of the slowest tests are named.
const SLOWEST: usize = 10;

/// The outcome of all test binaries, and of the examples in the docs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Report {
    pub(crate) runs: Vec<BinaryRun>,
}

impl Report {
    /// How many tests ended that way.
    pub(crate) fn count(&self, outcome: Outcome) -> usize {
        self.tests()
            .filter(|(_, test)| test.outcome == outcome)
            .count()
    }

    /// Every test with its binary.
    pub(crate) fn tests(&self) -> impl Iterator<Item = (&BinaryRun, &TestRun)> {
        self.runs
            .iter()
            .flat_map(|run| run.tests.iter().map(move |test| (run, test)))
    }

    /// The line with the counts.
    pub(crate) fn counts(&self) -> String {
        let all = self.tests().count();
        let mut line = format!("{all} tests: {} passed", self.count(Outcome::Passed));
        line.push_str(&format!(", {} failed", self.count(Outcome::Failed)));
        for (outcome, word) in [
            (Outcome::Unfinished, "unfinished"),
            (Outcome::Ignored, "ignored"),
        ] {
            match self.count(outcome) {
                0 => {}
                count => line.push_str(&format!(", {count} {word}")),
            }
        }
        let left_out: usize = self.runs.iter().map(|run| run.left_out.len()).sum();
        match left_out {
            0 => line.push_str("; nothing was left out"),
            count => line.push_str(&format!("; left out: {count} (the lines NOT RUN)")),
        }
        line
    }

    /// The counts, the failed tests, and the slowest tests.
    pub(crate) fn summary(&self) -> String {
        let mut lines = vec![self.counts()];
        lines.extend(self.troubles());
        let slowest = self.slowest();
        if !slowest.is_empty() {
            lines.push(format!("\n{:>8}  the slowest tests", "seconds"));
            lines.extend(slowest);
        }
        lines.join("\n")
    }

    /// A line for each test that did not pass.
    pub(crate) fn troubles(&self) -> Vec<String> {
        self.tests()
            .filter_map(|(run, test)| trouble(run, test))
            .collect()
    }

    fn slowest(&self) -> Vec<String> {
        let mut timed: Vec<(f64, &BinaryRun, &TestRun)> = self
            .tests()
            .filter_map(|(run, test)| Some((test.seconds?, run, test)))
            .collect();
        timed.sort_by(|one, other| other.0.total_cmp(&one.0));
        timed
            .into_iter()
            .take(SLOWEST)
            .map(|(seconds, run, test)| format!("{seconds:>8.1}  {}::{}", run.binary, test.name))
            .collect()
    }
}

/// The line about a test that did not pass.
fn trouble(run: &BinaryRun, test: &TestRun) -> Option<String> {
    let how = match (test.outcome, &run.end) {
        (Outcome::Passed | Outcome::Ignored, _) => return None,
        (Outcome::Failed, _) => "FAILED".to_owned(),
        (Outcome::Unfinished, End::Hung { seconds }) => format!("HUNG, killed after {seconds} s"),
        (Outcome::Unfinished, End::Crashed(how)) => format!("RAN when the binary ended, {how}"),
        (Outcome::Unfinished, End::Whole) => "NEVER ENDED".to_owned(),
    };
    Some(format!("{how}: {}::{}", run.binary, test.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test(name: &str, outcome: Outcome, seconds: f64) -> TestRun {
        TestRun {
            name: name.to_owned(),
            outcome,
            seconds: Some(seconds),
        }
    }

    #[test]
    fn the_counts_have_the_outcomes_and_the_number_left_out() {
        let tests = vec![
            test("a", Outcome::Passed, 0.1),
            test("b", Outcome::Failed, 0.1),
            test("c", Outcome::Ignored, 0.1),
        ];
        let mut run = BinaryRun {
            tests,
            ..BinaryRun::default()
        };
        let whole = Report {
            runs: vec![run.clone(), run.clone()],
        };
        run.left_out.push("NOT RUN on redis: a".to_owned());
        let part = Report { runs: vec![run] };

        assert_eq!(
            whole.counts(),
            "6 tests: 2 passed, 2 failed, 2 ignored; nothing was left out"
        );
        assert_eq!(
            part.counts(),
            "3 tests: 1 passed, 1 failed, 1 ignored; left out: 1 (the lines NOT RUN)"
        );
    }

    #[test]
    fn the_ten_slowest_are_named_with_their_binary_the_slowest_first() {
        let tests = (0..12)
            .map(|n| test(&format!("t{n}"), Outcome::Passed, f64::from(n)))
            .collect();
        let run = BinaryRun {
            binary: "ferrolock/waiting".to_owned(),
            tests,
            ..BinaryRun::default()
        };

        let summary = Report { runs: vec![run] }.summary();

        let named: Vec<&str> = summary.lines().skip(3).collect();
        assert_eq!(named.len(), SLOWEST);
        assert_eq!(
            named.first(),
            Some(&"    11.0  ferrolock/waiting::t11"),
            "{summary}"
        );
        assert_eq!(named.last(), Some(&"     2.0  ferrolock/waiting::t2"));
    }

    #[test]
    fn each_test_that_did_not_pass_is_named_with_what_happened() {
        let binary = "ferrolock/waiting".to_owned();
        let crashed = BinaryRun {
            binary: binary.clone(),
            tests: vec![
                test("a", Outcome::Failed, 0.1),
                test("b", Outcome::Unfinished, 0.1),
            ],
            end: End::Crashed("signal: 6".to_owned()),
            ..BinaryRun::default()
        };
        let hung = BinaryRun {
            binary,
            tests: vec![test("c", Outcome::Unfinished, 0.1)],
            end: End::Hung { seconds: 9 },
            ..BinaryRun::default()
        };

        let summary = Report {
            runs: vec![crashed, hung],
        }
        .summary();

        for line in [
            "3 tests: 0 passed, 1 failed, 2 unfinished; nothing was left out",
            "FAILED: ferrolock/waiting::a",
            "RAN when the binary ended, signal: 6: ferrolock/waiting::b",
            "HUNG, killed after 9 s: ferrolock/waiting::c",
        ] {
            assert!(summary.lines().any(|other| other == line), "{summary}");
        }
    }
}
