//! Open handles: which of them the command may inherit, and handing one to another process.
//!
//! The process that starts `ferrolock` may pass handles on to the command, as `3< file` in a shell does. The command must
//! not inherit those that `ferrolock` opened itself; but not every library opens its files with close-on-exec (LMDB does
//! not).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// The first handle above standard input, output and error output, which every process inherits.
const FIRST: RawFd = 3;

/// The handles above the standard streams that are open now; none where the system has no `/proc`.
pub(crate) fn open_now() -> Vec<RawFd> {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else {
        return Vec::new();
    };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    // Among them is the handle of this listing itself, which is closed once it was read.
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

/// Hands a copy of a handle to the process at the other end of the socket, with a text, which may be empty.
pub(crate) fn pass(socket: &UnixStream, handle: BorrowedFd<'_>, text: &[u8]) -> io::Result<()> {
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    let handles = [handle];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&handles));
    let length = length.to_ne_bytes();
    let bytes = [IoSlice::new(&length)];
    sendmsg(socket, &bytes, &mut control, SendFlags::empty())?;
    (&mut &*socket).write_all(text)
}

/// Receives a handle and its text, and waits for them if `flags` do not say otherwise. `None`: the other end is gone. One
/// cause of an error: the message came without the handle.
pub(crate) fn receive(
    socket: &UnixStream,
    flags: RecvFlags,
) -> io::Result<Option<(OwnedFd, Vec<u8>)>> {
    let mut length = [0; size_of::<u32>()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = retry_on_intr(|| {
        let bytes = &mut [IoSliceMut::new(&mut length)];
        recvmsg(socket, bytes, &mut control, flags)
    })?;
    let handle = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
        _ => None,
    });
    let Some(handle) = handle else {
        let is_lost = received.bytes > 0;
        // This happens when this process may have no more handles.
        return if is_lost {
            Err(Errno::MFILE.into())
        } else {
            Ok(None)
        };
    };
    let mut text = vec![0; u32::from_ne_bytes(length) as usize];
    (&mut &*socket).read_exact(&mut text)?;
    Ok(Some((handle, text)))
}

/// The handles as an argument for the gate.
pub(crate) fn to_text(handles: &[RawFd]) -> String {
    let numbers: Vec<String> = handles.iter().map(RawFd::to_string).collect();
    numbers.join(",")
}

/// The reverse of `to_text`; words that are no numbers are left out.
pub(crate) fn from_text(text: &str) -> Vec<RawFd> {
    text.split(',')
        .filter_map(|number| number.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn handles_are_read_as_they_are_written() {
        for handles in [vec![], vec![3], vec![3, 12, 251]] {
            assert_eq!(from_text(&to_text(&handles)), handles);
        }
    }

    #[test]
    fn a_handle_that_is_passed_is_the_same_file() {
        use std::io::Seek;
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();

        pass(&here, file.as_fd(), b"and a text").unwrap();
        let passed = receive(&there, RecvFlags::empty()).unwrap();
        let (passed, with) = passed.unwrap();

        file.write_all(b"written").unwrap();
        file.rewind().unwrap();
        let mut text = String::new();
        let mut passed = std::fs::File::from(passed);
        passed.read_to_string(&mut text).unwrap();
        assert_eq!(
            (text.as_str(), with.as_slice()),
            ("written", &b"and a text"[..])
        );
        drop(here);
        let after = receive(&there, RecvFlags::empty()).unwrap();
        assert!(after.is_none(), "{after:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn an_open_file_is_among_the_handles() {
        let file = tempfile::tempfile().unwrap();

        assert!(open_now().contains(&file.as_raw_fd()));
    }
}
