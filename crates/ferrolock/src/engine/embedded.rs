//! The same scripts, run without a server.
//!
//! `emulator` is a small server without a socket; `memory` shares one within the process, `file` between the processes of a
//! machine.

mod emulator;
#[cfg(target_os = "linux")]
mod file;
mod memory;

#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub(crate) use file::{FileEngine, StorePlace as Place};
pub(crate) use memory::MemoryEngine;
