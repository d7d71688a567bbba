//! A store in its directory: how a process begins it, how others join it, and how they notice that it was removed.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FlockOperation, OFlags, flock};

use super::address::StorePlace;
use super::directory::{Directory, inode_of, is_at, trouble};
use super::header::{Header, Mismatch, UNFINISHED, World};
use super::map::{self, OpenedMap};
use super::parts::{self, Extent, SESSIONS, STORE, TURN, none_if_missing};
use super::refused;
use super::rows::Inode;
use super::turn::{holder_of, user_of};
use crate::engine::Failure;

/// How often a store that is used is looked at for parts that were removed. Its header is looked for at each call.
const LOOK_EVERY_MICROS: i64 = 100_000;

/// A store that was opened.
#[derive(Debug)]
pub(super) struct Folder {
    directory: Directory,
    /// Path and inode of the file `store`. We share its lock, and that of the directory.
    store_path: PathBuf,
    store_inode: Inode,
    store: File,
    pub(super) header: Header,
    looked_micros: i64,
    is_over: Arc<AtomicBool>,
}

/// A directory, and the file `store` in it, if there is one.
#[derive(Debug)]
pub(super) struct FoundDirectory {
    pub(super) directory: Directory,
    pub(super) store: Option<File>,
}

/// The outcome of one attempt to open a store.
#[derive(Debug)]
pub(super) enum FolderTry {
    Open(Box<Folder>, OpenedMap),
    /// Another process is about to begin it or has the turn, or it was removed or replaced just now.
    Later,
    /// It cannot be begun anew while another process has its lock.
    InUse(StoreRest),
}

/// What may be left of a store that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreRest {
    /// All of it, from before the machine was started.
    OfOtherBoot,
    /// A part of it.
    Half,
}

/// A step on the way into a store.
enum Step {
    In(File, Header, OpenedMap),
    Begin,
    Later,
    InUse(StoreRest),
}

impl Folder {
    /// Where the store of that place is, or could be begun; `None`: it is being removed just now.
    pub(super) fn find(place: &StorePlace) -> Result<Option<FoundDirectory>, Failure> {
        let Some(directory) = Directory::open(place)? else {
            return Ok(None);
        };
        let store = store_file(&directory)?;
        // Checked before the rights: no error may ask a user to change the rights of a directory that is no store.
        if store.is_none() && !are_all_ours(&directory)? && store_file(&directory)?.is_none() {
            return Err(foreign(&directory));
        }
        directory.check()?;
        Ok(Some(FoundDirectory { directory, store }))
    }

    /// Joins the store, or begins it, unless other processes prevent it just now.
    pub(super) fn open(found: FoundDirectory, size: usize) -> Result<FolderTry, Failure> {
        let here = World::here()?;
        let FoundDirectory { directory, store } = found;
        let joined = match store {
            Some(store) => join(&directory, store, &here, size),
            None => Ok(Step::Begin),
        };
        let step = match joined {
            Ok(Step::Begin) => begin(&directory, &here, size),
            joined => joined,
        };
        match step {
            Ok(Step::In(store, header, opened)) => {
                let folder = Self::of(directory, store, header)?;
                Ok(FolderTry::Open(Box::new(folder), opened))
            }
            Ok(Step::InUse(rest)) => Ok(FolderTry::InUse(rest)),
            Ok(Step::Later | Step::Begin) => Ok(FolderTry::Later),
            // A file is being removed just now: the next try will see what is left.
            Err(Failure::Refused { code, .. }) if code == "ENOENT" => Ok(FolderTry::Later),
            Err(failure) => Err(failure),
        }
    }

    fn of(directory: Directory, store: File, header: Header) -> Result<Self, Failure> {
        Ok(Self {
            store_path: directory.path().join(STORE),
            store_inode: inode_of(&store)?,
            store,
            looked_micros: header.micros(),
            header,
            is_over: Arc::default(),
            directory,
        })
    }

    /// Whether the store that was opened is still the one at its path, or if given, at the path that the client asked for: a
    /// link on the way may lead elsewhere by now.
    pub(super) fn verify_in_place(&mut self, asked: Option<&Path>, micros: i64) -> bool {
        if micros.saturating_sub(self.looked_micros) >= LOOK_EVERY_MICROS {
            self.look(micros);
        }
        if self.is_over.load(Ordering::Relaxed) {
            return false;
        }
        let is_there = is_at(asked.unwrap_or(&self.store_path), self.store_inode);
        if !is_there {
            self.look(micros);
        }
        is_there
    }

    /// Looks for all its parts. No other process can join a store of which one is missing; so this process gives it up too,
    /// for good. Its file locks stay until [`Folder::leave`].
    pub(super) fn look(&mut self, micros: i64) {
        self.looked_micros = micros;
        let extent = parts::extent(self.directory.inside(), &self.header, self.device());
        if matches!(extent, Ok(Extent::Halved)) || is_unlinked(&self.store) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Gives up the file locks, so that another process can begin the store anew.
    pub(super) fn leave(&self) {
        // The locks are ours, so this does not fail.
        let _ = flock(&self.store, FlockOperation::Unlock);
        self.directory.unlock();
    }

    /// A flag that is true once this process has given the store up.
    pub(super) fn over(&self) -> Arc<AtomicBool> {
        self.is_over.clone()
    }

    pub(super) fn directory_inode(&self) -> Inode {
        self.directory.inode()
    }

    pub(super) fn store_inode(&self) -> Inode {
        self.store_inode
    }

    pub(super) fn device(&self) -> u64 {
        self.store_inode.device
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn sessions(&self) -> PathBuf {
        self.directory.inside().join(SESSIONS)
    }

    /// The file whose lock is the turn, opened once more.
    pub(super) fn turn(&self) -> Result<File, Failure> {
        turn_file(&self.directory)
    }
}

/// Joins a store that is there.
fn join(directory: &Directory, store: File, here: &World, size: usize) -> Result<Step, Failure> {
    if !try_lock(directory, &store, FlockOperation::NonBlockingLockShared)? {
        return Ok(Step::Later);
    }
    let header = match header(directory, &store, here) {
        Ok(header) => header,
        Err(Mismatch::Refused(failure)) => return Err(failure),
        Err(Mismatch::Empty | Mismatch::Unfinished | Mismatch::OtherBoot) => {
            return Ok(Step::Begin);
        }
    };
    if !directory.share()? {
        return Ok(Step::Later);
    }
    let store_inode = inode_of(&store)?;
    let told = |error: io::Error| directory.trouble(&error);
    let extent = || parts::extent(directory.inside(), &header, store_inode.device).map_err(told);
    if extent()? == Extent::Halved {
        return Ok(Step::Begin);
    }
    step();
    // LMDB has locks of its own for opening: a process stopped while it has one would block the next.
    let turn = turn_file(directory)?;
    if !try_lock(directory, &turn, FlockOperation::NonBlockingLockExclusive)? {
        return Ok(Step::Later);
    }
    step();
    let found = extent()?;
    if found == Extent::Halved || !is_at(&directory.path().join(STORE), store_inode) {
        return Ok(Step::Later);
    }
    if found == Extent::Replaced {
        return Err(refused(
            "CORRUPT",
            format!(
                "a part of {} was replaced or is a copy: end the processes that use it and remove the directory",
                directory.path().display()
            ),
        ));
    }
    let map = directory.path().join(&header.map);
    map::check_not_empty(&map)?;
    step();
    let opened = OpenedMap::open(&map, size)?;
    step();
    if extent()? != Extent::Whole {
        remove_what_lmdb_made(directory, &header, opened);
        return Ok(Step::Later);
    }
    Ok(Step::In(store, header, opened))
}

/// Removes the files that LMDB made because they had just been removed. They would turn a store that was half removed into
/// one with replaced parts.
fn remove_what_lmdb_made(directory: &Directory, header: &Header, opened: OpenedMap) {
    // The file of locks has no data that could be lost.
    let is_made = [opened.is_new(), true];
    drop(opened);
    let Ok(files) = parts::files(directory.inside(), &header.map) else {
        return;
    };
    let found = files.into_iter().zip(header.files);
    let made = map::FILES.into_iter().zip(is_made).zip(found);
    for ((name, is_made), (found, number)) in made {
        if is_made && found.is_some_and(|found| found.number != number) {
            let _ = fs::remove_file(directory.inside().join(&header.map).join(name));
        }
    }
}

/// Begins a store, if no process uses what is there.
fn begin(directory: &Directory, here: &World, size: usize) -> Result<Step, Failure> {
    let Some(alone) = directory.alone()? else {
        // A process that begins a store has the directory's lock alone.
        return match directory.share()? {
            true => in_use(directory, here),
            false => Ok(Step::Later),
        };
    };
    // A child process may keep the lock of the session's file, and nothing else, after its parent ended.
    if parts::have_living_sessions(directory.inside()).map_err(|error| directory.trouble(&error))? {
        return in_use(directory, here);
    }
    let store = match store_file(directory)? {
        Some(store) => store,
        None if are_all_ours(directory)? => new_store_file(directory)?,
        None => return Err(foreign(directory)),
    };
    let store_inode = inode_of(&store)?;
    step();
    // The process that has this lock alone knows that no other uses the store, also where directories have no locks.
    if !try_lock(directory, &store, FlockOperation::NonBlockingLockExclusive)? {
        return in_use(directory, here);
    }
    // Another process may have begun a store since the last look, and the file at the path may be that store's.
    if !is_at(&directory.path().join(STORE), store_inode) {
        return Ok(Step::Later);
    }
    match header(directory, &store, here) {
        Err(Mismatch::Empty) if !are_all_ours(directory)? => return Err(foreign(directory)),
        Err(Mismatch::Empty | Mismatch::Unfinished | Mismatch::OtherBoot) => {}
        Ok(header) if is_half(directory, &header, store_inode) => {}
        _ => return Ok(Step::Later),
    }
    match begin_alone(directory, store, here, size)? {
        Step::In(..) if !alone.share()? => Ok(Step::Later),
        begun => Ok(begun),
    }
}

/// The outcome for a process that would begin the store, and finds that others use what is there.
fn in_use(directory: &Directory, here: &World) -> Result<Step, Failure> {
    let Some(store) = store_file(directory)? else {
        return Ok(Step::InUse(StoreRest::Half));
    };
    Ok(match header(directory, &store, here) {
        Ok(header) if !is_half(directory, &header, inode_of(&store)?) => Step::Later,
        Ok(_) | Err(Mismatch::Empty | Mismatch::Unfinished) => Step::InUse(StoreRest::Half),
        Err(Mismatch::OtherBoot) => Step::InUse(StoreRest::OfOtherBoot),
        Err(Mismatch::Refused(failure)) => return Err(failure),
    })
}

fn is_half(directory: &Directory, header: &Header, store: Inode) -> bool {
    let extent = parts::extent(directory.inside(), header, store.device);
    matches!(extent, Ok(Extent::Halved))
}

/// Begins a store; removes what an earlier one left.
fn begin_alone(
    directory: &Directory,
    mut store: File,
    here: &World,
    size: usize,
) -> Result<Step, Failure> {
    let told = |error: io::Error| directory.trouble(&error);
    let inside = directory.inside();
    step();
    // From here on, until the header is whole, other processes see an unfinished store of ours.
    store.write_all_at(UNFINISHED.as_bytes(), 0).map_err(told)?;
    step();
    store.set_len(UNFINISHED.len() as u64).map_err(told)?;
    // After a power cut the file must have this line or the whole header, else it could not be recognized as ours.
    store.sync_all().map_err(told)?;
    step();
    parts::clear(inside).map_err(told)?;
    let map_name = parts::new_map();
    step();
    new_folder(&inside.join(&map_name)).map_err(told)?;
    step();
    match new_folder(&inside.join(SESSIONS)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => made.map_err(told)?,
    }
    step();
    parts::new_file(&inside.join(TURN)).map_err(told)?;
    step();
    let opened = OpenedMap::begin_new(&directory.path().join(&map_name), size)?;
    step();
    let files = parts::files(inside, &map_name).map_err(told)?;
    let [Some(data), Some(locks), Some(turn)] = files else {
        return Ok(Step::Later);
    };
    let files = [data, locks, turn].map(|file| file.number);
    let header = Header::new(here.clone(), map_name, files);
    step();
    store.rewind().map_err(told)?;
    store.write_all(header.write().as_bytes()).map_err(told)?;
    store.sync_all().map_err(told)?;
    step();
    // A part of it may have been removed meanwhile.
    let store_inode = inode_of(&store)?;
    let extent = parts::extent(inside, &header, store_inode.device).map_err(told)?;
    if extent != Extent::Whole || !is_at(&directory.path().join(STORE), store_inode) {
        return Ok(Step::Later);
    }
    step();
    // If another process gets the lock in between, it finds a store that is begun.
    lock_shared(&store).map_err(told)?;
    Ok(Step::In(store, header, opened))
}

fn new_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

/// The file `store`, if there is one.
fn store_file(directory: &Directory) -> Result<Option<File>, Failure> {
    let opened = options().open(directory.inside().join(STORE));
    none_if_missing(opened).map_err(|error| trouble(&directory.path().join(STORE), &error))
}

fn new_store_file(directory: &Directory) -> Result<File, Failure> {
    let made = options()
        .create(true)
        .mode(0o600)
        .open(directory.inside().join(STORE));
    made.map_err(|error| trouble(&directory.path().join(STORE), &error))
}

fn turn_file(directory: &Directory) -> Result<File, Failure> {
    let opened = options().open(directory.inside().join(TURN));
    opened.map_err(|error| trouble(&directory.path().join(TURN), &error))
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

fn are_all_ours(directory: &Directory) -> Result<bool, Failure> {
    let are = parts::are_all_ours(directory.inside());
    are.map_err(|error| directory.trouble(&error))
}

fn foreign(directory: &Directory) -> Failure {
    let shown = directory.path().display();
    refused(
        "FOREIGN",
        format!("{shown} is neither empty nor a store: use another directory"),
    )
}

/// The process that is about to begin the store, or has the turn while others want to join, by `/proc/locks`.
pub(super) fn in_the_way(place: &StorePlace) -> Option<u32> {
    ["", STORE, TURN].into_iter().find_map(|file| {
        let file = fs::metadata(place.path.join(file)).ok()?;
        holder_of(&file)
    })
}

/// The error of a process that cannot begin the store anew because others use what is left of it.
pub(super) fn still_used(place: &StorePlace, rest: StoreRest) -> Failure {
    let shown = place.path.display();
    let sessions = parts::session_files(&place.path).unwrap_or_default();
    let files = [place.path.join(STORE), place.path.clone()].into_iter();
    let mut files = files.chain(sessions);
    let user = match files.find_map(|file| user_of(&fs::metadata(file).ok()?)) {
        Some(process) => format!("process {process}"),
        None => "somebody".to_owned(),
    };
    refused(
        "INUSE",
        match rest {
            StoreRest::OfOtherBoot => format!(
                "{shown} was begun before this machine was started, and {user} still uses it (another machine or kernel?): end that, or use another directory"
            ),
            StoreRest::Half => format!(
                "a part of {shown} was removed, and {user} still uses the rest: end that, or remove the directory, and connect again"
            ),
        },
    )
}

/// The path of the file `store`, which shows whether the store is still there, as that place names it.
pub(super) fn store_path(place: &StorePlace) -> PathBuf {
    let path = std::path::absolute(&place.path);
    path.unwrap_or_else(|_| place.path.clone()).join(STORE)
}

fn header(directory: &Directory, mut store: &File, here: &World) -> Result<Header, Mismatch> {
    const LENGTH_MAX: u64 = 4096;
    let mut text = Vec::new();
    let read = store
        .rewind()
        .and_then(|()| store.take(LENGTH_MAX).read_to_end(&mut text));
    read.map_err(|error| Mismatch::Refused(directory.trouble(&error)))?;
    let path = directory.path().display();
    Header::read(&String::from_utf8_lossy(&text), here).map_err(|mismatch| match mismatch {
        Mismatch::Refused(Failure::Refused { code, message }) => {
            Mismatch::Refused(refused(&code, format!("{path}: {message}")))
        }
        other => other,
    })
}

/// Takes the lock, unless others have it.
fn try_lock(directory: &Directory, file: &File, how: FlockOperation) -> Result<bool, Failure> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::AGAIN) => Ok(false),
        Err(error) => Err(directory.trouble(&error.into())),
    }
}

/// Whether the file was removed: it will never be at its path again.
fn is_unlinked(file: &File) -> bool {
    rustix::fs::fstat(file).is_ok_and(|found| found.st_nlink == 0)
}

fn lock_shared(store: &File) -> io::Result<()> {
    loop {
        match flock(store, FlockOperation::LockShared) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

/// Between two steps another process may change the files; a test does it here.
fn step() {
    #[cfg(test)]
    tests::step();
}

#[cfg(test)]
mod tests;
