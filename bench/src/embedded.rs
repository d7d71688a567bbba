//! The same lock without a server, beside one.
//!
//! | file | the row it measures |
//! |---|---|
//! | [`pair`] | how long a pair takes in `memory:` and `file:`, beside a server's |
//! | [`rate`] | pairs per second of several processes in one directory, beside the same on a server |
//! | [`wake`] | from a release in one process to running in another |
//! | [`program`] | what `ferrolock run` adds to a command; building it, and its size |

mod pair;
mod program;
pub(crate) mod rate;
mod wake;

use crate::Measure;

pub(crate) const MEASURES: [Measure; 5] = [
    ("pair", pair::measure),
    ("rate", rate::measure),
    ("wake", wake::measure),
    ("run", program::run),
    ("build", program::size),
];
