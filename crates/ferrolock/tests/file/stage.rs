//! A directory for a store, and a look at it from outside.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use ferrolock::{Client, ClientBuilder, Error, ErrorKind};

/// Longer than any test takes.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// A store of the test's own.
#[derive(Debug)]
pub(crate) struct Store {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Store {
    /// Not begun yet.
    pub(crate) fn new() -> Self {
        let folder = testkit::store_folder();
        let path = folder.path().join("store of locks");
        Self { folder, path }
    }

    /// Not begun yet, with a path of hundreds of bytes.
    pub(crate) fn deep() -> Self {
        let mut store = Self::new();
        let long = "and so on".repeat(25);
        fs::create_dir(store.beside(&long)).unwrap();
        store.path = store.beside(&long).join("y".repeat(80));
        store
    }

    /// A store that was begun, and that no process uses now.
    pub(crate) fn begun() -> Self {
        let store = Self::new();
        let mut actor = super::actor::Actor::start();
        actor.connects(&store);
        actor.ends();
        store
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where other things can be put, beside the store.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(crate) fn url(&self) -> String {
        url(&self.path)
    }

    /// For a client whose leases do not end during a test.
    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder().url(self.url()).watchdog_lease(LONG)
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.unwrap()
    }

    /// What the file `store` says.
    pub(crate) fn header(&self) -> String {
        fs::read_to_string(self.file("store")).unwrap()
    }

    /// Changes the line of the header that begins with `word`.
    pub(crate) fn edit_header(&self, word: &str, value: &str) {
        let mut edited = String::new();
        let mut found = false;
        for line in self.header().lines() {
            let is_it = line.split(' ').next() == Some(word);
            found |= is_it;
            let changed = format!("{word} {value}");
            edited += if is_it { &changed } else { line };
            edited.push('\n');
        }
        assert!(found, "no {word} in {}", self.header());
        fs::write(self.file("store"), edited).unwrap();
    }

    /// The folder of the table.
    pub(crate) fn map(&self) -> PathBuf {
        let header = self.header();
        let name = header.lines().find_map(|line| line.strip_prefix("map "));
        self.file(name.expect("a header names its map"))
    }

    /// How many changes were committed to the table: the newer of the two numbers in LMDB's first two pages.
    pub(crate) fn changes(&self) -> u64 {
        const PAGE_LENGTH_AT: u64 = 40;
        const NUMBER_AT: u64 = 144;
        let data = fs::File::open(self.map().join("data.mdb")).unwrap();
        let mut length = [0; 4];
        data.read_exact_at(&mut length, PAGE_LENGTH_AT).unwrap();
        let second = u64::from(u32::from_ne_bytes(length));
        let numbers = [0, second].map(|page| {
            let mut number = [0; 8];
            data.read_exact_at(&mut number, page + NUMBER_AT).unwrap();
            u64::from_ne_bytes(number)
        });
        numbers.into_iter().max().unwrap()
    }

    /// The names in `sessions/`.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let entries = fs::read_dir(self.file("sessions")).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// The only session file.
    pub(crate) fn only_session(&self) -> PathBuf {
        let mut names = self.sessions();
        names.retain(|name| !name.contains('.'));
        assert_eq!(names.len(), 1, "{names:?}");
        self.file("sessions").join(&names[0])
    }

    /// Everything in it: inode, mode and contents. Not for a store that this process has open: LMDB's locks of a file end
    /// when a process closes any handle of the file.
    pub(crate) fn contents(&self) -> BTreeMap<PathBuf, Entry> {
        contents(&self.path)
    }
}

/// What lies at a path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    inode: u64,
    mode: u32,
    content: Vec<u8>,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let length = self.content.len();
        write!(
            f,
            "inode {}, mode {:o}, {length} bytes",
            self.inode, self.mode
        )
    }
}

pub(crate) fn contents(path: &Path) -> BTreeMap<PathBuf, Entry> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(path).unwrap() {
        let path = entry.unwrap().path();
        let found = fs::symlink_metadata(&path).unwrap();
        let content = if found.is_file() {
            fs::read(&path).unwrap()
        } else {
            Vec::new()
        };
        if found.is_dir() {
            all.extend(contents(&path));
        }
        let (inode, mode) = (found.ino(), found.mode());
        all.insert(
            path,
            Entry {
                inode,
                mode,
                content,
            },
        );
    }
    all
}

pub(crate) fn url(path: &Path) -> String {
    format!("file:{}", path.to_str().unwrap())
}

/// Asserts that it was refused with that code and that text.
#[track_caller]
pub(crate) fn assert_refused<T>(result: Result<T, Error>, code: &str, says: &str) {
    let Err(error) = result else {
        panic!("not refused, and should be: {code}");
    };
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_eq!(error.code(), Some(code), "{error}");
    let text = error.to_string();
    assert!(text.contains(says), "{text}");
    assert!(!text.contains('\n'), "{text}");
}

/// Waits for `future`; the limit only ends a test that would hang.
#[track_caller]
pub(crate) fn limited<T>(future: impl Future<Output = T>) -> impl Future<Output = T> {
    let place = std::panic::Location::caller();
    async move {
        match tokio::time::timeout(4 * testkit::LIMIT, future).await {
            Ok(output) => output,
            Err(_) => panic!("it never comes: {place}"),
        }
    }
}

/// Whether that command succeeds: whether this machine allows what a test needs.
pub(crate) fn is_possible(command: &[&str]) -> bool {
    let mut started = Command::new(command[0]);
    started.args(&command[1..]).stdout(Stdio::null());
    started
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The boot clock, which all processes share.
pub(crate) fn boot_nanos() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}
