//! Where the server is, and how to enter.

pub(super) mod config;
pub(super) mod url;
