//! The same scripts, run without a server.
//!
//! A small server without a socket, in layers: `keyspace` holds typed values with deadlines, `channels` knows who
//! listens, `server` is both at one point in time, `commands` is what a script may ask of it, and `lua` runs the
//! scripts. `memory` shares such a server within the process, `file` between the processes of a machine.

mod channels;
mod commands;
#[cfg(target_os = "linux")]
mod file;
mod keyspace;
mod lua;
mod memory;
mod numbers;
mod server;

#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub(crate) use file::{FileEngine, Place};
pub(crate) use memory::MemoryEngine;
