//! Eight processes use one lock, and the test kills them at random.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrolock::Client;
use rustix::fs::{FlockOperation, flock};
use testkit::process::{Child, Role};
use testkit::{LIMIT, eventually};

use crate::actor::Actor;
use crate::causes;
use crate::stage::{Store, boot_nanos};

const PROCESSES: usize = 8;
const LEASE: Duration = Duration::from_secs(10);
/// How often a process takes a lock of its own before it takes the one that all want.
const OWN: usize = 20;
/// Between two kills, at most.
const PAUSE_MICROS_MAX: u64 = 12_000;

fn duration() -> Duration {
    let seconds = std::env::var("FERROLOCK_STORM_SECONDS").ok();
    Duration::from_secs(seconds.map_or(30, |text| text.parse().expect("a number of seconds")))
}

/// A process in the storm: takes the lock and gives it back, as fast as it can, until it is killed.
pub(crate) fn swimmer(role: &Role) {
    let [url, folder] = role.args() else {
        panic!("two arguments: {role:?}");
    };
    let log = Log::open(Path::new(folder));
    causes::begin();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let builder = Client::builder().url(url).watchdog_lease(LEASE);
        let client = builder.connect().await.unwrap();
        let own = client.lock(format!("of {}", std::process::id()));
        loop {
            // No other process wants this lock: the process spends its time in commits, and is often killed there.
            for _ in 0..OWN {
                own.lock().await.unwrap().unlock().await.unwrap();
            }
            let guard = client.lock("x").lock().await.unwrap();
            if causes::last_of("x").is_some_and(|cause| cause == "lease_end") {
                log.violated("it waited for a lease");
            }
            log.inside();
            guard.unlock().await.unwrap();
        }
    });
}

/// What the processes write down, each while it holds the lock.
#[derive(Debug)]
struct Log {
    folder: PathBuf,
    probe: File,
    record: File,
}

/// Read and written without any protection but the lock's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Record {
    /// When the lock was last acquired, by the boot clock.
    last_nanos: u64,
    acquisitions: u64,
    longest_gap_nanos: u64,
    process: u64,
}

impl Log {
    fn open(folder: &Path) -> Self {
        let file = |name: &str| {
            let mut options = File::options();
            options.read(true).write(true).create(true);
            options.open(folder.join(name)).unwrap()
        };
        Self {
            probe: file("probe"),
            record: file("record"),
            folder: folder.to_owned(),
        }
    }

    /// Called by the holder of the lock: no other process may be inside.
    fn inside(&self) {
        self.enter();
        let before = self.read();
        let now = boot_nanos();
        let gap = match before.last_nanos {
            0 => 0,
            last => now.saturating_sub(last),
        };
        let ours = Record {
            last_nanos: now,
            acquisitions: before.acquisitions + 1,
            longest_gap_nanos: before.longest_gap_nanos.max(gap),
            process: u64::from(std::process::id()),
        };
        self.write(ours);
        std::thread::yield_now();
        let after = self.read();
        if after != ours {
            self.violated(&format!("wrote {ours:?} and found {after:?}"));
        }
        flock(&self.probe, FlockOperation::Unlock).unwrap();
    }

    /// Takes a file lock, which the system releases when the process ends. A process that is just being killed may still
    /// have it; a process that lives must not.
    fn enter(&self) {
        while flock(&self.probe, FlockOperation::NonBlockingLockExclusive).is_err() {
            if let Some(process) = self
                .holder_of_probe()
                .filter(|process| !is_ending(*process))
            {
                self.violated(&format!("process {process} is inside too"));
                flock(&self.probe, FlockOperation::LockExclusive).unwrap();
                return;
            }
            std::thread::yield_now();
        }
    }

    fn holder_of_probe(&self) -> Option<u32> {
        let inode = format!(":{} 0 EOF", self.probe.metadata().unwrap().ino());
        let locks = fs::read_to_string("/proc/locks").unwrap();
        let line = locks.lines().find(|line| line.ends_with(&inode))?;
        line.split_whitespace().nth(4)?.parse().ok()
    }

    fn violated(&self, how: &str) {
        let name = format!("violation-{}-{}", std::process::id(), boot_nanos());
        fs::write(self.folder.join(name), how).unwrap();
    }

    fn violations(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_one = |path: &PathBuf| path.to_str().unwrap().contains("violation-");
        paths
            .filter(is_one)
            .map(|path| fs::read_to_string(path).unwrap())
            .collect()
    }

    fn read(&self) -> Record {
        let mut bytes = [0; 32];
        // What is not written yet is zero.
        self.record.read_at(&mut bytes, 0).unwrap();
        let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
        Record {
            last_nanos: number(0),
            acquisitions: number(8),
            longest_gap_nanos: number(16),
            process: number(24),
        }
    }

    fn write(&self, record: Record) {
        let Record {
            last_nanos,
            acquisitions,
            longest_gap_nanos,
            process,
        } = record;
        let numbers = [last_nanos, acquisitions, longest_gap_nanos, process];
        let bytes = numbers.map(u64::to_be_bytes).concat();
        self.record.write_all_at(&bytes, 0).unwrap();
    }
}

/// Whether every thread of a process is exiting, as the system sees it.
fn is_ending(process: u32) -> bool {
    const EXITING: u64 = 4;
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else {
        return true;
    };
    threads.flatten().all(|thread| {
        let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        // The name is in brackets and may contain any character.
        let Some((_, behind)) = stat.rsplit_once(')') else {
            return true;
        };
        let flags: u64 = behind.split_whitespace().nth(6).unwrap().parse().unwrap();
        flags & EXITING != 0
    })
}

#[test]
fn when_processes_are_killed_there_is_one_holder_and_no_wait_for_a_lease() {
    let (store, place) = (Store::new(), tempfile::tempdir().unwrap());
    let log = Log::open(place.path());
    let start = || {
        let folder = place.path().to_str().unwrap();
        Child::again("storm::swimmer", &[&store.url(), folder])
    };
    let seed = fastrand::u64(..);
    eprintln!("the storm's seed is {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut swimmers: Vec<_> = (0..PROCESSES).map(|_| start()).collect();
    eventually(LIMIT, "the first acquisition", || {
        log.read().acquisitions > 0
    });

    let (begun, mut kills) = (Instant::now(), 0);
    while begun.elapsed() < duration() {
        std::thread::sleep(Duration::from_micros(random.u64(..PAUSE_MICROS_MAX)));
        let victim = &mut swimmers[random.usize(..PROCESSES)];
        let ended = victim.kill();
        assert_eq!(ended.signal(), Some(9), "it ended by itself: {ended}");
        *victim = start();
        kills += 1;
    }

    let before = log.read();
    let what = "the survivors go on";
    eventually(LIMIT, what, || {
        log.read().acquisitions > before.acquisitions + 100
    });
    let record = log.read();
    let gap = Duration::from_nanos(record.longest_gap_nanos);
    let acquisitions = record.acquisitions;
    eprintln!("{kills} kills, {acquisitions} acquisitions, longest gap {gap:?} (lease {LEASE:?})");
    assert_eq!(log.violations(), Vec::<String>::new());
    for swimmer in &mut swimmers {
        assert_eq!(swimmer.kill().signal(), Some(9), "it ended by itself");
    }
    let mut next = Actor::start();
    next.connects(&store);
    next.takes("x");
    assert_eq!(
        store.sessions().len(),
        1,
        "what the killed have left is swept"
    );
}

/// A process that is killed while it begins a store leaves one that the next process can begin, or one that is complete.
#[test]
fn processes_killed_while_they_begin_a_store_do_not_block_the_next() {
    let seed = fastrand::u64(..);
    eprintln!("the seed is {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut begun = 0;
    for round in 0..40 {
        let store = if round % 2 == 0 {
            Store::new()
        } else {
            Store::begun()
        };
        if store.path().exists() {
            store.edit_header("boot", "another");
        }
        let mut victims: Vec<_> = (0..3).map(|_| Actor::start()).collect();
        for victim in &mut victims {
            victim.begins(&["connect", &store.url(), "60000"]);
        }
        std::thread::sleep(Duration::from_micros(random.u64(..4000)));
        victims.iter_mut().for_each(Actor::is_killed);
        begun += usize::from(store.file("turn").exists());

        let mut next = Actor::start();
        next.connects(&store);
        next.takes("x");
        let mut other = Actor::start();
        other.connects(&store);
        assert_eq!(other.does(&["try", "x"]), "busy");
        let left = store.sessions();
        assert_eq!(left.len(), 2, "{left:?}");
    }
    eprintln!("40 stores; {begun} of them had been begun, or had been about to be");
}

/// Tests the detector itself, without a lock.
#[test]
fn the_detector_reports_two_processes_inside_without_a_lock() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (Log::open(place.path()), Log::open(place.path()));

    one.enter();
    std::thread::scope(|scope| {
        scope.spawn(|| two.inside());
        eventually(LIMIT, "a violation", || !one.violations().is_empty());
        flock(&one.probe, FlockOperation::Unlock).unwrap();
    });
}
