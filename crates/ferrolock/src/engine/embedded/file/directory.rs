//! The directory in which a store lies, held open: its owner, its file system, and the lock for the one process that begins a
//! store in it.
//!
//! It may be removed and made again while a process looks at it. All changes are made in the directory that was opened,
//! never in another one that its path leads to by now.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::address::StorePlace;
use super::refused;
use super::rows::Inode;
use crate::engine::Failure;

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

/// A directory that is open.
#[derive(Debug)]
pub(super) struct Directory {
    /// Where it was found, without links.
    path: PathBuf,
    /// The same directory, whatever lies at the path by now.
    inside: PathBuf,
    handle: File,
    inode: Inode,
    on_any_file_system: bool,
}

/// The right to begin a store in a directory, of one process at a time, while none uses one.
#[derive(Debug)]
pub(super) struct Alone<'a>(&'a Directory);

impl Directory {
    /// The directory of that place, made if only itself is missing; `None`: it is being removed just now.
    pub(super) fn open(place: &StorePlace) -> Result<Option<Self>, Failure> {
        let asked = std::path::absolute(&place.path);
        let asked = asked.map_err(|error| trouble(&place.path, &error))?;
        let Some(handle) = opened(&asked)? else {
            return Ok(None);
        };
        let inode = inode_of(&handle)?;
        let path = match fs::canonicalize(&asked) {
            Ok(path) if is_at(&path, inode) => path,
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(trouble(&asked, &error));
            }
            _ => return Ok(None),
        };
        Ok(Some(Self {
            path,
            inside: format!("/proc/self/fd/{}", handle.as_raw_fd()).into(),
            handle,
            inode,
            on_any_file_system: place.on_any_file_system,
        }))
    }

    /// Whether a store may lie here.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let found = self.handle.metadata();
        check_owner(&self.path, &found.map_err(|error| self.trouble(&error))?)?;
        if self.on_any_file_system {
            return Ok(());
        }
        let found =
            rustix::fs::fstatfs(&self.handle).map_err(|error| self.trouble(&error.into()))?;
        // The numbers have 32 bits; some platforms widen them with their sign.
        check_kind(&self.path, u64::from(found.f_type as u32))
    }

    /// Where it was found, for messages and for other files.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The path to the files in it, for as long as it is open.
    pub(super) fn inside(&self) -> &Path {
        &self.inside
    }

    pub(super) fn inode(&self) -> Inode {
        self.inode
    }

    /// Keeps all others from beginning a store here; `None`: one of them is about to, or uses what is left of one. A lock on
    /// the file `store` cannot do that: it is lost when the file is removed.
    pub(super) fn alone(&self) -> Result<Option<Alone<'_>>, Failure> {
        let is_ours = self.try_lock(FlockOperation::NonBlockingLockExclusive)?;
        Ok(is_ours.then_some(Alone(self)))
    }

    /// Keeps all from beginning a store here, for as long as this is open or until [`Directory::unlock`]; several processes may
    /// do so at once. False: another process is about to begin one.
    pub(super) fn share(&self) -> Result<bool, Failure> {
        self.try_lock(FlockOperation::NonBlockingLockShared)
    }

    pub(super) fn unlock(&self) {
        // What is not locked can be unlocked, so this does not fail.
        let _ = flock(&self.handle, FlockOperation::Unlock);
    }

    fn try_lock(&self, how: FlockOperation) -> Result<bool, Failure> {
        match flock(&self.handle, how) {
            Err(rustix::io::Errno::AGAIN) => Ok(false),
            // Over a network, directories may have no locks.
            Err(error) if !self.on_any_file_system => Err(self.trouble(&error.into())),
            _ => Ok(true),
        }
    }

    pub(super) fn trouble(&self, error: &io::Error) -> Failure {
        trouble(&self.path, error)
    }
}

impl Alone<'_> {
    /// Turns the lock into a shared one, of a user of the store. False: another process took it in between.
    pub(super) fn share(self) -> Result<bool, Failure> {
        let directory = self.0;
        std::mem::forget(self);
        directory.share()
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.unlock();
    }
}

fn opened(path: &Path) -> Result<Option<File>, Failure> {
    let made = DirBuilder::new().mode(0o700).create(path);
    let mut options = OpenOptions::new();
    options.custom_flags(OFlags::DIRECTORY.bits().cast_signed());
    let error = match (options.read(true).open(path), made) {
        (Ok(handle), _) => return Ok(Some(handle)),
        (Err(_), Err(error)) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(trouble(path, &error));
        }
        (Err(error), _) => error,
    };
    let no_directory = || {
        let text = format!("{} is no directory: a store is one", path.display());
        refused("FOREIGN", text)
    };
    match error.kind() {
        io::ErrorKind::NotADirectory => Err(no_directory()),
        // A link that leads nowhere stays there, and a directory that was removed does not.
        io::ErrorKind::NotFound if path.is_symlink() => Err(no_directory()),
        io::ErrorKind::NotFound => Ok(None),
        _ => {
            if let Ok(found) = fs::metadata(path) {
                check_owner(path, &found)?;
            }
            Err(trouble(path, &error))
        }
    }
}

/// Only its user may change a store: else any user could take or remove its locks.
fn check_owner(path: &Path, found: &Metadata) -> Result<(), Failure> {
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

pub(super) fn inode_of(file: impl std::os::fd::AsFd) -> Result<Inode, Failure> {
    let found = rustix::fs::fstat(file).map_err(|error| io_trouble("the store", &error.into()))?;
    Ok(Inode {
        device: found.st_dev,
        number: found.st_ino,
    })
}

/// Whether the file at that path is this one.
pub(super) fn is_at(path: &Path, inode: Inode) -> bool {
    let found = rustix::fs::stat(path);
    found.is_ok_and(|found| (found.st_dev, found.st_ino) == (inode.device, inode.number))
}

pub(super) fn trouble(path: &Path, error: &io::Error) -> Failure {
    io_trouble(&path.display().to_string(), error)
}

/// What a caller fails with for an error of the system.
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
    fn shared_file_systems_are_refused_by_their_types() {
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
