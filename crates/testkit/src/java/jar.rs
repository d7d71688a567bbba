//! The program in `interop/java`: built when it is missing or older than its source.

use crate::kind::{left_out_unless, workspace_root};
use rustix::fs::{FlockOperation, flock};
use std::env;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// A version of Redisson.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redisson {
    /// The one that `interop/java/pom.xml` names.
    Newest,
    /// 3.17.7, the oldest that we speak to.
    Oldest,
}

impl Redisson {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    /// Its number.
    pub fn version(self) -> &'static str {
        static NEWEST: OnceLock<String> = OnceLock::new();
        match self {
            Self::Newest => NEWEST.get_or_init(|| {
                let pom = Project::ours("mvn").source().join("pom.xml");
                let text = fs::read_to_string(pom).expect("the program's project");
                newest(&text)
                    .expect("the project names a version")
                    .to_owned()
            }),
            Self::Oldest => "3.17.7",
        }
    }

    /// Whether tests can run with it here; if not, that is said, or panics with `CI=true` or
    /// `FERROLOCK_REQUIRE_JAVA=1`.
    ///
    /// The first call may take as long as Maven does. With `FERROLOCK_NO_JAVA=1` no Java is looked for.
    #[track_caller]
    pub fn is_here(self) -> bool {
        self.jar_here().is_some()
    }

    /// The program with this version, if it can run here; if not, that is said.
    #[track_caller]
    pub(super) fn jar_here(self) -> Option<&'static Path> {
        static NEWEST: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        static OLDEST: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let jar = match self {
            Self::Newest => &NEWEST,
            Self::Oldest => &OLDEST,
        };
        match jar.get_or_init(|| find(self)) {
            Ok(jar) => Some(jar),
            Err(why) => {
                left_out_unless("FERROLOCK_REQUIRE_JAVA", &self.told(), &self.missing(why));
                None
            }
        }
    }

    fn told(self) -> String {
        format!("with Redisson {}", self.version())
    }

    fn missing(self, why: &str) -> String {
        format!(
            "no Redisson {} to talk to: {why}. `cargo xtask test` installs Java and Maven\n",
            self.version()
        )
    }
}

/// The property of the project that names the version.
fn newest(pom: &str) -> Option<&str> {
    let (_, rest) = pom.split_once("<redisson.version>")?;
    let (version, _) = rest.split_once("</redisson.version>")?;
    Some(version)
}

fn find(redisson: Redisson) -> Result<PathBuf, String> {
    if env::var("FERROLOCK_NO_JAVA").is_ok_and(|told| told == "1") {
        return Err("FERROLOCK_NO_JAVA=1 says that there is no Java".to_owned());
    }
    let java = Command::new("java")
        .arg("-version")
        .stderr(Stdio::null())
        .status()
        .map_err(|why| format!("java does not run: {why}"))?;
    if !java.success() {
        return Err(format!("`java -version`: {java}"));
    }
    Project::ours("mvn").jar(redisson.version())
}

/// The Maven project and where it puts what it makes.
struct Project {
    /// The workspace's root.
    root: PathBuf,
    maven: PathBuf,
}

impl Project {
    fn ours(maven: &str) -> Self {
        Self {
            root: workspace_root().to_owned(),
            maven: maven.into(),
        }
    }

    fn source(&self) -> PathBuf {
        self.root.join("interop/java")
    }

    /// The jar for this version of Redisson, not older than its source.
    fn jar(&self, version: &str) -> Result<PathBuf, String> {
        let made = self.root.join("target/interop");
        let jar = made
            .join(version)
            .join(format!("ferrolock-peer-{version}.jar"));
        // Test binaries may come at once, each for the same jar.
        let _one_at_a_time = lock(&made).map_err(|why| format!("{}: {why}", made.display()))?;
        if !self.is_fresh(&jar) {
            // Without a network, if Maven has all it needs: that is quicker, too.
            self.build(version, &["--offline"])
                .or_else(|_| self.build(version, &[]))?;
        }
        Ok(jar)
    }

    fn is_fresh(&self, jar: &Path) -> bool {
        let made = jar.metadata().and_then(|meta| meta.modified());
        made.is_ok_and(|made| changed(&self.source()).is_ok_and(|changed| changed < made))
    }

    fn build(&self, version: &str, options: &[&str]) -> Result<(), String> {
        let output = Command::new(&self.maven)
            .args(["--quiet", "--batch-mode"])
            .args(options)
            .arg(format!("-Dredisson.version={version}"))
            .arg("package")
            .current_dir(self.source())
            .output()
            .map_err(|why| format!("{} does not run: {why}", self.maven.display()))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!(
            "`mvn package` in interop/java fails:\n{}",
            String::from_utf8_lossy(&output.stdout)
        ))
    }
}

/// Waits for the lock of a folder, which is made if there is none; it ends with the file.
fn lock(folder: &Path) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let file = File::create(folder.join("lock"))?;
    flock(&file, FlockOperation::LockExclusive)?;
    Ok(file)
}

/// When the newest file or folder in there was changed; a folder changes with what comes and goes in it.
fn changed(path: &Path) -> io::Result<SystemTime> {
    let meta = path.metadata()?;
    let mut newest = meta.modified()?;
    if meta.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(changed(&entry?.path())?);
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests;
