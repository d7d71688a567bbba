//! `ferrolock completions`: what a shell needs to complete our words.

use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::cli;

/// Prints completions for a shell
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "\
Examples:
  ferrolock completions bash > ~/.local/share/bash-completion/completions/ferrolock
  ferrolock completions zsh > ~/.zfunc/_ferrolock
  ferrolock completions fish > ~/.config/fish/completions/ferrolock.fish";

pub(crate) fn cmd_completions(args: &CompletionsArgs) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut cli::description(), "ferrolock", &mut text);
    super::print(&text)
}
