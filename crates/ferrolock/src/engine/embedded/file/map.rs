//! The table of a store: a file that all its processes have mapped into their memory.

use std::fs;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, MdbError, RwTxn, WithoutTls};

use super::refused;
use crate::engine::Failure;

/// The two files in the folder of the map.
pub(super) const FILES: [&str; 2] = ["data.mdb", "lock.mdb"];

/// The first content of LMDB's file of locks: longer than LMDB needs.
const LOCKS: [u8; 4096] = [0; 4096];

/// One part in this many of the map is kept for calls that make room.
const RESERVE: usize = 16;

/// A map that was just opened, and is closed again unless it becomes a [`Map`].
pub(super) struct OpenedMap {
    env: Env<WithoutTls>,
    data: PathBuf,
    size: usize,
}

/// A map, which stays open as long as the process lives: two maps of one file in a process undo each other's locks.
pub(super) struct Map {
    env: &'static Env<WithoutTls>,
    data: PathBuf,
    /// Known from the first change on: asking for it needs a transaction, and the process that opens a map has no turn yet.
    rows: Option<Database<'static, Bytes, Bytes>>,
    size: usize,
}

impl OpenedMap {
    /// Makes a map in that folder, which is empty.
    pub(super) fn begin_new(folder: &Path, size: usize) -> Result<Self, Failure> {
        let locks = folder.join(FILES[1]);
        // LMDB would make a sparse file and write to it through its map: on a full disk, that ends this process.
        let written = super::parts::new_file(&locks).and_then(|mut file| file.write_all(&LOCKS));
        written
            .map_err(|error| super::directory::io_trouble(&locks.display().to_string(), &error))?;
        Self::open(folder, size)
    }

    /// Opens the map in that folder, which has one: LMDB would begin a file anew that is missing or empty. Once per folder and
    /// process.
    pub(super) fn open(folder: &Path, size: usize) -> Result<Self, Failure> {
        let env = Self::open_env(folder, size).map_err(|error| trouble(&error))?;
        let data = folder.join(FILES[0]);
        keep_from_children(&data)
            .map_err(|error| super::directory::io_trouble(&data.display().to_string(), &error))?;
        Ok(Self { env, data, size })
    }

    /// Whether nothing was ever written to it.
    pub(super) fn is_new(&self) -> bool {
        self.env.info().last_txn_id == 0
    }

    fn open_env(folder: &Path, size: usize) -> heed::Result<Env<WithoutTls>> {
        let mut options = EnvOpenOptions::new().read_txn_without_tls();
        // We read inside write transactions only; LMDB wants one place for readers all the same.
        options.map_size(size).max_readers(1);
        #[expect(
            unsafe_code,
            reason = "a map is sound while nobody changes its file but through LMDB, and it is opened once: the folder is the \
                      user's own (0700) on a local file system, its files are those that the header names, and the table of \
                      stores opens each inode once. NO_SYNC gives up what a crash of the machine would leave, and after \
                      another boot nothing is read."
        )]
        let env = unsafe { options.flags(EnvFlags::NO_SYNC).open(folder) };
        env
    }
}

/// A map never is empty.
pub(super) fn check_not_empty(folder: &Path) -> Result<(), Failure> {
    let data = folder.join(FILES[0]);
    match fs::metadata(&data) {
        Ok(found) if found.len() > 0 => Ok(()),
        Ok(_) => Err(refused(
            "CORRUPT",
            format!(
                "{} is empty: end the processes that use the store and remove its directory",
                data.display()
            ),
        )),
        Err(error) => Err(super::directory::io_trouble(
            &data.display().to_string(),
            &error,
        )),
    }
}

impl Map {
    /// From here on the map stays open. The caller keeps it in a table, where it is found again.
    pub(super) fn of(opened: OpenedMap) -> Self {
        Self {
            env: Box::leak(Box::new(opened.env)),
            data: opened.data,
            rows: None,
            size: opened.size,
        }
    }

    /// Begins a change. The caller has the turn, so no other process changes the map.
    pub(super) fn begin(&mut self) -> Result<Change, Failure> {
        self.begin_change().map_err(|error| trouble(&error))
    }

    fn begin_change(&mut self) -> heed::Result<Change> {
        let rows = match self.rows {
            Some(rows) => rows,
            None => {
                self.lengthen()?;
                *self.rows.insert(rows_of(self.env)?)
            }
        };
        Ok(Change {
            rows,
            transaction: self.env.write_txn()?,
            has_written: false,
        })
    }

    /// Makes the file as long as its pages need it. To read a page through the map that is not in the file would end this
    /// process; for zeros, LMDB returns an error. LMDB itself may leave the last pages out, so a short file is not a damaged
    /// one. The caller has the turn: no other process makes the file longer meanwhile.
    fn lengthen(&self) -> heed::Result<()> {
        let page = u64::from(self.env.unnamed_database_stat().page_size);
        let last = u64::try_from(self.env.info().last_page_number).unwrap_or(u64::MAX);
        let needed = last.saturating_add(1).saturating_mul(page);
        let file = fs::OpenOptions::new().write(true).open(&self.data)?;
        if file.metadata()?.len() < needed {
            file.set_len(needed)?;
        }
        Ok(())
    }

    /// Whether only the reserve is left, which is for calls that make room.
    pub(super) fn is_full(&self) -> bool {
        let table = self.env.unnamed_database_stat();
        let pages = table.branch_pages + table.leaf_pages + table.overflow_pages;
        let used = pages.saturating_mul(table.page_size as usize);
        used > self.size - self.size / RESERVE
    }
}

/// LMDB opens its file so that every program that this process starts inherits it, whatever user runs that program.
fn keep_from_children(data: &Path) -> io::Result<()> {
    let ours = fs::metadata(data)?;
    for entry in fs::read_dir("/proc/self/fd")? {
        let entry = entry?;
        // A file that was closed meanwhile is not LMDB's.
        let Ok(open) = fs::metadata(entry.path()) else {
            continue;
        };
        let number = entry.file_name().to_string_lossy().parse().ok();
        if let Some(number) =
            number.filter(|_| (open.dev(), open.ino()) == (ours.dev(), ours.ino()))
        {
            #[expect(
                unsafe_code,
                reason = "the file is open under this number: it is LMDB's, which nobody else in this process opens, and stays open"
            )]
            let file = unsafe { BorrowedFd::borrow_raw(number) };
            rustix::io::fcntl_setfd(file, rustix::io::FdFlags::CLOEXEC)?;
        }
    }
    Ok(())
}

fn rows_of(env: &'static Env<WithoutTls>) -> heed::Result<Database<'static, Bytes, Bytes>> {
    let transaction = env.write_txn()?;
    let rows = env.create_databases_and_commit(transaction, |opener, transaction| {
        opener
            .create_database::<Bytes, Bytes>(transaction, None)
            .map(CommitOrAbort::<_, ()>::Commit)
    })?;
    Ok(rows.unwrap_commit())
}

impl std::fmt::Debug for OpenedMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenedMap")
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Map")
    }
}

/// A row's name and its value.
type NameAndValue<T> = (T, T);

/// A change of the table: made whole by [`Change::commit`], or not at all.
pub(super) struct Change {
    rows: Database<'static, Bytes, Bytes>,
    transaction: RwTxn<'static>,
    has_written: bool,
}

impl Change {
    pub(super) fn get(&self, name: &[u8]) -> Result<Option<&[u8]>, Failure> {
        let row = self.rows.get(&self.transaction, name);
        row.map_err(|error| trouble(&error))
    }

    pub(super) fn put(&mut self, name: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.has_written = true;
        let put = self.rows.put(&mut self.transaction, name, value);
        put.map_err(|error| trouble(&error))
    }

    pub(super) fn delete(&mut self, name: &[u8]) -> Result<(), Failure> {
        self.has_written = true;
        let deleted = self.rows.delete(&mut self.transaction, name);
        deleted.map(drop).map_err(|error| trouble(&error))
    }

    /// The first row whose name begins with `begin`.
    pub(super) fn first(&self, begin: &[u8]) -> Result<Option<NameAndValue<&[u8]>>, Failure> {
        let row = self
            .rows
            .get_greater_than_or_equal_to(&self.transaction, begin)
            .map_err(|error| trouble(&error))?;
        Ok(row.filter(|(name, _)| name.starts_with(begin)))
    }

    /// All rows whose names begin with `begin`.
    pub(super) fn all(&self, begin: &[u8]) -> Result<Vec<NameAndValue<Vec<u8>>>, Failure> {
        let rows = self
            .rows
            .prefix_iter(&self.transaction, begin)
            .map_err(|error| trouble(&error))?;
        rows.map(|row| {
            let (name, value) = row.map_err(|error| trouble(&error))?;
            Ok((name.to_vec(), value.to_vec()))
        })
        .collect()
    }

    pub(super) fn commit(self) -> Result<(), Failure> {
        if !self.has_written {
            return Ok(());
        }
        self.transaction.commit().map_err(|error| trouble(&error))
    }
}

/// What a caller fails with for an error of the map.
pub(super) fn trouble(error: &heed::Error) -> Failure {
    match error {
        heed::Error::Io(error) => super::directory::io_trouble("the store", error),
        heed::Error::Mdb(MdbError::MapFull) => full(),
        heed::Error::Mdb(MdbError::Panic) => refused(
            "BROKEN",
            "an earlier write to the store failed half-way: end this process and start it again",
        ),
        heed::Error::Mdb(error) => refused(
            "CORRUPT",
            format!(
                "the store cannot be read ({error}): end the processes that use it and remove its directory"
            ),
        ),
        other => refused("BROKEN", format!("the store cannot be used: {other}")),
    }
}

pub(super) fn full() -> Failure {
    refused(
        "OOM",
        "the store is full: release locks, or end the processes that hold too many",
    )
}
