//! The project's own commands: `cargo xtask test`, `flaky`, `mutants`, `tidy`, `api`, `diff` and `bench`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command speaks by printing"
)]

mod api;
mod bench;
mod diff;
mod flaky;
mod java;
mod msrv;
mod mutants;
mod package;
mod packages;
mod servers;
mod shell;
mod source;
mod suite;
mod test;
mod tidy;
mod tree;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test [--quick | --long]   every check, in order; --quick: no servers, no docs, no older toolchain; --long: tests that
                            count rounds or grants go on about ten times as long
  flaky [--times N] [--load M] [--limit SECONDS] [FILTER...]
                            the tests N times (3) beside M busy processes (2), and how often each failed; a test
                            binary is ended after the limit (1800). FILTER: only tests with one of them in their
                            path, ferrolock/waiting::wakes::...; without examples in docs
  mutants [args...]         changes the code that decides, one thing at a time, and names what no unit test notices;
                            an hour and more. Args go to cargo-mutants: --re keeper/watch does less
  tidy                      the rules of the tree that no compiler knows
  api [--write]             prints the public API; --write: into public-api.txt
  diff [--calls N] [--seed S]
                            random calls on the embedded engine and on servers, compared
  bench <name> [args...]    runs a benchmark (lock, embedded, family, peers) on servers of its own; --json: for programs";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if let [suite::runner::WORD, binary, rest @ ..] = args.as_slice() {
        return suite::runner::run(binary, rest);
    }
    if args == [flaky::load::WORD] {
        flaky::load::be_busy();
    }
    let done = match args.as_slice() {
        ["test"] => test::run(test::Extent::Full),
        ["test", "--quick"] => test::run(test::Extent::Quick),
        ["test", "--long"] => test::run(test::Extent::Long),
        ["flaky", rest @ ..] => flaky::run(rest),
        [mutants::WORD, filters, binary, rest @ ..] => mutants::run_first(filters, binary, rest),
        ["mutants", rest @ ..] => mutants::run(rest),
        ["tidy"] => tidy::run(),
        ["api"] => api::print(),
        ["api", "--write"] => api::write(),
        ["diff", rest @ ..] => diff::run(rest),
        ["bench", name, rest @ ..] => bench::run(name, rest),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => Err(USAGE.to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
