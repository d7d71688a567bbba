//! The library's hand-made waiting and atomics, run in every order of steps, with every value that a load may see.
//!
//! The files are the library's own, included by their paths; around them is only what they need to compile. A model that
//! passes is run again with each of its faults planted, and must fail: otherwise it proves nothing.

mod fault;

#[allow(dead_code, reason = "a model uses a part of each file")]
mod coordination;
#[allow(dead_code, reason = "a model uses a part of each file")]
mod engine;
mod error;
mod figures;
mod models;
mod options;
#[allow(dead_code, reason = "each has the methods of all")]
mod primitives;

use std::process::{Command, ExitCode, Output};

use fault::Fault;
use models::{MODELS, Model};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [name, planted] = &words[..] {
        return play(name, planted);
    }
    let failures: Vec<String> = MODELS.iter().flat_map(judge).collect();
    for failure in &failures {
        print(&format!("FAILED {failure}"));
    }
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs one model in this process; a model that fails may abort the process.
fn play(name: &str, planted: &str) -> ExitCode {
    let Some(model) = MODELS.iter().find(|model| model.name == name) else {
        return ExitCode::FAILURE;
    };
    let is_it = |fault: &&Fault| format!("{fault:?}") == planted;
    if let Some(fault) = model.faults.iter().find(is_it) {
        fault::plant(*fault);
    }
    loom::model(model.run);
    ExitCode::SUCCESS
}

/// Runs one model as it is and with each fault, in processes of their own. Returns what was wrong.
fn judge(model: &Model) -> Vec<String> {
    let mut failures = Vec::new();
    match played(model, "none") {
        Ok(output) if output.status.success() => print(&format!("{}: holds", model.name)),
        Ok(output) => failures.push(format!("{}: {}", model.name, reason(&output))),
        Err(why) => failures.push(format!("{}: {why}", model.name)),
    }
    for fault in model.faults {
        match played(model, &format!("{fault:?}")) {
            Ok(output) if !output.status.success() => {
                let why = reason(&output);
                print(&format!("{}: notices {fault:?}: {why}", model.name));
            }
            Ok(_) => failures.push(format!("{}: does not notice {fault:?}", model.name)),
            Err(why) => failures.push(format!("{}: {why}", model.name)),
        }
    }
    failures
}

fn played(model: &Model, planted: &str) -> std::io::Result<Output> {
    Command::new(std::env::current_exe()?)
        .args([model.name, planted])
        .output()
}

/// The message of the first panic, in one line.
fn reason(output: &Output) -> String {
    let printed = String::from_utf8_lossy(&output.stderr);
    let mut lines = printed.lines();
    let panicked = lines.find(|line| line.contains("panicked at"));
    let message = lines.next().filter(|_| panicked.is_some());
    message.unwrap_or("it ended without a word").to_owned()
}

#[expect(clippy::print_stdout, reason = "what this program is for")]
fn print(line: &str) {
    println!("{line}");
}
