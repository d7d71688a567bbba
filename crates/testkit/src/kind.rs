//! Which kinds of servers there are, and where their programs are.

use std::collections::BTreeSet;
use std::env;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Redis.
    Redis,
    /// Valkey.
    Valkey,
}

/// The servers that tests can run on here.
///
/// If one is missing, the test is named on the standard error output, bypassing the capture of test output. Panics where
/// no test may be left out: with `CI=true` or `FERROLOCK_REQUIRE_SERVERS=1`.
#[track_caller]
pub fn servers() -> Vec<Kind> {
    Kind::ALL
        .into_iter()
        .filter(|kind| kind.is_here())
        .collect()
}

/// Reports that the running test was not run `how` (on what, or without what), and once what to do about it.
///
/// On the standard error output, bypassing the capture of test output. Panics where no test may be left out: with `CI=true`
/// or `FERROLOCK_REQUIRE_SERVERS=1`.
#[track_caller]
pub fn left_out(how: &str, remedy: &str) {
    left_out_unless("FERROLOCK_REQUIRE_SERVERS", how, remedy);
}

/// The same, but panics if the variable `demand` is set instead of `FERROLOCK_REQUIRE_SERVERS`.
#[track_caller]
pub(crate) fn left_out_unless(demand: &str, how: &str, remedy: &str) {
    static NAMED: Mutex<BTreeSet<(String, String)>> = Mutex::new(BTreeSet::new());
    assert!(!is_required(demand, |name| env::var(name).ok()), "{remedy}");
    // The harness gives each test a thread with the test's name.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test").to_owned();
    let line = format!("NOT RUN {how}: {test}\n");
    let mut named = NAMED.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = named.iter().all(|(known, _)| known != how);
    if named.insert((how.to_owned(), test)) {
        let remedy = if is_first { remedy } else { "" };
        // The macros' output is captured and not shown when the test passes.
        let _ = std::io::stderr().write_all(format!("{remedy}{line}").as_bytes());
    }
}

impl Kind {
    const ALL: [Self; 2] = [Self::Redis, Self::Valkey];

    /// `redis` or `valkey`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Valkey => "valkey",
        }
    }

    /// Whether tests can run on it here; if not, reports that, or panics, as [`servers`] does.
    #[track_caller]
    pub fn is_here(self) -> bool {
        let here = self.available().is_some();
        if !here {
            left_out(&format!("on {}", self.name()), &self.missing());
        }
        here
    }

    /// The server's program, if it is on this machine.
    ///
    /// Looked for in the environment (`FERROLOCK_REDIS_SERVER`, `FERROLOCK_VALKEY_SERVER`), then, Valkey only,
    /// in the workspace's `.servers`, then on the `PATH`. Panics when the environment names no file. With
    /// `FERROLOCK_NO_SERVERS=1` none is looked for.
    #[track_caller]
    pub fn available(self) -> Option<PathBuf> {
        if env::var("FERROLOCK_NO_SERVERS").is_ok_and(|value| value == "1") {
            return None;
        }
        let variable = self.variable();
        let named = env::var_os(variable).filter(|path| !path.is_empty());
        if let Some(named) = named.map(PathBuf::from) {
            assert!(named.is_file(), "{variable} names no file: {named:?}");
            return Some(named);
        }
        let program = format!("{}-server", self.name());
        let fetched = match self {
            Self::Redis => None,
            Self::Valkey => Some(workspace_root().join(".servers").join(&program)),
        };
        let path = env::var_os("PATH").unwrap_or_default();
        fetched
            .into_iter()
            .chain(env::split_paths(&path).map(|folder| folder.join(&program)))
            .find(|candidate| candidate.is_file())
    }

    fn variable(self) -> &'static str {
        match self {
            Self::Redis => "FERROLOCK_REDIS_SERVER",
            Self::Valkey => "FERROLOCK_VALKEY_SERVER",
        }
    }

    fn missing(self) -> String {
        let remedy = match self {
            Self::Redis => "install `redis-server` or name it in FERROLOCK_REDIS_SERVER",
            Self::Valkey => "`cargo xtask test` fetches it",
        };
        format!("no {} server found: {remedy}\n", self.name())
    }
}

fn is_required(demand: &str, variable: impl Fn(&str) -> Option<String>) -> bool {
    matches!(variable("CI").as_deref(), Some("true" | "1"))
        || variable(demand).as_deref() == Some("1")
}

pub(crate) fn workspace_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate lies two folders below the root")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_may_be_left_out_in_ci_or_on_demand() {
        let given = |wanted: &'static str, value: &'static str| {
            move |name: &str| (name == wanted).then(|| value.to_owned())
        };

        assert!(is_required("DEMAND", given("CI", "true")));
        assert!(is_required("DEMAND", given("CI", "1")));
        assert!(is_required("DEMAND", given("DEMAND", "1")));
        assert!(!is_required("DEMAND", given("DEMAND", "0")));
        assert!(!is_required("DEMAND", given("OTHER", "1")));
        assert!(!is_required("DEMAND", |_| None));
    }

    #[test]
    fn the_workspace_root_holds_the_workspace() {
        let manifest = std::fs::read_to_string(workspace_root().join("Cargo.toml")).unwrap();

        assert!(manifest.contains("[workspace]"));
    }

    #[test]
    fn the_complaint_names_the_server_and_the_remedy() {
        assert_eq!(
            Kind::Valkey.missing(),
            "no valkey server found: `cargo xtask test` fetches it\n"
        );
    }
}
