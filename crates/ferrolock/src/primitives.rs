//! What threads meet in, for the files whose orderings are modelled: `orderings/` puts `loom`'s in their place.

#[cfg(feature = "redis")]
pub(crate) use std::sync::atomic::AtomicUsize;
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering, fence,
};
pub(crate) use std::sync::{Mutex, MutexGuard, OnceLock};

pub(crate) use tokio::sync::Notify;
