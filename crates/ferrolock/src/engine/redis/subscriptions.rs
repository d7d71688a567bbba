//! Subscriptions, over a connection of their own.

pub(super) mod bus;
pub(super) mod table;
