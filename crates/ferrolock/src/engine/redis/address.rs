//! Address, credentials and limits of the server.

pub(super) mod config;
pub(super) mod url;
