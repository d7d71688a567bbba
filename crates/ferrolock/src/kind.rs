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

/// A lock whose kind is forgotten: see [`AnyLock`](crate::AnyLock).
#[derive(Debug)]
#[non_exhaustive]
pub struct Any;

/// The read side of the read-write lock, Redisson's `RReadWriteLock.readLock()`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Read;

/// The write side of the read-write lock, Redisson's `RReadWriteLock.writeLock()`.
#[derive(Debug)]
#[non_exhaustive]
pub struct Write;

/// Several locks held as one: see [`MultiLock`](crate::MultiLock).
#[derive(Debug)]
#[non_exhaustive]
pub struct Multi;

/// The lock on a majority of independent servers: see [`QuorumLock`](crate::QuorumLock).
#[derive(Debug)]
#[non_exhaustive]
pub struct Quorum;

macro_rules! nameless {
    ($($kind:ident),+) => {
        $(
            impl sealed::Sealed for $kind {}
            impl Kind for $kind {}
            impl Lockable for $kind {}
        )+
    };
}
nameless!(Any, Multi);

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
named!(Plain, Fair, Fenced, Spin, Read, Write, Quorum);

mod sealed {
    pub trait Sealed {}
}
