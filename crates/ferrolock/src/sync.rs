//! The primitives, one thin file each.

pub(crate) mod any_lock;
pub(crate) mod fair_lock;
pub(crate) mod fenced_lock;
pub(crate) mod lock;
pub(crate) mod multi_lock;
pub(crate) mod quorum;
pub(crate) mod quorum_lock;
pub(crate) mod rw_lock;
pub(crate) mod spin_lock;
mod target;
