//! Ours beside the real Redisson: one server, both drivers, in turns.
//!
//! | file | what is in it |
//! |---|---|
//! | [`duel`] | two sides, warmed up and measured in turns |
//! | [`meter`] | what that costs: processor time of both ends, commands |
//! | [`party`] | the processes of a side, which all get the same commands |
//! | [`worker`], [`replay`] | a process of ours, and Redisson's way of waiting without its JVM |
//! | [`table`] | the results, for people and for programs |
//! | [`pairs`] | rows: one worker on one name, many workers on many names |
//! | [`contend`] | rows: processes, or workers of one, that want one lock |
//! | [`handoff`] | row: from a release in one process to running in another |
//! | [`renewal`] | row: what ten thousand held locks cost |
//! | [`start`] | row: a process from its start to its end |

mod contend;
mod duel;
mod handoff;
mod meter;
mod pairs;
mod party;
mod renewal;
mod replay;
mod start;
mod table;
pub(crate) mod worker;

use self::duel::Row;
use self::table::Table;
use crate::Wishes;
use crate::reference::ping_p50;
use crate::stage::Stage;
use testkit::{Redisson, Server};

/// With this argument, an address and a name, this program locks and unlocks once.
pub(crate) const ONCE: &str = "once";

/// A row's short name, and the function that measures it.
type Compare = (&'static str, fn(&Stage) -> Row);

pub(crate) const ROWS: [Compare; 11] = [
    ("pair", pairs::one),
    ("names-64", pairs::workers_64),
    ("names-256", pairs::workers_256),
    ("processes-2", contend::processes_2),
    ("processes-8", contend::processes_8),
    ("replay-8", contend::replay_8),
    ("replay-16", contend::replay_16),
    ("workers-64", contend::workers_64),
    ("handoff", handoff::measure),
    ("renewal", renewal::measure),
    ("start", start::measure),
];

/// Measures the rows that the arguments ask for, and prints them.
pub(crate) fn run(wishes: &Wishes) {
    if !Redisson::Newest.is_here() {
        eprintln!(
            "nothing to compare with: Java or Maven are missing, or Redisson's driver cannot be built"
        );
        std::process::exit(1);
    }
    let stage = Stage {
        server: Server::start(wishes.kind),
        pace: wishes.pace,
    };
    let mut table = Table::new(&stage.server, wishes.pace);
    for (name, measure) in ROWS {
        if wishes.wants(name) {
            eprintln!("measuring {name} …");
            stage.server.command(&["FLUSHALL"]);
            let row = measure(&stage);
            table.add(row, ping_p50(&stage.server));
        }
    }
    table.print(wishes.json);
}
