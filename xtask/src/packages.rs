//! The system's own packages.

use std::process::{Command, Stdio};

use crate::shell;

/// The names of some packages in each package manager that we know.
#[derive(Debug)]
pub(crate) struct Packages {
    pub(crate) apt: &'static [&'static str],
    pub(crate) dnf: &'static [&'static str],
    pub(crate) apk: &'static [&'static str],
    pub(crate) brew: &'static [&'static str],
}

struct Manager {
    program: &'static str,
    install: &'static [&'static str],
    /// The subcommand to run before a second try, if installing fails.
    refresh: &'static str,
    packages: fn(&Packages) -> &'static [&'static str],
}

const MANAGERS: [Manager; 4] = [
    Manager {
        program: "apt-get",
        install: &["install", "--yes", "--no-install-recommends"],
        refresh: "update",
        packages: |packages| packages.apt,
    },
    Manager {
        program: "dnf",
        install: &["install", "--assumeyes"],
        refresh: "makecache",
        packages: |packages| packages.dnf,
    },
    Manager {
        program: "apk",
        install: &["add"],
        refresh: "update",
        packages: |packages| packages.apk,
    },
    Manager {
        program: "brew",
        install: &["install"],
        refresh: "update",
        packages: |packages| packages.brew,
    },
];

/// Installs them, if that is possible without questions to the user.
pub(crate) fn install(packages: &Packages) -> Result<(), String> {
    let manager = MANAGERS
        .iter()
        .find(|manager| shell::find(manager.program).is_some())
        .ok_or("not on PATH, and no package manager that we know is here")?;
    let install: Vec<&str> = [manager.install, (manager.packages)(packages)].concat();
    let installed = run(manager.program, &install);
    if installed.is_ok() {
        return installed;
    }
    run(manager.program, &[manager.refresh])?;
    run(manager.program, &install)
}

fn run(manager: &str, args: &[&str]) -> Result<(), String> {
    let mut command = if manager == "brew" || is_root() {
        Command::new(manager)
    } else if shell::find("sudo").is_some() {
        let mut sudo = Command::new("sudo");
        // Never stop to ask for a password.
        sudo.args(["-n", manager]);
        sudo
    } else {
        return Err(format!("not on PATH, and `{manager}` needs root"));
    };
    command.args(args).stdin(Stdio::null());
    command.env("DEBIAN_FRONTEND", "noninteractive");
    shell::run(&mut command)
}

fn is_root() -> bool {
    shell::read(Command::new("id").arg("-u")).is_ok_and(|id| id.trim() == "0")
}
