//! The command line: its words, and the way to each subcommand.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use tracing_subscriber::filter::LevelFilter;

use crate::commands::{completions, man, run};
use crate::exit::USAGE;
use crate::report;

/// Runs commands under a lock: one at a time, on this machine or across machines
#[derive(Debug, Parser)]
#[command(name = "ferrolock", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true, propagate_version = true)]
pub(crate) struct Cli {
    /// Logs what happens to the error output; twice or three times for more
    #[arg(short, long, action = ArgAction::Count, global = true)]
    verbose: u8,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::RunArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
}

const EXAMPLES: &str = "\
Examples:
  ferrolock run nightly -- ./report.sh          one report at a time on this machine
  ferrolock run --try nightly -- ./report.sh    not at all if one is running
  ferrolock run --url redis://db nightly -- ./report.sh
                                                one at a time on all machines that use that server
  ferrolock run --help                          all options, exit codes and more examples";

/// Reads the arguments and does what they say.
pub(crate) fn run() -> ExitCode {
    let code = match Cli::try_parse() {
        Ok(cli) => obey(cli),
        Err(error) => tell(&error),
    };
    report::flush();
    code
}

fn obey(cli: Cli) -> ExitCode {
    log(cli.verbose);
    match cli.command {
        Command::Run(args) => run::cmd_run(args),
        Command::Completions(args) => completions::cmd_completions(&args),
        Command::Man(args) => man::cmd_man(&args),
    }
}

/// The description of all arguments, from which completions and manual pages are made.
pub(crate) fn description() -> clap::Command {
    Cli::command()
}

/// Help is printed as it is; of a mistake, one line that says what to do.
fn tell(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    report::complain(&one_line(error));
    ExitCode::from(USAGE)
}

/// The paragraph that says what is wrong, and which help to read.
fn one_line(error: &clap::Error) -> String {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return "no subcommand is given; see 'ferrolock --help'".to_owned();
    }
    let text = error.to_string();
    let mistake = text.split("\n\n").next().unwrap_or_default();
    let mistake = mistake.trim_start_matches("error: ");
    let words: Vec<&str> = mistake.split_whitespace().collect();
    let topic = if text.contains("ferrolock run") {
        " run"
    } else {
        ""
    };
    let remedy = if is_command_without_dashes(error) {
        ": write the command after --"
    } else {
        ""
    };
    format!("{}{remedy}; see 'ferrolock{topic} --help'", words.join(" "))
}

/// Whether there is a word too many that is no option. Only `run` takes a command, after `--`.
fn is_command_without_dashes(error: &clap::Error) -> bool {
    let word = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) => word,
        _ => return false,
    };
    error.kind() == ErrorKind::UnknownArgument
        && !word.starts_with('-')
        && error.to_string().contains("ferrolock run")
}

fn log(verbose: u8) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(report::Log)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_of_the_arguments_is_consistent() {
        description().debug_assert();
    }

    #[test]
    fn the_error_of_a_wrong_argument_is_one_line() {
        let cases = [
            (
                vec![
                    "ferrolock",
                    "run",
                    "x",
                    "--lease",
                    "5 parsecs",
                    "--",
                    "true",
                ],
                "5 parsecs",
            ),
            (vec!["ferrolock", "run", "--", "true"], "NAME"),
            (vec!["ferrolock", "run", "x"], "COMMAND"),
            (
                vec![
                    "ferrolock",
                    "run",
                    "x",
                    "--try",
                    "--wait",
                    "1s",
                    "--",
                    "true",
                ],
                "--wait",
            ),
            (vec!["ferrolock", "run", "x", "echo", "hi"], "after --;"),
            (vec!["ferrolock"], "no subcommand"),
            (vec!["ferrolock", "ran"], "ran"),
        ];
        for (words, part) in cases {
            let error = Cli::try_parse_from(words).unwrap_err();

            let line = one_line(&error);

            assert!(!line.contains('\n') && line.contains(part), "{line}");
            assert!(line.contains("--help"), "{line}");
        }
    }
}
