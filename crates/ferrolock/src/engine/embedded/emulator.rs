//! A small server without a socket, in layers: `keyspace` holds typed values with deadlines, `channels` holds the
//! listeners, `server` is both at one point in time, `commands` has the commands that a script may call, and `lua` runs
//! the scripts.

pub(super) mod channels;
pub(super) mod commands;
pub(super) mod keyspace;
pub(super) mod lua;
pub(super) mod numbers;
pub(super) mod server;
