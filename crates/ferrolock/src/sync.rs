//! The primitives, one thin file each.

pub(crate) mod fair_lock;
pub(crate) mod fenced_lock;
pub(crate) mod lock;
pub(crate) mod spin_lock;
