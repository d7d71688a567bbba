//! A counter that loses counts if two users count at once.

use crate::connection::{Address, Connection};
use crate::server::Server;
use std::fs;
use std::path::PathBuf;

/// It reads, waits a moment, and writes back one more: without exclusion two bumps at a time count as one.
///
/// Clones, and counters of the same place in other processes, count together.
#[derive(Debug, Clone)]
pub struct Counter {
    place: Place,
}

#[derive(Debug, Clone)]
enum Place {
    File(PathBuf),
    Key { server: Address, key: String },
}

/// Enough for another thread to come in between.
const YIELDS: usize = 20;

impl Counter {
    /// A counter in a file, which need not exist yet.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self {
            place: Place::File(path.into()),
        }
    }

    /// A counter in a key of a server without a password.
    pub fn key(server: &Server, key: &str) -> Self {
        Self {
            place: Place::Key {
                server: Address::Unix(server.socket()),
                key: key.to_owned(),
            },
        }
    }

    /// Counts one more, giving way to other threads between reading and writing.
    pub fn bump(&self) {
        let count = self.read();
        for _ in 0..YIELDS {
            std::thread::yield_now();
        }
        self.write(count + 1);
    }

    /// Counts one more, giving way to other tasks between reading and writing.
    pub async fn bump_async(&self) {
        let count = self.read();
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
        }
        self.write(count + 1);
    }

    /// The count so far.
    pub fn read(&self) -> u64 {
        match &self.place {
            Place::File(path) => match fs::read_to_string(path) {
                Ok(digits) => digits.parse().expect("digits"),
                Err(_) => 0,
            },
            Place::Key { server, key } => match connect(server).command(&["GET", key]) {
                crate::Reply::Nil => 0,
                reply => reply.text().parse().expect("digits"),
            },
        }
    }

    fn write(&self, count: u64) {
        let digits = count.to_string();
        match &self.place {
            Place::File(path) => {
                // Replaced as a whole: a count may get lost, but no reader may see half a number.
                let folder = path.parent().expect("a file lies in a folder");
                let file = tempfile::NamedTempFile::new_in(folder).unwrap();
                fs::write(file.path(), digits).unwrap();
                file.persist(path).unwrap();
            }
            Place::Key { server, key } => {
                connect(server).command(&["SET", key, &digits]);
            }
        }
    }
}

fn connect(server: &Address) -> Connection {
    Connection::open(server).expect("the counter's server answers")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn bumps_kept_apart_are_all_counted() {
        let folder = tempfile::tempdir().unwrap();
        let counter = Counter::file(folder.path().join("count"));
        let exclusion = Mutex::new(());

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let _alone = exclusion.lock().unwrap();
                        counter.bump();
                    }
                });
            }
        });

        assert_eq!(counter.read(), 100);
    }

    #[tokio::test]
    async fn bumps_at_the_same_time_are_lost() {
        let folder = tempfile::tempdir().unwrap();
        let counter = Counter::file(folder.path().join("count"));

        tokio::join!(counter.bump_async(), counter.bump_async());

        assert_eq!(counter.read(), 1);
    }
}
