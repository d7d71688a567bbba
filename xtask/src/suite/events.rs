//! What a test binary prints about its tests: the lines of `--format json`.

use serde::Deserialize;

use super::record::Outcome;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// The number of tests that are about to run.
    Begun(u64),
    Started(String),
    /// A test that has been running for a minute.
    Slow(String),
    Ended(Ended),
    /// The harness is done: the time it took, and the number of tests that were not asked for.
    Done {
        seconds: f64,
        filtered_out: u64,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Ended {
    pub(super) name: String,
    pub(super) outcome: Outcome,
    pub(super) seconds: Option<f64>,
    /// What it printed, and why it failed if that is not in there.
    pub(super) printed: String,
}

/// A line as it is printed; which fields there are depends on the first two.
#[derive(Deserialize)]
struct Line {
    r#type: String,
    event: String,
    #[serde(default)]
    name: String,
    exec_time: Option<f64>,
    #[serde(default)]
    stdout: String,
    message: Option<String>,
    #[serde(default)]
    test_count: u64,
    #[serde(default)]
    filtered_out: u64,
}

/// How every such line begins.
const BEGINNING: &str = "{ \"type\": \"";

/// Splits a line of the binary's output into what a test printed past the harness, and the harness's event.
///
/// It has both if the test did not end its line.
pub(super) fn read(line: &str) -> (&str, Option<Event>) {
    let split = line.find(BEGINNING).and_then(|at| {
        let (printed, json) = line.split_at_checked(at)?;
        let json: Line = serde_json::from_str(json).ok()?;
        Some((printed, event(json)))
    });
    split.unwrap_or((line, None))
}

/// `None`: nothing that matters here.
fn event(line: Line) -> Option<Event> {
    let outcome = match (line.r#type.as_str(), line.event.as_str()) {
        ("suite", "started") => return Some(Event::Begun(line.test_count)),
        ("suite", "ok" | "failed") => {
            return Some(Event::Done {
                seconds: line.exec_time.unwrap_or_default(),
                filtered_out: line.filtered_out,
            });
        }
        ("test", "started") => return Some(Event::Started(line.name)),
        ("test", "timeout") => return Some(Event::Slow(line.name)),
        ("test", "ok") => Outcome::Passed,
        ("test", "failed") => Outcome::Failed,
        ("test", "ignored") => Outcome::Ignored,
        _ => return None,
    };
    let mut printed = line.stdout;
    printed.push_str(line.message.as_deref().unwrap_or_default());
    Some(Event::Ended(Ended {
        name: line.name,
        outcome,
        seconds: line.exec_time,
        printed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event_of(line: &str) -> Event {
        let (printed, event) = read(line);
        assert_eq!(printed, "");
        event.unwrap()
    }

    #[test]
    fn each_event_of_a_test_is_read() {
        let begun = r#"{ "type": "suite", "event": "started", "test_count": 14 }"#;
        let started = r#"{ "type": "test", "event": "started", "name": "a::b" }"#;
        let slow = r#"{ "type": "test", "event": "timeout", "name": "a::b" }"#;
        let ended = r#"{ "type": "test", "name": "a::b", "event": "ok", "exec_time": 0.25 }"#;
        let done = r#"{ "type": "suite", "event": "ok", "passed": 14, "failed": 0, "ignored": 0, "measured": 0, "filtered_out": 3, "exec_time": 0.5 }"#;

        assert_eq!(event_of(begun), Event::Begun(14));
        assert_eq!(event_of(started), Event::Started("a::b".to_owned()));
        assert_eq!(event_of(slow), Event::Slow("a::b".to_owned()));
        let passed = Ended {
            name: "a::b".to_owned(),
            outcome: Outcome::Passed,
            seconds: Some(0.25),
            printed: String::new(),
        };
        assert_eq!(event_of(ended), Event::Ended(passed));
        let all = Event::Done {
            seconds: 0.5,
            filtered_out: 3,
        };
        assert_eq!(event_of(done), all);
    }

    #[test]
    fn a_failure_has_the_output_of_the_test_and_the_reason() {
        let failed = r#"{ "type": "test", "name": "a", "event": "failed", "exec_time": 1.0, "stdout": "printed\n", "message": "did not panic" }"#;

        let Event::Ended(ended) = event_of(failed) else {
            panic!("a test's end");
        };

        assert_eq!(ended.outcome, Outcome::Failed);
        assert_eq!(ended.printed, "printed\ndid not panic");
    }

    #[test]
    fn what_a_test_printed_past_the_harness_is_kept() {
        let line = r#"halfway { "type": "test", "event": "started", "name": "a" }"#;

        assert_eq!(
            read(line),
            ("halfway ", Some(Event::Started("a".to_owned())))
        );
        assert_eq!(read("a whole line"), ("a whole line", None));
        let broken = r#"{ "type": "test", "#;
        assert_eq!(read(broken), (broken, None));
    }
}
