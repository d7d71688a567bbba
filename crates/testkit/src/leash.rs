//! Processes that do not outlive the test process, in whatever way it ends.

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Becomes the program, after leaving a watcher behind in the same process group.
///
/// The watcher's input is a pipe whose other end only the test process has: when that process ends, even by `kill -9`, the
/// watcher's `cat` ends; the watcher removes the program's folder and kills the group, itself included. Because it kills its
/// own group, it cannot hit a reused process id. It ignores hang-ups: the system sends one to a group with a stopped process
/// when the test process ends.
const WATCHED: &str = r#"folder=$1; shift
exec 3<&0
(trap '' HUP INT TERM; cat <&3 >/dev/null; rm -rf -- "$folder"; kill -9 0) &
exec "$@" 3<&- </dev/null"#;

/// A running process and the watcher that ends it.
#[derive(Debug)]
pub(crate) struct Leash {
    child: Child,
}

impl Leash {
    /// Starts `program`, which lives in `folder` and whose output goes to `log`.
    pub(crate) fn start(
        folder: &Path,
        program: &Path,
        argument: &Path,
        log: File,
    ) -> io::Result<Self> {
        let child = Command::new("sh")
            .args(["-c", WATCHED, "sh"])
            .args([folder, program, argument])
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        Ok(Self { child })
    }

    /// The program's process id: the shell became the program.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn exit_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the process is our child")
    }

    /// Stops the program as `SIGSTOP` does, and returns when it is stopped.
    pub(crate) fn stop(&self) {
        stop(&self.child);
    }

    /// Lets the program continue.
    pub(crate) fn cont(&self) {
        cont(&self.child);
    }
}

impl Drop for Leash {
    fn drop(&mut self) {
        // The watcher is in the group, so the group exists even if the program ended by itself.
        let _ = kill_process_group(pid(&self.child), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Kills its group, itself included, at the end of its input, a pipe whose other end only the test process has.
const WATCHER: &str = "trap '' HUP INT TERM; cat; kill -9 0";

/// A group of processes that is killed when this is dropped or the test process ends; its watcher is its first member.
#[derive(Debug)]
pub(crate) struct Group {
    watcher: Child,
}

impl Group {
    pub(crate) fn start() -> io::Result<Self> {
        let watcher = Command::new("sh")
            .args(["-c", WATCHER])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { watcher })
    }

    /// Starts a program in the group.
    pub(crate) fn spawn(&self, program: &mut Command) -> io::Result<Child> {
        program
            .process_group(pid(&self.watcher).as_raw_nonzero().get())
            .spawn()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = kill_process_group(pid(&self.watcher), Signal::KILL);
        let _ = self.watcher.wait();
    }
}

/// Stops a child process, and returns when it is stopped or has ended.
pub(crate) fn stop(child: &Child) {
    kill_process(pid(child), Signal::STOP).expect("the process has not been waited for");
    let change = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid(child)), change).expect("the process is our child");
}

/// Lets a child process continue.
pub(crate) fn cont(child: &Child) {
    kill_process(pid(child), Signal::CONT).expect("the process has not been waited for");
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}
