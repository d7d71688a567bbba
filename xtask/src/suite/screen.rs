//! Prints the tests for people, as the harness itself would.

use std::io::Write;

use super::events::{Ended, Event};
use super::record::Outcome;

/// Prints the tests of one binary as they end.
pub(super) struct Screen<W> {
    output: W,
    is_colored: bool,
    failed: Vec<Ended>,
    passed: u64,
    ignored: u64,
}

impl<W: Write> Screen<W> {
    pub(super) fn new(output: W, is_colored: bool) -> Self {
        Self {
            output,
            is_colored,
            failed: Vec::new(),
            passed: 0,
            ignored: 0,
        }
    }

    pub(super) fn show(&mut self, event: &Event) {
        match event {
            Event::Begun(count) => {
                let tests = if *count == 1 { "test" } else { "tests" };
                self.print(&format!("\nrunning {count} {tests}\n"));
            }
            Event::Started(_) => {}
            Event::Slow(name) => {
                self.print(&format!(
                    "test {name} has been running for over 60 seconds\n"
                ));
            }
            Event::Ended(ended) => self.show_end(ended),
            Event::Done {
                seconds,
                filtered_out,
            } => self.show_result(*seconds, *filtered_out),
        }
    }

    /// Prints the text as it is.
    pub(super) fn print(&mut self, text: &str) {
        // A reader that is gone does not stop the tests.
        let _ = self
            .output
            .write_all(text.as_bytes())
            .and_then(|()| self.output.flush());
    }

    fn show_end(&mut self, ended: &Ended) {
        let word = word(ended.outcome, self.is_colored);
        self.print(&format!("test {} ... {word}\n", ended.name));
        match ended.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Ignored => self.ignored += 1,
            Outcome::Failed | Outcome::Unfinished => self.failed.push(ended.clone()),
        }
    }

    fn show_result(&mut self, seconds: f64, filtered_out: u64) {
        let failed = std::mem::take(&mut self.failed);
        if !failed.is_empty() {
            self.print("\nfailures:\n");
            for Ended { name, printed, .. } in &failed {
                self.print(&format!("\n---- {name} stdout ----\n{printed}\n"));
            }
            self.print("\nfailures:\n");
            for Ended { name, .. } in &failed {
                self.print(&format!("    {name}\n"));
            }
        }
        let outcome = match failed.is_empty() {
            true => Outcome::Passed,
            false => Outcome::Failed,
        };
        let (passed, ignored) = (self.passed, self.ignored);
        let word = word(outcome, self.is_colored);
        self.print(&format!(
            "\ntest result: {word}. {passed} passed; {} failed; {ignored} ignored; {filtered_out} filtered out; finished in {seconds:.2}s\n\n",
            failed.len()
        ));
    }
}

fn word(outcome: Outcome, is_colored: bool) -> String {
    let (word, color) = match outcome {
        Outcome::Passed => ("ok", 32),
        Outcome::Ignored => ("ignored", 33),
        Outcome::Failed | Outcome::Unfinished => ("FAILED", 31),
    };
    match is_colored {
        true => format!("\x1b[{color}m{word}\x1b[0m"),
        false => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(name: &str, outcome: Outcome, printed: &str) -> Event {
        Event::Ended(Ended {
            name: name.to_owned(),
            outcome,
            seconds: Some(0.5),
            printed: printed.to_owned(),
        })
    }

    fn shown(is_colored: bool, events: &[Event]) -> String {
        let mut output = Vec::new();
        let mut screen = Screen::new(&mut output, is_colored);
        for event in events {
            screen.show(event);
        }
        String::from_utf8(output).unwrap()
    }

    const DONE: Event = Event::Done {
        seconds: 1.5,
        filtered_out: 2,
    };

    #[test]
    fn the_output_of_a_failed_test_is_shown_at_the_end() {
        let events = [
            Event::Begun(3),
            ended("a", Outcome::Failed, "it printed this"),
            ended("b", Outcome::Passed, "and not this"),
            ended("c", Outcome::Ignored, ""),
            DONE,
        ];

        let shown = shown(false, &events);

        assert!(shown.contains("running 3 tests\n"), "{shown}");
        assert!(shown.contains("test a ... FAILED\ntest b ... ok\ntest c ... ignored\n"));
        assert!(
            shown.contains("---- a stdout ----\nit printed this\n"),
            "{shown}"
        );
        assert!(!shown.contains("and not this"), "{shown}");
        assert!(shown.contains("failures:\n    a\n"), "{shown}");
        let result =
            "test result: FAILED. 1 passed; 1 failed; 1 ignored; 2 filtered out; finished in 1.50s";
        assert!(shown.contains(result), "{shown}");
    }

    #[test]
    fn colors_are_for_terminals() {
        let events = [ended("a", Outcome::Passed, ""), DONE];

        assert!(shown(true, &events).contains("test a ... \x1b[32mok\x1b[0m\n"));
        assert!(shown(false, &events).contains("test a ... ok\n"));
        assert!(!shown(false, &events).contains("failures"));
    }
}
