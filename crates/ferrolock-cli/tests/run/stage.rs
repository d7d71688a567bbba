//! Where a story runs: a store or a server for its locks, and a folder for the files of its commands.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::{Kind, Server};

use crate::run::{Ended, Run};

/// Runs each story on a store and on a server.
macro_rules! stories {
    ($($story:ident),+ $(,)?) => {
        mod file {
            $(
                #[test]
                fn $story() {
                    super::$story(&crate::stage::Stage::file());
                }
            )+
        }

        mod redis {
            $(
                #[test]
                fn $story() {
                    if let Some(stage) = crate::stage::Stage::redis() {
                        super::$story(&stage);
                    }
                }
            )+
        }
    };
}

/// A store or server, and a folder, that only this story uses.
pub(crate) struct Stage {
    url: String,
    server: Option<Server>,
    folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("file:{}", folder.path().join("store").display());
        Self {
            url,
            server: None,
            folder,
        }
    }

    /// `None` if the server is not installed; `is_here` has printed that then.
    pub(crate) fn redis() -> Option<Self> {
        Kind::Redis.is_here().then(|| {
            let server = Server::start(Kind::Redis);
            Self::on(server.url(), Some(server))
        })
    }

    pub(crate) fn on(url: String, server: Option<Server>) -> Self {
        Self {
            url,
            server,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// `None` on a store.
    pub(crate) fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// A file or folder of the story.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What a command of the story has written to that file; empty if there is none.
    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// `ferrolock` with these arguments, in the story's folder, with the locks of the story.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = ferrolock();
        command
            .args(words)
            .env("FERROLOCK_URL", &self.url)
            .current_dir(self.folder.path());
        command
    }

    /// Starts `ferrolock run` with these arguments.
    #[track_caller]
    pub(crate) fn start(&self, words: &[&str]) -> Run {
        Run::start(self.command(&["run"]).args(words))
    }

    /// Starts it and waits for its end.
    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        self.start(words).end()
    }

    /// Starts a shell script under a lock named `name`, with a lease of a minute: no delay of the machine ends it.
    #[track_caller]
    pub(crate) fn script(&self, name: &str, script: &str) -> Run {
        self.start(&["--lease", "60s", name, "--", "sh", "-c", script])
    }

    /// Whether another run gets the lock now.
    #[track_caller]
    pub(crate) fn is_free(&self, name: &str) -> bool {
        let ended = self.run(&["--try", name, "--", "true"]);
        assert!(matches!(ended.code, 0 | 75), "neither is told: {ended:?}");
        if ended.code != 0 {
            println!("{name} is not free: {ended:?}");
        }
        ended.code == 0
    }

    /// Waits until a command of the story has written that file.
    #[track_caller]
    pub(crate) fn wait_for(&self, name: &str) -> String {
        let what = format!("the file {name}");
        testkit::eventually(testkit::LIMIT, &what, || self.read(name).ends_with('\n'));
        self.read(name)
    }
}

/// The program, without variables of `ferrolock` in its environment.
pub(crate) fn ferrolock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrolock"));
    for name in [
        "FERROLOCK_URL",
        "FERROLOCK_OWNER",
        "FERROLOCK_OWNERS",
        "FERROLOCK_NAME",
        "FERROLOCK_ADDRESS",
    ] {
        command.env_remove(name);
    }
    command.stdin(Stdio::null());
    command
}
