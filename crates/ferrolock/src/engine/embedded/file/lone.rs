//! A store that one test has for itself, at the time that the test gives.

use super::super::emulator::lua::Interpreter;
use super::StorePlace;
use super::folder::{Folder, FolderTry};
use super::map::Map;
use super::store::Store;
use crate::engine::Failure;
use crate::protocol::call::{Call, Value};

const SIZE: usize = 64 << 20;

/// A store without a session: no process waits, and none has ended.
#[derive(Debug)]
pub(in super::super) struct Lone {
    store: Store,
    _directory: tempfile::TempDir,
}

impl Lone {
    pub(in super::super) fn new() -> Self {
        let directory = testkit::store_folder();
        let place = StorePlace {
            path: directory.path().to_owned(),
            on_any_file_system: true,
        };
        let found = Folder::find(&place).unwrap().expect("nobody removes it");
        let FolderTry::Open(folder, opened) = Folder::open(found, SIZE).unwrap() else {
            panic!("nobody else is at it");
        };
        Self {
            store: Store::new(*folder, Map::of(opened), Interpreter::new().unwrap()),
            _directory: directory,
        }
    }

    /// Loads the keys of the call, runs it, and writes back what it has changed.
    pub(in super::super) fn call_at(&mut self, micros: i64, call: &Call) -> Result<Value, Failure> {
        self.store.call_at(micros, None, call).0
    }
}
