//! The kinds of lock: markers that add what one kind alone can do.

/// Every kind of hold.
pub trait Kind: sealed::Sealed + Send + Sync + 'static {}

/// Kinds that [`Lock`](crate::Lock) handles exist for.
pub trait Lockable: Kind {}

/// Kinds with one name.
pub trait Named: Lockable {}

/// The reentrant lock, Redisson's `RLock`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Plain;

impl Kind for Plain {}
impl Lockable for Plain {}
impl Named for Plain {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Plain {}
}
