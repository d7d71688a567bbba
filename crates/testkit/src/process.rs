//! The test binary started again, as a second process that can be stopped and killed.
//!
//! A helper's `main` is an ordinary test that returns at once unless it was started as a helper. Its name
//! is the role's name, with its modules if it lies in any:
//!
//! ```text
//! #[test]
//! fn holder() {
//!     let Some(role) = process::role() else { return };
//!     role.say(&format!("holding {}", role.args()[0]));
//!     role.hear();
//! }
//!
//! #[test]
//! fn a_holder_can_be_killed() {
//!     let mut holder = Child::again("holder", &["orders"]);
//!     assert_eq!(holder.hear(LIMIT), "holding orders");
//!     holder.kill();
//! }
//! ```

use crate::leash;
use crate::wait::eventually;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::process::CommandExt;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

const ROLE: &str = "FERROLOCK_TEST_ROLE";
const ARGS: &str = "FERROLOCK_TEST_ARGS";

/// Begins a line of the dialogue, among the lines of the test harness.
const MARK: &str = "#> ";

/// A helper as its parent sees it; killed when dropped.
#[derive(Debug)]
pub struct Child {
    role: String,
    process: process::Child,
    lines: Receiver<String>,
    /// What else the helper printed, to be shown when something fails.
    chatter: Arc<Mutex<Vec<String>>>,
}

impl Child {
    /// Starts this test binary again to run only the test named `role`.
    #[track_caller]
    pub fn again(role: &str, args: &[&str]) -> Self {
        Self::again_under(&[], role, args)
    }

    /// The same, with another program before it that becomes the helper (`unshare`, `setpriv`), and its arguments.
    #[track_caller]
    pub fn again_under(program: &[&str], role: &str, args: &[&str]) -> Self {
        let this = env::current_exe().expect("the running program");
        let mut command: Vec<&OsStr> = program.iter().map(OsStr::new).collect();
        command.push(this.as_os_str());
        let mut process = Command::new(command[0])
            .args(&command[1..])
            .args([role, "--exact", "--include-ignored", "--nocapture"])
            .env(ROLE, role)
            .env(ARGS, serde_json::to_string(args).expect("strings"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // When we are gone, the system wakes and hangs up a stopped process of an own group only.
            .process_group(0)
            .spawn()
            .expect("the test binary starts again");
        let output = process.stdout.take().expect("a pipe");
        let chatter = Arc::default();
        Self {
            role: role.to_owned(),
            lines: listen(output, Arc::clone(&chatter)),
            process,
            chatter,
        }
    }

    /// Says a line to the helper; panics when it is gone.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        if let Err(error) = writeln!(input, "{line}") {
            panic!("{} does not listen: {error}", self.role);
        }
    }

    /// The next line the helper says; panics after `limit`, or when the helper ends without one.
    #[track_caller]
    pub fn hear(&mut self, limit: Duration) -> String {
        self.lines.recv_timeout(limit).unwrap_or_else(|error| {
            let chatter = self.chatter.lock().unwrap().join("\n");
            panic!(
                "{} says nothing ({error}); it printed:\n{chatter}",
                self.role
            )
        })
    }

    /// The helper's process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Freezes the helper, and returns when it stands still.
    pub fn stop_signal(&self) {
        leash::stop(&self.process);
    }

    /// Lets a frozen helper go on.
    pub fn cont_signal(&self) {
        leash::cont(&self.process);
    }

    /// Kills the helper as `kill -9` does, and returns when it is gone.
    pub fn kill(&mut self) -> ExitStatus {
        self.process.kill().expect("a process of ours");
        self.process.wait().expect("a process of ours")
    }

    /// Waits for the helper's end; panics after `limit`.
    #[track_caller]
    pub fn wait(&mut self, limit: Duration) -> ExitStatus {
        let mut status = None;
        let what = format!("{} ends", self.role);
        eventually(limit, &what, || {
            status = self.process.try_wait().expect("a process of ours");
            status.is_some()
        });
        status.expect("the wait ended well")
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sorts what the helper prints into dialogue and chatter, until it ends.
fn listen(output: ChildStdout, chatter: Arc<Mutex<Vec<String>>>) -> Receiver<String> {
    let (heard, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            match line.strip_prefix(MARK) {
                // The parent may have stopped listening.
                Some(said) => drop(heard.send(said.to_owned())),
                None => chatter.lock().unwrap().push(line),
            }
        }
    });
    lines
}

/// The role this process was started for; `None` in the tests' main process.
///
/// From this call on the process ends with its parent, whatever it is doing.
pub fn role() -> Option<Role> {
    let name = env::var(ROLE).ok()?;
    let args = env::var(ARGS).expect("given together with the role");
    parents_lines();
    Some(Role {
        name,
        args: serde_json::from_str(&args).expect("a list of strings"),
    })
}

/// A helper as it sees itself.
#[derive(Debug, Clone)]
pub struct Role {
    name: String,
    args: Vec<String>,
}

impl Role {
    /// The name of the role.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the parent gave along.
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// Says a line to the parent.
    pub fn say(&self, line: &str) {
        let mut output = stdout().lock();
        // The harness may have left a line unfinished; and its capture does not reach this handle.
        write!(output, "\n{MARK}{line}\n")
            .and_then(|()| output.flush())
            .expect("the parent listens");
    }

    /// The next line the parent says, waited for without limit.
    pub fn hear(&self) -> String {
        parents_lines()
            .lock()
            .unwrap()
            .recv()
            .expect("the process ends before the channel does")
    }
}

fn parents_lines() -> &'static Mutex<Receiver<String>> {
    static LINES: OnceLock<Mutex<Receiver<String>>> = OnceLock::new();
    LINES.get_or_init(|| {
        let (heard, lines) = mpsc::channel();
        std::thread::spawn(move || follow_parent(&heard));
        Mutex::new(lines)
    })
}

/// Hears the parent to its end, and ends with it.
fn follow_parent(heard: &Sender<String>) {
    for line in stdin().lines().map_while(Result::ok) {
        let _ = heard.send(line);
    }
    process::exit(0);
}
