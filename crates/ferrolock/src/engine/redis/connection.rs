//! A connection that is kept: opened, watched, replaced; bytes, handshake, calls and replies.

pub(super) mod link;
pub(super) mod live;
pub(super) mod pulse;
pub(super) mod report;
pub(super) mod scripts;
pub(super) mod stream;
#[cfg(feature = "tls")]
pub(super) mod tls;
