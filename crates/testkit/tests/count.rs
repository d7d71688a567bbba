//! Tests that count have a long form.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::process::Command;

/// Does what every test does that counts.
#[test]
fn counted() {
    println!("rounds: {}", testkit::count(100, 1000));
}

#[test]
fn the_environment_chooses_the_long_form() {
    for (value, rounds) in [(None, 100), (Some("0"), 100), (Some("1"), 1000)] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["counted", "--exact", "--nocapture"]);
        command.env_remove("FERROLOCK_LONG");
        command.envs(value.map(|value| ("FERROLOCK_LONG", value)));

        let said = String::from_utf8(command.output().unwrap().stdout).unwrap();

        assert!(said.contains(&format!("rounds: {rounds}\n")), "{said}");
    }
}
