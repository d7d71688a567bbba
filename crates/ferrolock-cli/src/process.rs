//! The processes of a run, and what passes between them.
//!
//! ```text
//! ferrolock ──────┬── gate, then the command: a group of its own, and the terminal
//!   holds, renews │     └── its children
//!                 └── shim: a session of its own; kills the group when ferrolock is gone or late
//! ```
//!
//! The command is started behind a gate: `ferrolock` starts itself again in the command's group and becomes the command
//! only when `ferrolock` opens the gate, after the shim knows the group. Had the command been started directly, `kill -9` of
//! `ferrolock` between its start and the message to the shim would leave it running, and no process would end it. The gate
//! also lets `ferrolock` hand the terminal over before the command's first read.

pub(crate) mod child;
pub(crate) mod gate;
pub(crate) mod group;
pub(crate) mod handles;
pub(crate) mod orders;
pub(crate) mod procfs;
pub(crate) mod shim;
pub(crate) mod signals;
pub(crate) mod terminal;
pub(crate) mod watch;

use std::io;
use std::path::PathBuf;

/// First word of the shim's arguments.
pub(crate) const SHIM: &str = "__shim";
/// The shim's name in the list of processes: `pkill ferrolock` must not end it too.
pub(crate) const SHIM_NAME: &std::ffi::CStr = c"lease-shim";
/// First word of the gate's arguments.
pub(crate) const GATE: &str = "__gate";
/// The gate's name in the list of processes: `pkill ferrolock` may end it, as it is of no use without the rest of the run.
pub(crate) const GATE_NAME: &std::ffi::CStr = c"ferrolock";

/// This program, to be started again.
fn this_program() -> io::Result<PathBuf> {
    // The file that runs, also if an update has replaced or removed it meanwhile.
    if cfg!(target_os = "linux") {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}
