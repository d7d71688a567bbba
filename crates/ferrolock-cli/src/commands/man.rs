//! `ferrolock man`: the manual page.

use std::io;
use std::process::ExitCode;

use clap::Args;
use clap_mangen::Man;

use crate::cli;

/// Prints the manual page, in roff
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ManArgs {
    /// The subcommand to print the page of; without it, the page of ferrolock itself
    command: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  ferrolock man run | man -l -
  ferrolock man > /usr/local/share/man/man1/ferrolock.1
  ferrolock man run > /usr/local/share/man/man1/ferrolock-run.1";

pub(crate) fn cmd_man(args: &ManArgs) -> ExitCode {
    match page(args.command.as_deref()) {
        Ok(text) => super::print(&text),
        Err(why) => {
            crate::report::complain(&why);
            ExitCode::from(crate::exit::USAGE)
        }
    }
}

fn page(command: Option<&str>) -> Result<Vec<u8>, String> {
    let mut all = cli::description();
    // This gives the subcommands their full names.
    all.build();
    let described = match command {
        None => all,
        Some(name) => all
            .find_subcommand(name)
            .cloned()
            .ok_or_else(|| format!("there is no subcommand {name:?}; see 'ferrolock --help'"))?,
    };
    let name = match command {
        None => "ferrolock".to_owned(),
        Some(name) => format!("ferrolock-{name}"),
    };
    render(described.display_name(name)).map_err(|why| format!("the page cannot be made: {why}"))
}

fn render(mut described: clap::Command) -> io::Result<Vec<u8>> {
    let usage = described.render_usage().to_string();
    let mut text = Vec::new();
    Man::new(described).render(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    // The generator's own synopsis lists every option, and does not know of the `--` before a command.
    let mut lines: Vec<&str> = text.lines().collect();
    let usage = usage.trim_start_matches("Usage: ").replace('-', r"\-");
    if let Some(title) = lines.iter().position(|line| *line == ".SH SYNOPSIS")
        && let Some(synopsis) = lines.get_mut(title + 1)
    {
        *synopsis = &usage;
    }
    Ok((lines.join("\n") + "\n").into_bytes())
}
