//! The names of keys and channels, as Redisson makes them.

use std::sync::Arc;

/// `P:{N}`, or `P:N` when the name has its own hash tag.
pub(super) fn prefixed(prefix: &str, name: &str) -> Arc<str> {
    if name.contains('{') {
        format!("{prefix}:{name}").into()
    } else {
        format!("{prefix}:{{{name}}}").into()
    }
}

/// `{N}:S`, or `N:S` when the name has its own hash tag.
pub(super) fn suffixed(name: &str, suffix: &str) -> Arc<str> {
    if name.contains('{') {
        format!("{name}:{suffix}").into()
    } else {
        format!("{{{name}}}:{suffix}").into()
    }
}

const LOCK_CHANNEL: &str = "redisson_lock__channel";

/// The channel on which a plain lock's release is announced.
pub(crate) fn lock_channel(name: &str) -> Arc<str> {
    prefixed(LOCK_CHANNEL, name)
}

const RW_CHANNEL: &str = "redisson_rwlock";

/// The channel on which releases of both sides of a read-write lock are announced.
pub(crate) fn rw_channel(name: &str) -> Arc<str> {
    prefixed(RW_CHANNEL, name)
}

/// Whether a key of a call looks like a channel. Names are the users', so it is a guess, good for speed only.
#[cfg_attr(
    not(all(feature = "embedded", target_os = "linux")),
    allow(dead_code, reason = "the store in a directory alone asks")
)]
pub(crate) fn looks_like_channel(key: &str) -> bool {
    key.starts_with(LOCK_CHANNEL) || key.starts_with(RW_CHANNEL)
}

/// The hash with details about the holders, for people; only this library uses it.
pub(crate) fn holder_details(name: &str) -> Arc<str> {
    prefixed("ferrolock_holder", name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_tagged_once() {
        assert_eq!(&*lock_channel("orders"), "redisson_lock__channel:{orders}");
        assert_eq!(
            &*lock_channel("{eu}:orders"),
            "redisson_lock__channel:{eu}:orders"
        );
        assert_eq!(&*holder_details("a b"), "ferrolock_holder:{a b}");
        assert_eq!(&*rw_channel("orders"), "redisson_rwlock:{orders}");
        assert_eq!(&*suffixed("orders", "a:1"), "{orders}:a:1");
        assert_eq!(&*suffixed("{eu}:orders", "a:1"), "{eu}:orders:a:1");
        assert!(looks_like_channel(&lock_channel("orders")));
        assert!(looks_like_channel(&rw_channel("orders")));
        assert!(!looks_like_channel(&holder_details("orders")));
        assert!(!looks_like_channel("orders"));
    }
}
