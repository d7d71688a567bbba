//! The same scripts, run inside the process.
//!
//! A small server without a socket, in layers: `keyspace` holds typed values with deadlines, `channels` knows who
//! listens, `server` is both at one point in time, `commands` is what a script may ask of it, and `lua` runs the
//! scripts. `memory` shares such a server within the process.

mod channels;
mod commands;
mod keyspace;
mod lua;
mod memory;
mod numbers;
mod server;

#[cfg(test)]
mod tests;

pub(crate) use memory::MemoryEngine;
