//! What a lock costs, beside the least it could cost: `cargo xtask bench lock` on a server, `cargo xtask bench embedded`
//! without one; `cargo xtask bench family` for the other locks; and beside the cost of Redisson's: `cargo xtask bench peers`.
//!
//! Everything that is compared is measured in the same run, in turns: the speed of a machine changes from minute to
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
mod family;
mod lock;
mod peers;
mod reference;
mod report;
mod rounds;
mod seen;
mod stage;

use crate::report::{Report, Row};
use crate::stage::{Pace, Stage};
use testkit::{Kind, Server, process};

const USAGE: &str =
    "usage: bench lock|embedded|family|peers [--json] [--server redis|valkey] [--only ROW,ROW...] [--quick]
--quick, of family and peers only: to see that it works; what it shows says nothing";

/// A row's short name, and the function that measures it.
type Measure = (&'static str, fn(&Server) -> Vec<Row>);

struct Wishes {
    what: What,
    json: bool,
    kind: Kind,
    only: Option<Vec<String>>,
    pace: Pace,
}

enum What {
    Measures(&'static [Measure]),
    Family,
    Peers,
}

impl Wishes {
    /// Whether the row of that name is to be measured.
    fn wants(&self, name: &str) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| only.iter().any(|wanted| wanted == name))
    }
}

fn main() {
    process::play(&[
        ("pairs", embedded::rate::help),
        ("peer", peers::worker::help),
        ("bare", lock::handover::help_bare),
        ("handover", lock::handover::help),
    ]);
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [once, url, name] = args.as_slice()
        && once == peers::ONCE
    {
        return peers::worker::once(url, name);
    }
    let Some(wishes) = read(&args) else {
        usage();
        std::process::exit(2);
    };
    match wishes.what {
        What::Measures(measures) => measure(&wishes, measures, |row, stage| row(&stage.server)),
        What::Family => measure(&wishes, &family::MEASURES, |row, stage| row(stage)),
        What::Peers => peers::run(&wishes),
    }
}

fn usage() {
    let rows = |measures: &[Measure]| measures.iter().map(|row| row.0).collect::<Vec<_>>();
    eprintln!("{USAGE}");
    eprintln!("rows of lock: {}", rows(&lock::MEASURES).join(", "));
    eprintln!("rows of embedded: {}", rows(&embedded::MEASURES).join(", "));
    eprintln!(
        "rows of family: {}",
        family::MEASURES.map(|row| row.0).join(", ")
    );
    eprintln!("rows of peers: {}", peers::ROWS.map(|row| row.0).join(", "));
}

/// Measures the rows that the arguments ask for, and prints them.
fn measure<M: Copy>(wishes: &Wishes, measures: &[(&str, M)], run: impl Fn(M, &Stage) -> Vec<Row>) {
    let stage = Stage {
        server: Server::start(wishes.kind),
        pace: wishes.pace,
    };
    let mut report = Report::new(&stage);
    for (name, measure) in measures {
        if wishes.wants(name) {
            eprintln!("measuring {name} …");
            stage.server.command(&["FLUSHALL"]);
            let rows = run(*measure, &stage);
            report.add(rows, reference::ping_p50(&stage.server));
        }
    }
    report.print(wishes.json);
    if !report.passed() {
        std::process::exit(1);
    }
}

/// `None`: the arguments are wrong.
fn read(args: &[String]) -> Option<Wishes> {
    let mut args = args.iter().map(String::as_str);
    let what = match args.next()? {
        "lock" => What::Measures(&lock::MEASURES),
        "embedded" => What::Measures(&embedded::MEASURES),
        "family" => What::Family,
        "peers" => What::Peers,
        _ => return None,
    };
    let mut wishes = Wishes {
        what,
        json: false,
        kind: Kind::Redis,
        only: None,
        pace: Pace::Full,
    };
    while let Some(arg) = args.next() {
        match arg {
            "--json" => wishes.json = true,
            "--quick" if matches!(wishes.what, What::Family | What::Peers) => {
                wishes.pace = Pace::Quick
            }
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
