//! A process that needs a lock once, from its start to its end: connects, locks, unlocks, closes, exits.

use super::duel::{Better, Limits, Plan, Row, Side, Work, duel};
use super::meter::cpu_of_ended_children;
use super::party::Whose;
use crate::rounds::{median, micros_since, now};
use crate::stage::Stage;
use std::env;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::Redisson;

const NAME: &str = "once";

pub(crate) fn measure(stage: &Stage) -> Row {
    let url = stage.server.url();
    let jar = Redisson::Newest.jar_here().unwrap();
    let mut again = Command::new(env::current_exe().unwrap());
    again.args([super::ONCE, &url, NAME]);
    let mut java = Command::new("java");
    java.arg("-jar").arg(jar).args(["once", &url, NAME]);

    let plan = Plan {
        what: "p50 of a process that locks and unlocks once, start to end".to_owned(),
        rival: Whose::Redisson.name(),
        unit: " ms",
        operation: "process",
        better: Better::Lower,
        rounds: stage.rounds(11),
        round: stage.round(Duration::from_secs(1)),
        warm_up: Limits::of(stage, Duration::ZERO),
    };
    let [mut ours, mut rival] = [again, java].map(|command| Lives { command });
    duel(stage, plan, &mut ours, &mut rival)
}

/// One process after the other.
struct Lives {
    command: Command,
}

impl Lives {
    /// Runs one process; returns how long it lived, in milliseconds.
    fn live(&mut self) -> f64 {
        let begun = now();
        let status = self.command.stderr(Stdio::null()).status().unwrap();
        assert!(status.success(), "{:?} ended with {status}", self.command);
        micros_since(begun) / 1e3
    }
}

impl Side for Lives {
    fn work(&mut self, time: Duration) -> Work {
        let begun = now();
        let mut took = vec![self.live()];
        while micros_since(begun) < time.as_micros() as f64 {
            took.push(self.live());
        }
        Work {
            value: median(&took),
            operations: took.len() as f64,
        }
    }

    fn cpu(&self) -> Duration {
        cpu_of_ended_children()
    }
}
