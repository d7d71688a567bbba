//! The other locks of the family on a server: what grows with the number of waiters and readers, and what does not.
//!
//! | file | the rows it measures |
//! |---|---|
//! | [`fair`], [`redisson`] | what a hand-over of a fair lock costs the server, by the number of waiters; scripts per acquisition |
//! | [`readers`] | what reading costs the server, by the number of readers |
//! | [`read_write`], [`crew`], [`client_replay`] | workers that mostly read, and how long a writer waits |
//! | [`multi`] | commands of a pair of four locks, and attempts where several want them |
//! | [`quorum`] | a pair on a majority of servers, some of which are stopped |

mod client_replay;
mod crew;
mod crowd;
mod fair;
mod multi;
mod quorum;
mod read_write;
mod readers;
mod redisson;

use crate::report::{Must, Row};
use crate::stage::Stage;

/// A row's short name, and the function that measures it.
type Measure = (&'static str, fn(&Stage) -> Vec<Row>);

pub(crate) const MEASURES: [Measure; 7] = [
    ("fair", fair::hand_over),
    ("fair-scripts", fair::scripts),
    ("readers", readers::measure),
    ("read-write", read_write::measure),
    ("multi", multi::commands),
    ("multi-attempts", multi::attempts),
    ("quorum", quorum::measure),
];

/// How many wait, or read, at once.
fn sizes(stage: &Stage, full: [usize; 3]) -> [usize; 3] {
    stage.scaled(full, [full[0], 30, 100])
}

/// A row without a reference.
fn plain_row(what: String, unit: &'static str, ours: f64, must: Must) -> Row {
    Row {
        what,
        unit,
        ours,
        reference: None,
        ratio: None,
        must,
    }
}
