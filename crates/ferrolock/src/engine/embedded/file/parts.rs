//! What a store consists of, by names and kinds.
//!
//! A removal may be ended half-way, or run while a process begins a store: any part may be missing then. The rest is
//! recognized as a store's, and files that are no store's are left alone.
//!
//! ```text
//! .          every process that uses the store has its lock, shared; one that begins a store has it alone
//! store      the header; every process that uses the store has its lock, shared
//! turn       the process that has its lock may change the map
//! map-…/     the table (LMDB)
//! sessions/  a file per process, locked while it lives, and the socket at which it is woken
//! ```

use std::fs::{self, DirEntry, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::header::Header;
use super::map;
use super::rows::Inode;
use super::session::session_of_file;

pub(super) const STORE: &str = "store";
pub(super) const TURN: &str = "turn";
pub(super) const SESSIONS: &str = "sessions";
const MAP: &str = "map-";

/// How much of a store with a whole header is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    Whole,
    /// A part is missing, as after a removal that was ended half-way.
    Halved,
    /// A part is another file than the header says: no removal does that.
    Replaced,
}

/// How much of the store with that header is in the directory.
pub(super) fn extent(inside: &Path, header: &Header, device: u64) -> io::Result<Extent> {
    let sessions = none_if_missing(fs::symlink_metadata(inside.join(SESSIONS)))?;
    if sessions.as_ref().is_some_and(|sessions| !sessions.is_dir()) {
        return Ok(Extent::Replaced);
    }
    let mut is_halved = sessions.is_none();
    for (found, number) in files(inside, &header.map)?.into_iter().zip(header.files) {
        match found {
            None => is_halved = true,
            Some(found) if found == (Inode { device, number }) => {}
            Some(_) => return Ok(Extent::Replaced),
        }
    }
    Ok(if is_halved {
        Extent::Halved
    } else {
        Extent::Whole
    })
}

/// The files that a header names, as they are now.
pub(super) fn files(inside: &Path, map: &str) -> io::Result<[Option<Inode>; 3]> {
    let look = |file: &Path| {
        let found = none_if_missing(fs::symlink_metadata(file))?;
        io::Result::Ok(found.map(|found| Inode {
            device: found.dev(),
            number: found.ino(),
        }))
    };
    let [data, locks] = map::FILES.map(|name| inside.join(map).join(name));
    Ok([look(&data)?, look(&locks)?, look(&inside.join(TURN))?])
}

/// Whether the directory is empty or has only parts of a store. The file `store` counts as one, whatever is in it.
pub(super) fn are_all_ours(inside: &Path) -> io::Result<bool> {
    for entry in entries(inside)? {
        if !is_ours(&entry)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_ours(entry: &DirEntry) -> io::Result<bool> {
    // A file that is gone by now does not count.
    let Some(found) = none_if_missing(entry.metadata())? else {
        return Ok(true);
    };
    Ok(match entry.file_name().to_str() {
        Some(STORE) => true,
        Some(TURN) => is_private(&found) && is_empty_file(&found),
        Some(SESSIONS) => is_private(&found) && found.is_dir() && have_only(entry, is_of_session)?,
        Some(name) if is_map(name) => {
            is_private(&found) && found.is_dir() && have_only(entry, is_of_map)?
        }
        _ => false,
    })
}

/// Our files can be used by no other user; files made with default rights mostly can.
fn is_private(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw() && found.permissions().mode() & 0o077 == 0
}

fn is_empty_file(found: &Metadata) -> bool {
    found.is_file() && found.len() == 0
}

fn have_only(folder: &DirEntry, is_one: fn(&str, &Metadata) -> bool) -> io::Result<bool> {
    for entry in entries(&folder.path())? {
        let Some(found) = none_if_missing(entry.metadata())? else {
            continue;
        };
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| is_one(name, &found)) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_of_session(name: &str, found: &Metadata) -> bool {
    session_of_file(name).is_some() && (is_empty_file(found) || found.file_type().is_socket())
}

fn is_of_map(name: &str, found: &Metadata) -> bool {
    map::FILES.contains(&name) && found.is_file()
}

/// Whether a process lives that has, or whose child has, the lock of its session's file.
pub(super) fn have_living_sessions(inside: &Path) -> io::Result<bool> {
    // A file with the name of a session's may be anything: a link is not followed, a pipe not waited for.
    let how = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(how.bits().cast_signed());
    for path in session_files(inside)? {
        let Some(file) = none_if_missing(options.open(path))? else {
            continue;
        };
        // Shared, like the lock of those that wait for the end of the session.
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Err(rustix::io::Errno::AGAIN) => return Ok(true),
            looked => looked?,
        }
    }
    Ok(false)
}

/// The files of sessions, without their sockets.
pub(super) fn session_files(inside: &Path) -> io::Result<Vec<PathBuf>> {
    let listed = entries(&inside.join(SESSIONS))?;
    let is_session = |entry: &DirEntry| {
        let is_called_so = entry.file_name().to_str().is_some_and(is_name);
        is_called_so && entry.file_type().is_ok_and(|kind| kind.is_file())
    };
    let files = listed.into_iter().filter(is_session);
    Ok(files.map(|entry| entry.path()).collect())
}

/// Removes what a store consists of, file by file, and nothing else. The folder of the sessions stays.
pub(super) fn clear(inside: &Path) -> io::Result<()> {
    for entry in entries(inside)? {
        match entry.file_name().to_str() {
            Some(TURN) => drop(none_if_missing(fs::remove_file(entry.path()))?),
            Some(SESSIONS) => {
                for entry in entries(&entry.path())? {
                    if entry
                        .file_name()
                        .to_str()
                        .and_then(session_of_file)
                        .is_some()
                    {
                        none_if_missing(fs::remove_file(entry.path()))?;
                    }
                }
            }
            Some(name) if is_map(name) => {
                for name in map::FILES {
                    none_if_missing(fs::remove_file(entry.path().join(name)))?;
                }
                match fs::remove_dir(entry.path()) {
                    // Files that are not LMDB's stay.
                    Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                    removed => drop(none_if_missing(removed)?),
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A name for the folder of a new map.
pub(super) fn new_map() -> String {
    format!("{MAP}{}", new_name())
}

pub(super) fn is_map(name: &str) -> bool {
    name.strip_prefix(MAP).is_some_and(is_name)
}

/// A random name, so that no other process uses the same one.
pub(super) fn new_name() -> String {
    let random = getrandom::u64().unwrap_or_else(|_| fastrand::u64(..));
    format!("{random:016x}")
}

/// Whether it looks like a name of [`new_name`].
pub(super) fn is_name(text: &str) -> bool {
    text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

pub(super) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// What lies in a folder; nothing if it is gone.
fn entries(folder: &Path) -> io::Result<Vec<DirEntry>> {
    let listed = fs::read_dir(folder).and_then(Iterator::collect);
    Ok(none_if_missing(listed)?.unwrap_or_default())
}

pub(super) fn none_if_missing<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
