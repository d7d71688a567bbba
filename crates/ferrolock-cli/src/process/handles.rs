//! Open handles, by number: what the command may inherit, and what it may not.
//!
//! Whoever starts `ferrolock` may pass handles on to the command, as `3< file` in a shell does. What `ferrolock` opened
//! itself is its own; but not every library marks what it opens as not to be inherited (LMDB does not).

use std::os::fd::RawFd;

/// Standard input, output and error output are everybody's.
const FIRST: RawFd = 3;

/// The handles above the standard streams that are open now; none where the system does not tell.
pub(crate) fn open_now() -> Vec<RawFd> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // Among them is the handle of this reading itself, which is closed on the way out.
    let handles: Vec<RawFd> = numbers.filter(|number| *number >= FIRST).collect();
    handles
        .into_iter()
        .filter(|handle| is_open(*handle))
        .collect()
}

/// Closes all but these and the standard streams. Only for a process that has opened nothing itself yet.
pub(crate) fn close_all_but(kept: &[RawFd]) {
    for handle in open_now() {
        if !kept.contains(&handle) {
            let _ = nix::unistd::close(handle);
        }
    }
}

fn is_open(handle: RawFd) -> bool {
    std::fs::symlink_metadata(format!("/proc/self/fd/{handle}")).is_ok()
}

/// As an argument for the gate.
pub(crate) fn to_text(handles: &[RawFd]) -> String {
    let numbers: Vec<String> = handles.iter().map(RawFd::to_string).collect();
    numbers.join(",")
}

/// The reverse; what is not a number is left out.
pub(crate) fn from_text(text: &str) -> Vec<RawFd> {
    text.split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn handles_are_read_as_they_are_written() {
        for handles in [vec![], vec![3], vec![3, 12, 251]] {
            assert_eq!(from_text(&to_text(&handles)), handles);
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_file_is_among_the_handles() {
        let file = tempfile::tempfile().unwrap();

        assert!(open_now().contains(&file.as_raw_fd()));
    }
}
