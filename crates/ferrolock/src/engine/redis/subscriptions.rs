//! Subscriptions over one connection more.

pub(super) mod bus;
pub(super) mod table;
