//! The test binary started again, as a second process that can be stopped and killed.
//!
//! What such a helper does is its role, a function. Roles are not tests: [`roles!`](crate::roles) lists those of a test
//! binary, once and in any of its files, and a helper runs its role before the test harness begins. A role's name is its
//! path as it stands in the list:
//!
//! ```text
//! testkit::roles![holder];
//!
//! fn holder(role: &Role) {
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
//!
//! A test that changes the state of its whole process (signals, environment, working directory, limits) runs [`alone`].

mod alone;

pub use alone::alone;

use crate::leash::{self, Group};
use crate::wait::eventually;
use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write, stderr, stdin, stdout};
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

const ROLE: &str = "FERROLOCK_TEST_ROLE";
const ARGS: &str = "FERROLOCK_TEST_ARGS";

/// The exit code of a helper whose binary does not have the role.
const NO_SUCH_ROLE: i32 = 2;

/// The exit code of a helper whose role panicked, as that of a test binary.
const PANICKED: i32 = 101;

/// Begins a line of the dialogue, and so marks it among other output.
const MARK: &str = "#> ";

/// A helper as its parent sees it; killed when dropped.
#[derive(Debug)]
pub struct Child {
    role: String,
    process: process::Child,
    lines: Receiver<String>,
    /// What else the helper printed, to be shown when something fails.
    chatter: Arc<Mutex<Vec<String>>>,
    /// Ends the helper together with this process, also if it is stopped.
    _group: Group,
}

impl Child {
    /// Starts this test binary again to play the role of that name.
    ///
    /// If the binary does not have the role, the helper reports it on the standard error output and ends.
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
        let group = Group::start().expect("a shell");
        let mut helper = Command::new(command[0]);
        helper
            .args(&command[1..])
            // Shows the role in the process list; and the harness of a binary without roles fails because of it.
            .args(["--role", role])
            .env(ROLE, role)
            .env(ARGS, serde_json::to_string(args).expect("strings"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut process = group
            .spawn(&mut helper)
            .expect("the test binary starts again");
        let output = process.stdout.take().expect("a pipe");
        let chatter = Arc::default();
        Self {
            role: role.to_owned(),
            lines: listen(output, Arc::clone(&chatter)),
            process,
            chatter,
            _group: group,
        }
    }

    /// Sends a line to the helper; panics when it is gone.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let input = self.process.stdin.as_mut().expect("a pipe");
        if let Err(error) = writeln!(input, "{line}") {
            panic!("{} does not listen: {error}", self.role);
        }
    }

    /// The next line that the helper sends; panics after `limit`, or when the helper ends without one.
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

    /// Stops the helper as `SIGSTOP` does, and returns when it is stopped.
    pub fn stop_signal(&self) {
        leash::stop(&self.process);
    }

    /// Lets a stopped helper continue.
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

/// Sorts the output of the helper into dialogue and other output, until it ends.
fn listen(output: ChildStdout, chatter: Arc<Mutex<Vec<String>>>) -> Receiver<String> {
    let (heard, lines) = mpsc::channel();
    thread::spawn(move || {
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

/// What a helper does.
pub type Play = fn(&Role);

/// Runs the role for which this process was started, and ends the process; returns if it was started for none.
///
/// [`roles!`](crate::roles) calls it in a test binary; a program calls it first in its `main`. From then on the process
/// ends with its parent, whatever it is doing.
pub fn play(roles: &[(&str, Play)]) {
    let Some(role) = role() else { return };
    let Some((_, play)) = roles.iter().find(|(name, _)| *name == role.name) else {
        let names: Vec<&str> = roles.iter().map(|(name, _)| *name).collect();
        let _ = writeln!(stderr(), "no role `{}` here, only {names:?}", role.name);
        process::exit(NO_SUCH_ROLE);
    };
    ignore_broken_pipes();
    parents_lines();
    let play = *play;
    let name = role.name.clone();
    let player = thread::Builder::new()
        .name(name)
        .spawn(move || play(&role))
        .expect("a thread");
    process::exit(match player.join() {
        Ok(()) => 0,
        Err(_) => PANICKED,
    });
}

fn role() -> Option<Role> {
    let name = env::var(ROLE).ok()?;
    let args = env::var(ARGS).expect("given together with the role");
    Some(Role {
        name,
        args: serde_json::from_str(&args).expect("a list of strings"),
    })
}

/// As Rust does before `main`: writing to a closed pipe is an error, and does not end this process.
#[expect(
    unsafe_code,
    reason = "the standard library does it only on the way to `main`, and no crate here has a safe form of it"
)]
fn ignore_broken_pipes() {
    // SAFETY: no handler is installed, and there are no other threads yet that could change it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Lists the roles of a test binary by their paths; see [`process`](crate::process).
///
/// Also of a unit-test binary, behind `#[cfg(test)]`. A role may have attributes: `#[cfg(unix)] holder`.
#[macro_export]
macro_rules! roles {
    ($($(#[$attribute:meta])* $role:path),+ $(,)?) => {
        const _: () = {
            extern "C" fn before_main() {
                $crate::process::play(&[$($(#[$attribute])* (stringify!($role), $role)),+]);
            }

            // The C library calls the functions in this section before `main`: threads, files, sockets and the environment
            // work by then. A panic in such a function ends the process.
            #[allow(unsafe_code, reason = "the only way to come before the harness, whose `main` is not ours")]
            #[used]
            #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
            #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
            static BEFORE_MAIN: extern "C" fn() = before_main;
        };
    };
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

    /// The arguments from the parent.
    pub fn args(&self) -> &[String] {
        &self.args
    }

    /// Sends a line to the parent.
    pub fn say(&self, line: &str) {
        let mut output = stdout().lock();
        // Other output may have left a line unfinished; and the harness does not capture this handle.
        write!(output, "\n{MARK}{line}\n")
            .and_then(|()| output.flush())
            .expect("the parent listens");
    }

    /// The next line that the parent sends; waits for it without a limit.
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
        thread::spawn(move || follow_parent(&heard));
        Mutex::new(lines)
    })
}

/// Reads what the parent sends, and ends this process when the parent ends.
fn follow_parent(heard: &Sender<String>) {
    for line in stdin().lines().map_while(Result::ok) {
        let _ = heard.send(line);
    }
    process::exit(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LIMIT;

    /// This binary, that of the unit tests, lists no roles.
    #[test]
    fn a_binary_without_roles_fails_when_it_is_asked_for_one() {
        let mut helper = Child::again("holder", &[]);

        assert!(!helper.wait(LIMIT).success());
    }
}
