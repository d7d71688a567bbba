//! A terminal, and a shell in it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use testkit::{LIMIT, eventually};

/// The variable with the terminal's name, for the process that becomes its shell.
const TERMINAL: &str = "FERROLOCK_TEST_TERMINAL";
/// The prompt of that shell.
pub(crate) const PROMPT: &str = "ready> ";

/// A terminal as its user sees it.
pub(crate) struct Pty {
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
    name: String,
    /// Where the text ends that the last wait has found: the next wait looks behind it.
    seen: usize,
    /// Keeps the terminal from hanging up while no other process has it open.
    _own: File,
}

impl Pty {
    pub(crate) fn open() -> Self {
        let main = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&main).unwrap();
        unlockpt(&main).unwrap();
        let name = ptsname(&main, Vec::new()).unwrap().into_string().unwrap();
        let own = open_terminal(&name);
        let keyboard = File::from(main);
        let screen = watch(keyboard.try_clone().unwrap());
        Self {
            keyboard,
            screen,
            name,
            seen: 0,
            _own: own,
        }
    }

    /// The terminal as a stream of a process.
    pub(crate) fn stream(&self) -> Stdio {
        Stdio::from(OwnedFd::from(open_terminal(&self.name)))
    }

    /// Starts an interactive shell in this terminal, in a session of its own, with environment and folder of `command`.
    pub(crate) fn shell(&self, command: &mut Command) -> Shell {
        let this = std::env::current_exe().unwrap();
        let mut session = Command::new(this);
        session
            .args(["pty::session", "--exact", "--nocapture"])
            .env(TERMINAL, &self.name)
            .envs(
                command
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            )
            .current_dir(command.get_current_dir().unwrap())
            .stdin(Stdio::null());
        Shell(session.spawn().unwrap())
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Everything that was shown so far.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap()).into_owned()
    }

    /// Waits until the terminal shows that text, behind the text that the last wait has found.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let start = std::time::Instant::now();
        loop {
            let shown = self.text();
            if let Some(at) = shown.get(self.seen..).and_then(|new| new.find(text)) {
                self.seen += at + text.len();
                return;
            }
            assert!(
                start.elapsed() < LIMIT,
                "no {text:?} in {:?}",
                shown.get(self.seen..)
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
}

/// A shell in a terminal; killed when dropped.
pub(crate) struct Shell(Child);

impl Shell {
    /// Waits for its end, after the test has typed `exit`.
    #[track_caller]
    pub(crate) fn end(mut self) {
        eventually(LIMIT, "the end of the shell", || {
            self.0.try_wait().unwrap().is_some()
        });
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn open_terminal(name: &str) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, 0o400); // O_NOCTTY
    options.open(name).unwrap()
}

fn watch(mut main: File) -> Arc<Mutex<Vec<u8>>> {
    let screen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let into = Arc::clone(&screen);
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(count @ 1..) = main.read(&mut part) {
            into.lock().unwrap().extend(&part[..count]);
        }
    });
    screen
}

/// Not a test: the process that makes the terminal its own and becomes the shell.
#[test]
fn session() {
    let Ok(name) = std::env::var(TERMINAL) else {
        return;
    };
    rustix::process::setsid().unwrap();
    let terminal = open_terminal(&name);
    rustix::process::ioctl_tiocsctty(&terminal).unwrap();
    let stream = || Stdio::from(terminal.try_clone().unwrap());
    let error = Command::new("bash")
        .args(["--norc", "--noprofile", "-i"])
        .env("PS1", PROMPT)
        .env("TERM", "dumb")
        .env_remove(TERMINAL)
        .env_remove("PROMPT_COMMAND")
        .stdin(stream())
        .stdout(stream())
        .stderr(stream())
        .exec();
    panic!("no shell: {error}");
}
