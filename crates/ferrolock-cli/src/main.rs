//! The `ferrolock` command: runs other commands under a lock.
//!
//! | where | what |
//! |---|---|
//! | `cli.rs`, `commands/` | the arguments; one file per subcommand |
//! | `process/` | groups, the shim, the gate, signals and the terminal |
//! | `address.rs`, `store.rs` | where the locks are |
//! | `report.rs`, `exit.rs` | everything that is printed, and the exit codes |

#[cfg(not(unix))]
compile_error!("the command line needs process groups and signals, which only Unix has");

mod address;
mod cli;
mod clock;
mod commands;
mod exit;
mod process;
mod program;
mod report;
mod store;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let first = words.next();
    // Two processes of ours start with every run: they must not wait for the arguments' parser.
    match first.as_deref().and_then(|word| word.to_str()) {
        Some(process::SHIM) => process::watch::run(),
        Some(process::GATE) => process::gate::wait_and_become(words),
        _ => cli::run(),
    }
}
