//! Which processes of a store live.
//!
//! Each process has a file of its own and keeps it locked while it lives. The system ends the lock with the process, and
//! with whatever child shares it, however they end. A session is dead when that very file, found by its name, can be locked;
//! when the file is missing or another one, nothing is known, and leases decide.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::super::emulator::keyspace::Millis;
use super::directory::{inode_of, io_trouble};
use super::map::Change;
use super::parts::{is_name, new_file, new_name};
use super::rows::{self, Inode};
use crate::engine::Failure;

/// At most this many files of other processes are kept open.
const KNOWN_MAX: usize = 256;

/// How long the store remembers that a session is dead: locks that it still has after that end with their leases.
const REMEMBERED: Millis = 24 * 60 * 60 * 1000;

const SOCKET: &str = ".wake";

/// The name of the socket beside a session's file.
pub(super) fn socket_name(session: &str) -> String {
    format!("{session}{SOCKET}")
}

/// The session of this process.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) name: String,
    pub(super) file: File,
    inode: Inode,
    folder: PathBuf,
}

impl Session {
    /// Begins one; it is known to others when [`Session::register`] is committed.
    pub(super) fn begin(folder: &Path) -> Result<Self, Failure> {
        let name = new_name();
        let path = folder.join(&name);
        let told = |error: &std::io::Error| io_trouble(&path.display().to_string(), error);
        let file = new_file(&path).map_err(|error| told(&error))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| told(&error.into()))?;
        Ok(Self {
            inode: inode_of(&file)?,
            folder: folder.to_owned(),
            name,
            file,
        })
    }

    pub(super) fn register(&self, change: &mut Change) -> Result<(), Failure> {
        let number = self.inode.number.to_be_bytes();
        change.put(&rows::session(&self.name), &number)
    }

    /// Removes its row; [`Session::end`] removes its file.
    pub(super) fn unregister(&self, change: &mut Change) -> Result<(), Failure> {
        change.delete(&rows::session(&self.name))
    }

    pub(super) fn end(self) {
        remove_files(&self.folder, &self.name);
    }
}

/// What is known of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionLife {
    Alive,
    Dead,
    Unknown,
}

/// The sessions of other processes.
#[derive(Debug)]
pub(super) struct Others {
    folder: PathBuf,
    /// That of the whole store.
    device: u64,
    /// Files that were found by their names, and are those of their rows.
    known: HashMap<String, File>,
}

impl Others {
    pub(super) fn new(folder: PathBuf, device: u64) -> Self {
        Self {
            folder,
            device,
            known: HashMap::new(),
        }
    }

    /// Whether a session lives. The caller has the turn.
    pub(super) fn life(&mut self, change: &Change, session: &str) -> Result<SessionLife, Failure> {
        if change.get(&rows::ended_session(session))?.is_some() {
            return Ok(SessionLife::Dead);
        }
        let row = change.get(&rows::session(session))?;
        let Some(number) = row.and_then(rows::inode_number) else {
            return Ok(SessionLife::Unknown);
        };
        let device = self.device;
        let Some(file) = self.file(session, Inode { device, number }) else {
            return Ok(SessionLife::Unknown);
        };
        Ok(match flock(file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                // Closing it would do too, but it is kept for the next look.
                let _ = flock(file, FlockOperation::Unlock);
                SessionLife::Dead
            }
            Err(rustix::io::Errno::AGAIN) => SessionLife::Alive,
            Err(_) => SessionLife::Unknown,
        })
    }

    /// A session's file, opened once more for a thread that waits for its lock.
    pub(super) fn to_wait_for(&self, session: &str) -> Option<File> {
        let known = self.known.get(session)?;
        let again = open(&self.folder.join(session))?;
        (inode_of(&again).ok()? == inode_of(known).ok()?).then_some(again)
    }

    fn file(&mut self, session: &str, inode: Inode) -> Option<&File> {
        if !self.known.contains_key(session) {
            let file = open(&self.folder.join(session))?;
            if inode_of(&file).ok()? != inode {
                return None;
            }
            if self.known.len() >= KNOWN_MAX {
                self.known.clear();
            }
            self.known.insert(session.to_owned(), file);
        }
        self.known.get(session)
    }

    /// Writes down that a session is dead; its files are removed once that is committed.
    pub(super) fn bury(
        &mut self,
        change: &mut Change,
        session: &str,
        now: Millis,
    ) -> Result<(), Failure> {
        if change.get(&rows::session(session))?.is_none() {
            return Ok(());
        }
        change.delete(&rows::session(session))?;
        change.put(&rows::ended_session(session), &[])?;
        change.put(&rows::grave(now, session), &[])
    }

    pub(super) fn forget(&mut self, session: &str) {
        self.known.remove(session);
        remove_files(&self.folder, session);
    }

    /// Buries the sessions that died since the last look, and removes their listeners and old rows of dead sessions. Returns
    /// the newly dead.
    pub(super) fn sweep(
        &mut self,
        change: &mut Change,
        own: &str,
        now: Millis,
    ) -> Result<Vec<String>, Failure> {
        self.sweep_files(change)?;
        let mut dead = Vec::new();
        for (name, _) in change.all(rows::SESSIONS)? {
            let Some(session) = name
                .get(1..)
                .and_then(|name| std::str::from_utf8(name).ok())
            else {
                continue;
            };
            if session != own && self.life(change, session)? == SessionLife::Dead {
                self.bury(change, session, now)?;
                dead.push(session.to_owned());
            }
        }
        if !dead.is_empty() {
            remove_listeners(change, &dead)?;
        }
        forget_old_graves(change, now)?;
        Ok(dead)
    }

    /// Removes files of sessions that are not in the table: their processes were killed before they had entered, or after they
    /// had left. A session enters and leaves in one turn, with its files: the caller has the turn, and sees none half-way.
    fn sweep_files(&self, change: &Change) -> Result<(), Failure> {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return Ok(());
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(session) = name.to_str().and_then(session_of_file) else {
                continue;
            };
            if change.get(&rows::session(session))?.is_none() {
                remove_files(&self.folder, session);
            }
        }
        Ok(())
    }
}

/// The session whose file or socket has that name.
pub(super) fn session_of_file(name: &str) -> Option<&str> {
    let session = name.strip_suffix(SOCKET).unwrap_or(name);
    is_name(session).then_some(session)
}

fn open(path: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.read(true).open(path).ok()
}

/// Sessions of other processes that listen to a channel, with the number of listeners of each.
pub(super) fn far_listeners(
    change: &Change,
    channel: &[u8],
    own: Option<&str>,
) -> Result<Vec<(String, usize)>, Failure> {
    let begin = rows::listeners(channel);
    if change.first(&begin)?.is_none() {
        return Ok(Vec::new());
    }
    let mut listeners = BTreeMap::new();
    for (name, count) in change.all(&begin)? {
        let Some(session) = rows::session_of_listener(&name) else {
            continue;
        };
        let count = count.try_into().map_or(0, u32::from_be_bytes);
        if Some(session) != own {
            listeners.insert(session.to_owned(), usize::try_from(count).unwrap_or(0));
        }
    }
    Ok(listeners.into_iter().collect())
}

/// Removes the listeners of those sessions.
pub(super) fn remove_listeners(change: &mut Change, sessions: &[String]) -> Result<(), Failure> {
    for (name, _) in change.all(rows::LISTENERS)? {
        let session = rows::session_of_listener(&name);
        if session.is_some_and(|session| sessions.iter().any(|deaf| deaf == session)) {
            change.delete(&name)?;
        }
    }
    Ok(())
}

fn forget_old_graves(change: &mut Change, now: Millis) -> Result<(), Failure> {
    let mut forgotten = Vec::new();
    while let Some((name, _)) = change.first(rows::GRAVES)? {
        let name = name.to_vec();
        let Some((at, session)) = rows::time_and_rest(&name) else {
            break;
        };
        if now.saturating_sub(at) < REMEMBERED {
            break;
        }
        change.delete(&rows::ended_session(&String::from_utf8_lossy(session)))?;
        forgotten.push(session.to_vec());
        change.delete(&name)?;
    }
    if forgotten.is_empty() {
        return Ok(());
    }
    for (name, session) in change.all(rows::CLIENTS)? {
        if forgotten.contains(&session) {
            change.delete(&name)?;
        }
    }
    Ok(())
}

/// Removes a session's files, if they are still there.
fn remove_files(folder: &Path, session: &str) {
    let _ = fs::remove_file(folder.join(session));
    let _ = fs::remove_file(folder.join(socket_name(session)));
}
