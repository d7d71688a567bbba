//! Guards of all kinds, in one place.

use std::pin::Pin;

use ferrolock::kind::{Fair, Fenced, Lockable, Multi, Plain, Quorum, Read, Spin, Write};
use ferrolock::{Fence, Guard, OwnerId, Unlocked};

/// A guard of any kind.
pub(super) trait Held: Send {
    fn is_held(&self) -> bool;
    /// `None`: it holds several locks.
    fn owner_id(&self) -> Option<&OwnerId>;
    fn fence(&self) -> Option<Fence>;
    fn unlock(self: Box<Self>)
    -> Pin<Box<dyn Future<Output = ferrolock::Result<Unlocked>> + Send>>;
}

/// A kind of lock that is played.
pub(super) trait Played: Lockable + Sized {
    fn owner_id(guard: &Guard<Self>) -> Option<&OwnerId>;

    fn fence(_: &Guard<Self>) -> Option<Fence> {
        None
    }
}

macro_rules! played {
    ($($kind:ident),+) => {$(
        impl Played for $kind {
            fn owner_id(guard: &Guard<Self>) -> Option<&OwnerId> {
                Some(guard.owner_id())
            }
        }
    )+};
    (several: $($kind:ident),+) => {$(
        impl Played for $kind {
            fn owner_id(_: &Guard<Self>) -> Option<&OwnerId> {
                None
            }
        }
    )+};
}
played!(Plain, Fair, Spin, Read, Write);
played!(several: Multi, Quorum);

impl Played for Fenced {
    fn owner_id(guard: &Guard<Self>) -> Option<&OwnerId> {
        Some(guard.owner_id())
    }

    fn fence(guard: &Guard<Self>) -> Option<Fence> {
        Some(guard.fence())
    }
}

impl<K: Played> Held for Guard<K> {
    fn is_held(&self) -> bool {
        Guard::is_held(self)
    }

    fn owner_id(&self) -> Option<&OwnerId> {
        K::owner_id(self)
    }

    fn fence(&self) -> Option<Fence> {
        K::fence(self)
    }

    fn unlock(
        self: Box<Self>,
    ) -> Pin<Box<dyn Future<Output = ferrolock::Result<Unlocked>> + Send>> {
        Box::pin(Guard::unlock(*self))
    }
}
