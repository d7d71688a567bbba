//! A small server without a socket, in layers: `keyspace` holds typed values with deadlines, `channels` knows who
//! listens, `server` is both at one point in time, `commands` is what a script may ask of it, and `lua` runs the scripts.

pub(super) mod channels;
pub(super) mod commands;
pub(super) mod keyspace;
pub(super) mod lua;
pub(super) mod numbers;
pub(super) mod server;
