//! The primitives, one thin file each.

pub(crate) mod lock;
