//! The outcomes of the tests of one binary, recorded by the process that ran it.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// One run of one test binary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct BinaryRun {
    /// Package and binary: `ferrolock/waiting`.
    pub(crate) binary: String,
    pub(crate) tests: Vec<TestRun>,
    /// The lines in which tests say what they did not test.
    pub(crate) left_out: Vec<String>,
    pub(crate) end: End,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TestRun {
    pub(crate) name: String,
    pub(crate) outcome: Outcome,
    /// From the harness; that of the examples in the docs does not report it.
    pub(crate) seconds: Option<f64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Ignored,
    /// It ran when the binary ended.
    #[default]
    Unfinished,
}

/// How the binary ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum End {
    /// It reported all of its tests.
    #[default]
    Whole,
    /// It ended before it had reported all of them; how.
    Crashed(String),
    /// It was killed, because it ran for longer than this.
    Hung { seconds: u64 },
}

impl BinaryRun {
    /// Writes it into the folder; each binary has another `file`.
    pub(super) fn write(&self, folder: &Path, file: &str) -> Result<(), String> {
        let path = folder.join(format!("{file}.json"));
        let text = serde_json::to_string(self).map_err(|why| why.to_string())?;
        fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))
    }
}

/// Everything that was written into the folder, in the order of the names.
pub(super) fn read(folder: &Path) -> Result<Vec<BinaryRun>, String> {
    let explain = |why: std::io::Error| format!("{}: {why}", folder.display());
    let mut runs = Vec::new();
    for entry in fs::read_dir(folder).map_err(explain)? {
        let text = fs::read_to_string(entry.map_err(explain)?.path()).map_err(explain)?;
        runs.push(serde_json::from_str(&text).map_err(|why| why.to_string())?);
    }
    runs.sort_by(|one: &BinaryRun, other| one.binary.cmp(&other.binary));
    Ok(runs)
}

/// Makes an empty folder for it, whatever was there.
pub(super) fn begin(folder: &Path) -> Result<(), String> {
    let explain = |why: std::io::Error| format!("{}: {why}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(explain)?;
    }
    fs::create_dir_all(folder).map_err(explain)
}
