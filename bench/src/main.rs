//! What a lock costs, beside what it could cost: `cargo xtask bench lock` on a server, `cargo xtask bench embedded` without.
//!
//! Everything that is compared is measured in the same run, in turns: this machine's speed changes from minute to
//! minute, the ratio of two things measured within a second does not.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a program that measures real time and ends at the first surprise"
)]

mod embedded;
mod lock;
mod reference;
mod report;
mod rounds;

use crate::report::{Report, Row};
use testkit::{Kind, Server, process};

const USAGE: &str =
    "usage: bench lock|embedded [--json] [--server redis|valkey] [--only ROW,ROW...]";

/// A row's short name, and what measures it.
type Measure = (&'static str, fn(&Server) -> Vec<Row>);

struct Wishes {
    measures: &'static [Measure],
    json: bool,
    kind: Kind,
    only: Option<Vec<String>>,
}

fn main() {
    if let Some(role) = process::role() {
        return match role.name() {
            "pairs" => embedded::rate::help(&role),
            _ => lock::handover::help(&role),
        };
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(wishes) = read(&args) else {
        let rows = |measures: &[Measure]| {
            measures
                .iter()
                .map(|(name, _)| *name)
                .collect::<Vec<_>>()
                .join(", ")
        };
        eprintln!("{USAGE}");
        eprintln!("rows of lock: {}", rows(&lock::MEASURES));
        eprintln!("rows of embedded: {}", rows(&embedded::MEASURES));
        std::process::exit(2);
    };
    let server = Server::start(wishes.kind);
    let mut report = Report::new(&server);
    for (name, measure) in wishes.measures {
        if wishes
            .only
            .as_ref()
            .is_none_or(|only| only.iter().any(|wanted| wanted == name))
        {
            eprintln!("measuring {name} …");
            server.command(&["FLUSHALL"]);
            let rows = measure(&server);
            report.add(rows, reference::ping_p50(&server));
        }
    }
    report.print(wishes.json);
    if !report.passed() {
        std::process::exit(1);
    }
}

/// `None`: not to be understood.
fn read(args: &[String]) -> Option<Wishes> {
    let mut args = args.iter().map(String::as_str);
    let measures = match args.next()? {
        "lock" => lock::MEASURES.as_slice(),
        "embedded" => embedded::MEASURES.as_slice(),
        _ => return None,
    };
    let mut wishes = Wishes {
        measures,
        json: false,
        kind: Kind::Redis,
        only: None,
    };
    while let Some(arg) = args.next() {
        match arg {
            "--json" => wishes.json = true,
            "--server" => {
                wishes.kind = match args.next()? {
                    "redis" => Kind::Redis,
                    "valkey" => Kind::Valkey,
                    _ => return None,
                }
            }
            "--only" => wishes.only = Some(args.next()?.split(',').map(str::to_owned).collect()),
            _ => return None,
        }
    }
    Some(wishes)
}
