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

/// The lock that is first come, first served, Redisson's fair lock.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fair;

/// The lock whose grants have [fences](crate::Fence), Redisson's `RFencedLock`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Fenced;

/// The lock whose waiters need no messages, Redisson's spin lock.
#[derive(Debug)]
#[non_exhaustive]
pub struct Spin;

macro_rules! named {
    ($($kind:ident),+) => {
        $(
            impl sealed::Sealed for $kind {}
            impl Kind for $kind {}
            impl Lockable for $kind {}
            impl Named for $kind {}
        )+
    };
}
named!(Plain, Fair, Fenced, Spin);

mod sealed {
    pub trait Sealed {}
}
