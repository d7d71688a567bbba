//! The library's hand-made waiting and atomics, played in every order of steps, with every value that a load may see.
//!
//! The files are the library's own, by their paths; around them stands as little as lets them compile. A model that
//! passes is played again with each of its faults planted, and must fail: else it proves nothing.

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
        tell(&format!("FAILED {failure}"));
    }
    if failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Plays one model in this process, which a model that fails may abort.
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

/// Plays one model as it is and with each fault, in processes of their own. What was not as it should be.
fn judge(model: &Model) -> Vec<String> {
    let mut failures = Vec::new();
    match played(model, "none") {
        Ok(output) if output.status.success() => tell(&format!("{}: holds", model.name)),
        Ok(output) => failures.push(format!("{}: {}", model.name, reason(&output))),
        Err(why) => failures.push(format!("{}: {why}", model.name)),
    }
    for fault in model.faults {
        match played(model, &format!("{fault:?}")) {
            Ok(output) if !output.status.success() => {
                let why = reason(&output);
                tell(&format!("{}: notices {fault:?}: {why}", model.name));
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

/// What the first panic said, in one line.
fn reason(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    let mut lines = told.lines();
    let panicked = lines.find(|line| line.contains("panicked at"));
    let said = lines.next().filter(|_| panicked.is_some());
    said.unwrap_or("it ended without a word").to_owned()
}

#[expect(clippy::print_stdout, reason = "what this program is for")]
fn tell(line: &str) {
    println!("{line}");
}
