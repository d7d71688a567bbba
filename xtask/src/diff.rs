//! `cargo xtask diff`: random calls on both embedded engines (`memory:`, `file:`) and on servers, compared.

use crate::servers::Servers;
use crate::{shell, workspace};

const USAGE: &str = "usage: cargo xtask diff [--calls N] [--seed S]";
/// The number of calls without `--calls`.
const CALLS: u64 = 1_000_000;

/// The arguments.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    calls: u64,
    seed: Option<u64>,
}

pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let wanted = wanted(args)?;
    let root = workspace::root()?;
    let servers = Servers::get(&root);
    for line in &servers.missing {
        eprintln!("MISSING {line}");
    }
    let mut command = shell::cargo(&root);
    command
        .args([
            "test",
            "--quiet",
            "-p",
            "ferrolock",
            "--all-features",
            "--lib",
        ])
        .args(["engine::embedded::tests::differential", "--", "--nocapture"])
        .env("FERROLOCK_DIFF_CALLS", wanted.calls.to_string());
    if let Some(seed) = wanted.seed {
        command.env("FERROLOCK_DIFF_SEED", seed.to_string());
    }
    servers.hand_to(&mut command);
    shell::run(&mut command)
}

fn wanted(args: &[&str]) -> Result<Wanted, String> {
    let number = |text: &str| text.parse().map_err(|_| USAGE.to_owned());
    let mut wanted = Wanted {
        calls: CALLS,
        seed: None,
    };
    for pair in args.chunks(2) {
        match pair {
            ["--calls", calls] => wanted.calls = number(calls)?,
            ["--seed", seed] => wanted.seed = Some(number(seed)?),
            _ => return Err(USAGE.to_owned()),
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_and_seed_are_read_in_any_order() {
        let expected = Wanted {
            calls: 5,
            seed: Some(7),
        };

        assert_eq!(wanted(&["--seed", "7", "--calls", "5"]), Ok(expected));
        assert_eq!(wanted(&[]).map(|wanted| wanted.calls), Ok(CALLS));
    }

    #[test]
    fn wrong_arguments_return_the_usage() {
        for args in [
            &["--calls"][..],
            &["--calls", "x"],
            &["7"],
            &["--seed", "-1"],
        ] {
            assert_eq!(wanted(args), Err(USAGE.to_owned()), "{args:?}");
        }
    }
}
