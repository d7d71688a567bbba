//! The texts of the command line: help, completions, manual pages, and `docs/cli.md`, which is made of the help.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test code: a failure ends the test"
)]

mod completions;
mod help;
mod man;
mod page;

use std::process::{Command, Output};

/// Runs `ferrolock` with these arguments, in an environment that says nothing about a terminal.
fn ferrolock(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ferrolock"))
        .args(words)
        .env_remove("COLUMNS")
        .env_remove("FERROLOCK_URL")
        .output()
        .unwrap()
}

/// What it prints; it must succeed.
#[track_caller]
fn printed(words: &[&str]) -> String {
    let output = ferrolock(words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}
