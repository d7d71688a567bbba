//! The directory of a store: who may use it, what lies in it, and how it is begun.
//!
//! ```text
//! store      the header; every process has its lock, shared, while it lives
//! turn       whoever has its lock may change the map
//! map-…/     the table (LMDB)
//! sessions/  a file per process, locked while it lives, and the socket at which it is woken
//! ```

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::address::Place;
use super::header::{Header, Mismatch, UNFINISHED, World};
use super::map::{self, Opening};
use super::refused;
use super::rows::Inode;
use crate::engine::Failure;

const STORE: &str = "store";
const TURN: &str = "turn";
const SESSIONS: &str = "sessions";

/// File systems over which other machines, or a program in between, see the files: locks and maps cannot be trusted there.
const SHARED_FILE_SYSTEMS: [(u64, &str); 19] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x00c3_6400, "Ceph"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x7461_636f, "OCFS2"),
    (0x0116_1970, "GFS2"),
    (0x1983_0326, "BeeGFS"),
    (0x2003_0528, "OrangeFS"),
    (0x786f_4256, "a shared folder of VirtualBox"),
    (0xbacb_acbc, "a shared folder of VMware"),
    (0x7c7c_6673, "a shared folder of Parallels"),
];

/// An opened directory.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// The file `store`, whose lock we share: where it should be, and which it is.
    store_path: PathBuf,
    store_inode: Inode,
    _store: File,
    pub(super) header: Header,
}

/// What came of a try to open a store.
#[derive(Debug)]
pub(super) enum Entry {
    Open(Box<Folder>, Opening),
    /// Somebody is about to begin it, or it was replaced just now.
    Later,
    /// It is of before the machine was started, and somebody has its lock.
    InUse,
}

impl Folder {
    /// Where the store of that place is, made if there is none, and which it is.
    pub(super) fn find(place: &Place) -> Result<(PathBuf, Inode, File), Failure> {
        let path = made(&place.path)?;
        if is_something_else(&path) {
            return Err(foreign(&path));
        }
        check_owner(&path)?;
        if !place.on_any_file_system {
            check_file_system(&path)?;
        }
        let path = fs::canonicalize(&path).map_err(|error| trouble(&path, &error))?;
        let store = store_file(&path)?;
        Ok((path, inode_of(&store)?, store))
    }

    /// Takes part in the store, or begins it, unless others are in the way just now.
    pub(super) fn open(path: PathBuf, store: File, size: usize) -> Result<Entry, Failure> {
        let here = World::here()?;
        if !is_locked(&store, FlockOperation::NonBlockingLockShared, &path)? {
            return Ok(Entry::Later);
        }
        match header(&store, &here, &path) {
            Ok(header) => return Self::joined(path, store, header, size),
            Err(Mismatch::Refused(failure)) => return Err(failure),
            Err(Mismatch::Empty | Mismatch::Unfinished | Mismatch::OtherBoot) => {}
        }
        // Whoever has it alone knows that nobody uses the store.
        if !is_locked(&store, FlockOperation::NonBlockingLockExclusive, &path)? {
            return Ok(match header(&store, &here, &path) {
                Err(Mismatch::OtherBoot) => Entry::InUse,
                _ => Entry::Later,
            });
        }
        // What was read before may have been true before only; and what lies at the path, another store's.
        if !is_at(&path.join(STORE), inode_of(&store)?) {
            return Ok(Entry::Later);
        }
        match header(&store, &here, &path) {
            Err(Mismatch::Empty) => check_nothing_else(&path)?,
            Err(Mismatch::Unfinished | Mismatch::OtherBoot) => {}
            _ => return Ok(Entry::Later),
        }
        Self::begun(path, store, here, size)
    }

    fn joined(path: PathBuf, store: File, header: Header, size: usize) -> Result<Entry, Failure> {
        let map_path = path.join(&header.map);
        let files = files(&path, &map_path)?;
        if !is_at(&path.join(STORE), inode_of(&store)?) {
            return Ok(Entry::Later);
        }
        let device = inode_of(&store)?.device;
        if files != header.files.map(|number| Some(Inode { device, number })) {
            return Err(refused(
                "CORRUPT",
                format!(
                    "a part of {} is missing, replaced or a copy: end the processes that use it and remove the directory",
                    path.display()
                ),
            ));
        }
        // LMDB has locks of its own for those who open it, at which one that is stopped would stop the next.
        let turn = turn_file(&path)?;
        if !is_locked(&turn, FlockOperation::NonBlockingLockExclusive, &path)? {
            return Ok(Entry::Later);
        }
        let opening = Opening::join(&map_path, size)?;
        drop(turn);
        let folder = Self::of(path, store, header)?;
        Ok(Entry::Open(Box::new(folder), opening))
    }

    /// Begins a store; what one of before left is removed.
    fn begun(path: PathBuf, mut store: File, here: World, size: usize) -> Result<Entry, Failure> {
        let told = |error: io::Error| trouble(&path, &error);
        // From here on, until the header is whole, the store is known as an unfinished one of ours, whoever finds it.
        store.write_all_at(UNFINISHED.as_bytes(), 0).map_err(told)?;
        store.set_len(UNFINISHED.len() as u64).map_err(told)?;
        // After a power cut it must be found as one of the two, else it could not be told from what is not ours.
        store.sync_all().map_err(told)?;
        clear(&path).map_err(told)?;
        let map_name = format!("map-{}", new_name());
        let map_path = path.join(&map_name);
        for folder in [&map_path, &path.join(SESSIONS)] {
            DirBuilder::new().mode(0o700).create(folder).map_err(told)?;
        }
        new_file(&path.join(TURN)).map_err(told)?;
        let opening = Opening::begin_new(&map_path, size)?;
        let [Some(data), Some(locks), Some(turn)] = files(&path, &map_path)? else {
            return Err(refused("REMOVED", "the store was removed as it was begun"));
        };
        let files = [data, locks, turn].map(|file| file.number);
        let header = Header::new(here, map_name, files);
        store.rewind().map_err(told)?;
        store.write_all(header.write().as_bytes()).map_err(told)?;
        store.sync_all().map_err(told)?;
        // Between the two nobody can find it other than begun.
        lock(&store, FlockOperation::LockShared, &path)?;
        let folder = Self::of(path, store, header)?;
        Ok(Entry::Open(Box::new(folder), opening))
    }

    fn of(path: PathBuf, store: File, header: Header) -> Result<Self, Failure> {
        Ok(Self {
            store_path: path.join(STORE),
            store_inode: inode_of(&store)?,
            path,
            _store: store,
            header,
        })
    }

    /// Whether the store that was opened is still the one at its path, and at the path by which it was asked for: a link on
    /// the way may lead elsewhere by now.
    pub(super) fn is_in_place(&self, asked: Option<&Path>) -> bool {
        is_at(asked.unwrap_or(&self.store_path), self.store_inode)
    }

    pub(super) fn device(&self) -> u64 {
        self.store_inode.device
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.path.join(SESSIONS)
    }

    /// The file whose lock is the turn, opened once more.
    pub(super) fn turn(&self) -> Result<File, Failure> {
        turn_file(&self.path)
    }
}

fn turn_file(folder: &Path) -> Result<File, Failure> {
    let path = folder.join(TURN);
    let file = OpenOptions::new().read(true).write(true).open(&path);
    file.map_err(|error| trouble(&path, &error))
}

/// The directory, made if only itself is missing.
fn made(path: &Path) -> Result<PathBuf, Failure> {
    let told = |error: &io::Error| trouble(path, error);
    let path = std::path::absolute(path).map_err(|error| told(&error))?;
    match DirBuilder::new().mode(0o700).create(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // A directory may be there all the same.
        Err(error) if !path.is_dir() => return Err(told(&error)),
        Err(_) => {}
    }
    if !path.is_dir() {
        let text = format!("{} is no directory: a store is one", path.display());
        return Err(refused("FOREIGN", text));
    }
    Ok(path)
}

/// Only its user may change a store: the locks of others would be at anybody's mercy.
fn check_owner(path: &Path) -> Result<(), Failure> {
    let found = fs::metadata(path).map_err(|error| trouble(path, &error))?;
    let user = rustix::process::geteuid().as_raw();
    let shown = path.display();
    if found.uid() != user {
        let owner = found.uid();
        return Err(refused(
            "NOPERM",
            format!(
                "{shown} belongs to user {owner}, and this process is user {user}: a store is one user's own"
            ),
        ));
    }
    if found.permissions().mode() & 0o077 != 0 {
        return Err(refused(
            "NOPERM",
            format!("{shown} is open to other users: chmod 700 it"),
        ));
    }
    Ok(())
}

fn check_file_system(path: &Path) -> Result<(), Failure> {
    let found = rustix::fs::statfs(path).map_err(|error| trouble(path, &error.into()))?;
    // The numbers have 32 bits; some platforms widen them with their sign.
    check_kind(path, u64::from(found.f_type as u32))
}

fn check_kind(path: &Path, kind: u64) -> Result<(), Failure> {
    match SHARED_FILE_SYSTEMS.iter().find(|(of, _)| *of == kind) {
        None => Ok(()),
        Some((_, name)) => Err(refused(
            "NETWORKFS",
            format!(
                "{} lies on {name}, where locks of files cannot be relied on: use a directory on a local disk, or add ?filesystem=any if you know better",
                path.display()
            ),
        )),
    }
}

/// The file `store`; made in an empty directory only.
fn store_file(path: &Path) -> Result<File, Failure> {
    let file = path.join(STORE);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    loop {
        match options.open(&file) {
            Ok(store) => return Ok(store),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(trouble(&file, &error)),
        }
        let mut inside = fs::read_dir(path).map_err(|error| trouble(path, &error))?;
        match inside.next() {
            None => {
                options.create(true);
            }
            // Somebody else was faster.
            Some(_) if file.exists() => {}
            Some(_) => return Err(foreign(path)),
        }
    }
}

/// Asked first of all: nobody shall be told to change the rights of a directory that is no store.
fn is_something_else(path: &Path) -> bool {
    let is_empty = fs::read_dir(path).map_or(true, |mut inside| inside.next().is_none());
    let store = fs::symlink_metadata(path.join(STORE));
    // Somebody may have begun it between the two looks.
    !is_empty && store.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// An empty file `store` in a directory with other things in it is none of ours.
fn check_nothing_else(path: &Path) -> Result<(), Failure> {
    let inside = fs::read_dir(path).map_err(|error| trouble(path, &error))?;
    match inside.count() {
        0 | 1 => Ok(()),
        _ => Err(foreign(path)),
    }
}

fn foreign(path: &Path) -> Failure {
    let shown = path.display();
    refused(
        "FOREIGN",
        format!("{shown} is neither empty nor a store: use another directory"),
    )
}

/// The process that is about to begin the store, or is inside while others want to join, as the system tells it.
pub(super) fn in_the_way(place: &Place) -> Option<u32> {
    [STORE, TURN].into_iter().find_map(|file| {
        let file = fs::metadata(place.path.join(file)).ok()?;
        super::turn::holder_of(&file)
    })
}

/// The file that tells whether the store is still there, as that place names it.
pub(super) fn store_path(place: &Place) -> PathBuf {
    let path = std::path::absolute(&place.path);
    path.unwrap_or_else(|_| place.path.clone()).join(STORE)
}

fn header(mut store: &File, here: &World, path: &Path) -> Result<Header, Mismatch> {
    const LENGTH_MAX: u64 = 4096;
    let mut text = Vec::new();
    let read = store
        .rewind()
        .and_then(|()| store.take(LENGTH_MAX).read_to_end(&mut text));
    read.map_err(|error| Mismatch::Refused(trouble(path, &error)))?;
    Header::read(&String::from_utf8_lossy(&text), here).map_err(|mismatch| match mismatch {
        Mismatch::Refused(Failure::Refused { code, message }) => {
            Mismatch::Refused(refused(&code, format!("{}: {message}", path.display())))
        }
        other => other,
    })
}

/// Removes what a store consists of, and nothing else.
fn clear(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == TURN {
            fs::remove_file(entry.path())?;
        } else if name == SESSIONS || name.to_string_lossy().starts_with("map-") {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

pub(super) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

/// The files that the header names, as they are now.
fn files(path: &Path, map: &Path) -> Result<[Option<Inode>; 3], Failure> {
    let look = |file: PathBuf| match fs::symlink_metadata(&file) {
        Ok(found) => Ok(Some(Inode {
            device: found.dev(),
            number: found.ino(),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(trouble(&file, &error)),
    };
    let [data, locks] = map::FILES.map(|name| map.join(name));
    Ok([look(data)?, look(locks)?, look(path.join(TURN))?])
}

pub(super) fn inode_of(file: impl AsFd) -> Result<Inode, Failure> {
    let found = rustix::fs::fstat(file).map_err(|error| io_trouble("the store", &error.into()))?;
    Ok(Inode {
        device: found.st_dev,
        number: found.st_ino,
    })
}

/// Whether that very file lies there.
fn is_at(path: &Path, inode: Inode) -> bool {
    let found = rustix::fs::stat(path);
    found.is_ok_and(|found| (found.st_dev, found.st_ino) == (inode.device, inode.number))
}

/// A name that no other process gives to anything, as far as chance can promise that.
pub(super) fn new_name() -> String {
    let random = getrandom::u64().unwrap_or_else(|_| fastrand::u64(..));
    format!("{random:016x}")
}

/// Takes the lock, unless others have it.
fn is_locked(store: &File, how: FlockOperation, path: &Path) -> Result<bool, Failure> {
    match flock(store, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(trouble(path, &error.into())),
    }
}

fn lock(store: &File, how: FlockOperation, path: &Path) -> Result<(), Failure> {
    loop {
        match flock(store, how) {
            Err(rustix::io::Errno::INTR) => {}
            done => return done.map_err(|error| trouble(path, &error.into())),
        }
    }
}

fn trouble(path: &Path, error: &io::Error) -> Failure {
    io_trouble(&path.display().to_string(), error)
}

/// What a caller is told of the system's error.
pub(super) fn io_trouble(what: &str, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "ENOSPC",
        io::ErrorKind::ReadOnlyFilesystem => "EROFS",
        io::ErrorKind::PermissionDenied => "EACCES",
        io::ErrorKind::NotFound => "ENOENT",
        io::ErrorKind::NotADirectory => "ENOTDIR",
        _ if error.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => "EMFILE",
        _ => "EIO",
    };
    refused(code, format!("{what}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_of_others_are_refused_by_their_types() {
        let check = |kind| check_kind(Path::new("/somewhere"), kind);

        for (kind, name) in [
            (0x6969, "NFS"),
            (0x6573_5546, "FUSE"),
            (0xff53_4d42, "CIFS"),
        ] {
            let Err(Failure::Refused { code, message }) = check(kind) else {
                panic!("{name} is not refused");
            };
            assert_eq!(code, "NETWORKFS");
            assert!(
                message.contains(&format!("/somewhere lies on {name}")),
                "{message}"
            );
            assert!(message.contains("?filesystem=any"), "{message}");
        }
        for local in [
            0xef53,
            0x9123_683e,
            0x5846_5342,
            0x0102_1994,
            0x794c_7630,
            0x2fc1_2fc1,
        ] {
            assert_eq!(check(local), Ok(()));
        }
    }
}
