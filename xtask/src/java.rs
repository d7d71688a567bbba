//! The real Redisson for the tests: Java and Maven, found here or installed, and the program that they build.

use std::path::Path;
use std::process::Command;

use crate::packages::{self, Packages};
use crate::shell;

const REQUIRE_VARIABLE: &str = "FERROLOCK_REQUIRE_JAVA";
const NONE_VARIABLE: &str = "FERROLOCK_NO_JAVA";

const PACKAGES: Packages = Packages {
    apt: &["default-jdk-headless", "maven"],
    dnf: &["java-latest-openjdk-devel", "maven"],
    apk: &["openjdk17", "maven"],
    brew: &["openjdk", "maven"],
};

/// Whether tests can talk to Redisson.
#[derive(Debug, Default)]
pub(crate) struct Java {
    /// If not, why, and what to do about it.
    pub(crate) missing: Option<String>,
}

impl Java {
    /// Installs what is missing, and builds the program with each version of Redisson.
    pub(crate) fn get(root: &Path) -> Self {
        let built = programs().and_then(|()| build(root));
        Self {
            missing: built.err().map(|why| format!("Redisson: {why}")),
        }
    }

    /// Sets the variable by which tests without Java fail if it is here, and are left out if not.
    pub(crate) fn hand_to(&self, command: &mut Command) {
        match self.missing {
            Some(_) => command.env(NONE_VARIABLE, "1"),
            None => command.env(REQUIRE_VARIABLE, "1"),
        };
    }

    /// Sets the variable that hides it, as on a machine that has none.
    pub(crate) fn hide_from(command: &mut Command) {
        command.env(NONE_VARIABLE, "1").env_remove(REQUIRE_VARIABLE);
    }
}

fn programs() -> Result<(), String> {
    if absent().is_none() {
        return Ok(());
    }
    let why = match packages::install(&PACKAGES) {
        Ok(()) => "it was installed, but there is still none on PATH".to_owned(),
        Err(why) => why,
    };
    absent().map_or(Ok(()), |program| {
        Err(format!(
            "{program}: {why}. Install a JDK (17 or newer) and Maven"
        ))
    })
}

fn absent() -> Option<&'static str> {
    ["java", "javac", "mvn"]
        .into_iter()
        .find(|program| shell::find(program).is_none())
}

/// Builds it as the tests do; but here Maven may fetch what it lacks.
fn build(root: &Path) -> Result<(), String> {
    let mut command = shell::cargo(root);
    command.args(["run", "--quiet", "-p", "testkit", "--example", "redisson"]);
    shell::run(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers;
    use std::ffi::OsStr;

    /// Whether `hand_to` leaves the variable set for a command.
    fn is_set(java: &Java, variable: &str) -> bool {
        let mut command = Command::new("cargo");
        command.env(servers::REQUIRE_VARIABLE, "1");
        java.hand_to(&mut command);
        command
            .get_envs()
            .any(|(name, value)| name == OsStr::new(variable) && value.is_some())
    }

    #[test]
    fn tests_with_java_may_be_left_out_only_where_java_is_missing() {
        let here = Java { missing: None };
        let missing = Java {
            missing: Some("no `mvn`".to_owned()),
        };

        assert!(is_set(&here, REQUIRE_VARIABLE));
        assert!(!is_set(&missing, REQUIRE_VARIABLE));
        assert!(is_set(&missing, NONE_VARIABLE));
        for java in [here, missing] {
            assert!(is_set(&java, servers::REQUIRE_VARIABLE));
        }
    }
}
