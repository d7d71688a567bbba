//! What a lock costs, beside what it could cost: `cargo xtask bench lock [--json] [--server valkey]`.
//!
//! Everything that is compared is measured in the same run, in turns: this machine's speed changes from minute to
//! minute, the ratio of two things measured within a second does not.
//!
//! | file | the row it measures |
//! |---|---|
//! | [`commands`] | commands per pair |
//! | [`server_cpu`], [`redisson`] | what a pair costs the server, beside Redisson's flow |
//! | [`pair`] | how long a pair takes, beside two PINGs |
//! | [`throughput`], [`bare`] | pairs per second, beside ready-made bytes |
//! | [`handover`] | from a release in one process to running in another |
//! | [`renewal`] | what ten thousand held locks cost |
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

mod bare;
mod commands;
mod handover;
mod pair;
mod redisson;
mod reference;
mod renewal;
mod report;
mod rounds;
mod server_cpu;
mod throughput;

use crate::report::{Report, Row};
use testkit::{Kind, Server, process};

const USAGE: &str = "usage: bench lock [--json] [--server redis|valkey] [--only ROW,ROW...]
rows: commands, server-cpu, pair, throughput, handover, renewal";

/// A row's short name, and what measures it.
type Measure = (&'static str, fn(&Server) -> Vec<Row>);

const MEASURES: [Measure; 6] = [
    ("commands", commands::measure),
    ("server-cpu", server_cpu::measure),
    ("pair", pair::measure),
    ("throughput", throughput::measure),
    ("handover", handover::measure),
    ("renewal", renewal::measure),
];

struct Wishes {
    json: bool,
    kind: Kind,
    only: Option<Vec<String>>,
}

fn main() {
    if let Some(role) = process::role() {
        return handover::help(&role);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let Some(wishes) = read(&args) else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    let server = Server::start(wishes.kind);
    let mut report = Report::new(&server);
    for (name, measure) in MEASURES {
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
    if args.next() != Some("lock") {
        return None;
    }
    let mut wishes = Wishes {
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
