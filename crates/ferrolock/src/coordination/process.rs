//! Identity of this process and its clients: process id, client ids, the host name.

use crate::engine::Clock;

#[cfg(not(test))]
pub(crate) use self::known::id;

#[cfg(test)]
thread_local! {
    static CHILD: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(crate) fn id() -> u32 {
    CHILD.get().unwrap_or_else(known::id)
}

/// Makes this thread look like one of a forked child with that process id; `None` ends that.
#[cfg(all(test, feature = "embedded"))]
pub(super) fn fork(child: Option<u32>) {
    CHILD.set(child);
}

/// The process id, asked at every lock and unlock.
#[cfg(target_os = "linux")]
mod known {
    use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

    /// Without a system call: it is kept in a page that the kernel empties in a forked child.
    pub(crate) fn id() -> u32 {
        let Some(known) = page() else {
            return std::process::id();
        };
        match known.load(Ordering::Relaxed) {
            0 => {
                let id = std::process::id();
                known.store(id, Ordering::Relaxed);
                id
            }
            id => id,
        }
    }

    /// `None`: the kernel does not do that. Without a lock: a child that was forked while another thread had it could not go
    /// on.
    #[expect(
        unsafe_code,
        reason = "a page of our own, of zeros, never unmapped, and used as one aligned atomic number"
    )]
    fn page() -> Option<&'static AtomicU32> {
        static PAGE: AtomicPtr<AtomicU32> = AtomicPtr::new(std::ptr::null_mut());
        static IS_NONE: AtomicBool = AtomicBool::new(false);
        let known = PAGE.load(Ordering::Acquire);
        if !known.is_null() {
            return Some(unsafe { &*known });
        }
        if IS_NONE.load(Ordering::Relaxed) {
            return None;
        }
        // An emulator that says yes to everything does nothing. The kernel refuses it for memory that is shared.
        let shared = wiped(MapFlags::SHARED);
        let Some(page) = wiped(MapFlags::PRIVATE).filter(|_| shared.is_none()) else {
            IS_NONE.store(true, Ordering::Relaxed);
            return None;
        };
        let first = PAGE.compare_exchange(
            std::ptr::null_mut(),
            page,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        // Another thread may have been first: then this page is left as it is.
        Some(unsafe { &*first.map_or_else(|known| known, |_| page) })
    }

    /// A page that a forked child finds empty; `None`: refused.
    #[expect(unsafe_code, reason = "a new mapping, unmapped only if it is not used")]
    fn wiped(sharing: MapFlags) -> Option<*mut AtomicU32> {
        let size = rustix::param::page_size();
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        unsafe {
            let page = mmap_anonymous(std::ptr::null_mut(), size, rights, sharing).ok()?;
            if madvise(page, size, Advice::LinuxWipeOnFork).is_err() {
                let _ = munmap(page, size);
                return None;
            }
            Some(page.cast())
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod known {
    pub(crate) use std::process::id;
}

/// A client id, version 8: random, or made of a seed.
pub(super) fn new_client_id(seed: Option<u64>) -> String {
    let mut bytes = [0_u8; 16];
    if let Some(seed) = seed {
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
    } else if getrandom::fill(&mut bytes).is_err() {
        // No source of random bits, which hardly exists: the process, its clock and the generator's own seed.
        let (process, random) = (u64::from(id()), fastrand::u64(..));
        let moment = Clock::Boot
            .now()
            .as_nanos()
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        bytes = (u128::from(random ^ process.rotate_left(32)) << 64 | u128::from(moment ^ process))
            .to_be_bytes();
    }
    let n = u128::from_be_bytes(bytes);
    let n = (n & !(0xf << 76)) | (8 << 76);
    let n = (n & !(0b11 << 62)) | (0b10 << 62);
    let part = |shift: u32, mask: u128| (n >> shift) & mask;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 0xffff_ffff),
        part(80, 0xffff),
        part(64, 0xffff),
        part(48, 0xffff),
        part(0, 0xffff_ffff_ffff)
    )
}

#[cfg(unix)]
pub(super) fn host_name() -> String {
    rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned()
}

#[cfg(not(unix))]
pub(super) fn host_name() -> String {
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_process_id_is_that_of_the_system() {
        for _ in 0..2 {
            assert_eq!(known::id(), std::process::id());
        }
    }

    #[test]
    fn a_client_id_is_a_version_8_uuid() {
        let id = new_client_id(None);

        assert_eq!(id.len(), 36);
        assert_eq!(id.as_bytes()[14], b'8');
        assert!(matches!(id.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
        assert_eq!(id.matches('-').count(), 4);
        assert_ne!(id, new_client_id(None));
        assert_eq!(new_client_id(Some(7)), new_client_id(Some(7)));
    }
}
