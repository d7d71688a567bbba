//! The program in `interop/java`: built when it is missing or older than its source.

use super::jdk;
use crate::kind::{left_out_unless, workspace_root};
use rustix::fs::{FlockOperation, flock};
use std::env;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

/// A version of Redisson.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redisson {
    /// The one that `interop/java/pom.xml` names.
    Newest,
    /// The oldest that we speak to, which it names too.
    Oldest,
}

impl Redisson {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Newest, Self::Oldest];

    /// Its number.
    pub fn version(self) -> &'static str {
        static NEWEST: OnceLock<String> = OnceLock::new();
        static OLDEST: OnceLock<String> = OnceLock::new();
        let (version, property) = match self {
            Self::Newest => (&NEWEST, "redisson.version"),
            Self::Oldest => (&OLDEST, "redisson.oldest"),
        };
        version.get_or_init(|| {
            let pom = Project::ours(Network::No).source().join("pom.xml");
            let text = fs::read_to_string(pom).expect("the program's project");
            let version = named(&text, property).expect("the project names a version");
            version.to_owned()
        })
    }

    /// Whether tests can run with it here; if not, reports that, or panics with `CI=true` or `FERROLOCK_REQUIRE_JAVA=1`.
    ///
    /// The first call may take as long as Maven does, which may not use the network. With `FERROLOCK_NO_JAVA=1` no Java is
    /// looked for.
    #[track_caller]
    pub fn is_here(self) -> bool {
        self.jar_here().is_some()
    }

    /// Builds the program with it, unless it is built already; Maven may fetch what it lacks.
    pub fn build(self) -> Result<PathBuf, String> {
        find(self, Network::Yes)
    }

    /// The program with this version, for `java -jar`, if it can run here; if not, reports that as [`Self::is_here`] does.
    #[track_caller]
    pub fn jar_here(self) -> Option<&'static Path> {
        static NEWEST: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        static OLDEST: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let jar = match self {
            Self::Newest => &NEWEST,
            Self::Oldest => &OLDEST,
        };
        match jar.get_or_init(|| find(self, Network::No)) {
            Ok(jar) => Some(jar),
            Err(why) => {
                left_out_unless("FERROLOCK_REQUIRE_JAVA", &self.how(), &self.missing(why));
                None
            }
        }
    }

    /// As [`left_out_unless`] reports it.
    fn how(self) -> String {
        format!("with Redisson {}", self.version())
    }

    fn missing(self, why: &str) -> String {
        format!(
            "no Redisson {} to talk to: {why}. `cargo xtask test` installs Java and Maven and lets Maven fetch; \
             `cargo run -p testkit --example redisson` only fetches\n",
            self.version()
        )
    }
}

/// A property of the project.
fn named<'a>(pom: &'a str, property: &str) -> Option<&'a str> {
    let (_, rest) = pom.split_once(&format!("<{property}>"))?;
    let (value, _) = rest.split_once(&format!("</{property}>"))?;
    Some(value)
}

fn find(redisson: Redisson, network: Network) -> Result<PathBuf, String> {
    if env::var("FERROLOCK_NO_JAVA").is_ok_and(|value| value == "1") {
        return Err("FERROLOCK_NO_JAVA=1 says that there is no Java".to_owned());
    }
    jdk::check(Path::new("java"))?;
    Project::ours(network).jar(redisson.version())
}

/// Whether Maven may fetch what it lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    Yes,
    No,
}

/// The Maven project and where it puts what it makes.
struct Project {
    /// The workspace's root.
    root: PathBuf,
    maven: PathBuf,
    /// The compiler that Maven takes.
    javac: PathBuf,
    network: Network,
    /// Reports what a caller waits for.
    say: fn(&str),
}

impl Project {
    fn ours(network: Network) -> Self {
        let home = env::var_os("JAVA_HOME").filter(|home| !home.is_empty());
        Self {
            root: workspace_root().to_owned(),
            maven: "mvn".into(),
            javac: home.map_or("javac".into(), |home| Path::new(&home).join("bin/javac")),
            network,
            say,
        }
    }

    fn source(&self) -> PathBuf {
        self.root.join("interop/java")
    }

    /// The jar for this version of Redisson, not older than its source.
    fn jar(&self, version: &str) -> Result<PathBuf, String> {
        let made = self.root.join("target/interop");
        let name = format!("ferrolock-peer-{version}.jar");
        let jar = made.join(&name);
        // Several test binaries may build the same jar at once.
        let _one_at_a_time = lock(&made, self.say).map_err(|why| with_path(&made, &why))?;
        if !self.is_fresh(&jar) {
            let begun = SystemTime::now();
            self.build(version)?;
            let built = made.join(version).join(&name);
            put(&built, begun, &jar).map_err(|why| with_path(&built, &why))?;
        }
        Ok(jar)
    }

    fn is_fresh(&self, jar: &Path) -> bool {
        let made = jar.metadata().and_then(|meta| meta.modified());
        made.is_ok_and(|made| changed(&self.source()).is_ok_and(|changed| changed < made))
    }

    fn build(&self, version: &str) -> Result<(), String> {
        jdk::check(&self.javac)?;
        (self.say)(&format!(
            "building the program with Redisson {version} in interop/java\n"
        ));
        // Without a network, if Maven has all it needs: that is quicker, too.
        let offline = self.maven(version, &["--offline"]);
        match (offline, self.network) {
            (Err(why), Network::Yes) => {
                (self.say)("Maven lacks something: it fetches it\n");
                let online = self.maven(version, &[]);
                online.map_err(|online| format!("{online}\nand before, {why}"))
            }
            (outcome, _) => outcome,
        }
    }

    fn maven(&self, version: &str, options: &[&str]) -> Result<(), String> {
        let mut command = Command::new(&self.maven);
        command
            .args(["--quiet", "--batch-mode"])
            .args(options)
            .arg(format!("-Dredisson.version={version}"))
            .arg("package")
            .stdin(Stdio::null())
            .current_dir(self.source());
        let output = command
            .output()
            .map_err(|why| format!("{} does not run: {why}", self.maven.display()))?;
        if output.status.success() {
            return Ok(());
        }
        // Maven prints on the standard output, the script that starts it on the error output.
        Err(format!(
            "`mvn {}package` in interop/java fails:\n{}{}",
            options
                .iter()
                .map(|option| format!("{option} "))
                .collect::<String>(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ))
    }
}

/// Renames the finished jar to its final path, and gives it the time at which its build began.
fn put(built: &Path, begun: SystemTime, jar: &Path) -> io::Result<()> {
    File::options()
        .append(true)
        .open(built)?
        .set_modified(begun)?;
    fs::rename(built, jar)
}

fn with_path(path: &Path, why: &io::Error) -> String {
    format!("{}: {why}", path.display())
}

/// On the standard error output, bypassing the capture of test output.
fn say(line: &str) {
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Waits for the lock of a folder, which is created if it is missing; the lock is released when the file is closed.
fn lock(folder: &Path, say: fn(&str)) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let file = File::create(folder.join("lock"))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        say("waiting for another build in interop/java\n");
        flock(&file, FlockOperation::LockExclusive)?;
    }
    Ok(file)
}

/// When the newest file or folder in it was changed; a folder changes when an entry is added or removed.
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
