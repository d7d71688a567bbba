//! A running `ferrolock`, and the processes around it.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process};
use testkit::{LIMIT, eventually};

const GONE_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// A `ferrolock` that was started; killed when dropped, and its command with it.
pub(crate) struct Run {
    child: Child,
    output: Stream,
    errors: Stream,
}

/// How it ended, and what it printed.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The exit code of `ferrolock`. If a signal ended `ferrolock` itself, the test fails.
    pub(crate) code: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Ended {
    /// The one line that `ferrolock` has printed, without what shells print about signals.
    #[track_caller]
    pub(crate) fn error_line(&self) -> &str {
        let mut ours = self
            .errors
            .lines()
            .filter(|line| line.starts_with("ferrolock: "));
        match (ours.next(), ours.next()) {
            (Some(line), None) => line,
            _ => panic!("not one line: {self:?}"),
        }
    }
}

impl Run {
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("ferrolock starts");
        Self {
            output: Stream::read(child.stdout.take().unwrap()),
            errors: Stream::read(child.stderr.take().unwrap()),
            child,
        }
    }

    /// Starts it with an error output of the caller's own, which is not read yet.
    #[track_caller]
    pub(crate) fn start_without_reader(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .expect("ferrolock starts");
        Self {
            output: Stream::read(child.stdout.take().unwrap()),
            errors: Stream::read(std::io::empty()),
            child,
        }
    }

    /// Reads the error output from now on.
    pub(crate) fn read_errors(&mut self, from: impl Read + Send + 'static) {
        self.errors = Stream::read(from);
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("not waited for yet");
    }

    /// What it has written to its error output so far.
    pub(crate) fn errors(&self) -> String {
        self.errors.text()
    }

    /// Waits until it has written `text` to its error output.
    #[track_caller]
    pub(crate) fn wait_for_error(&self, text: &str) {
        eventually(LIMIT, &format!("an error output with {text:?}"), || {
            self.errors.text().contains(text)
        });
    }

    /// Waits for its end.
    #[track_caller]
    pub(crate) fn end(mut self) -> Ended {
        let mut status = None;
        eventually(LIMIT * 3, "the end of ferrolock", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let status = status.unwrap();
        let code = status.code();
        Ended {
            code: code.unwrap_or_else(|| panic!("ferrolock died: {status}")),
            output: self.output.rest(),
            errors: self.errors.rest(),
        }
    }

    /// Kills it as `kill -9` does, and returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The shim of this run.
    #[track_caller]
    pub(crate) fn shim(&self) -> Pid {
        self.child_with("__shim")
    }

    /// The process that waits to become the command of this run.
    #[track_caller]
    pub(crate) fn gate(&self) -> Pid {
        self.child_with("__gate")
    }

    /// How many of its children have ended and are not reaped.
    pub(crate) fn zombies(&self) -> usize {
        let own = self.pid().as_raw_pid();
        let is_one = |pid: &i32| parent(*pid) == Some(own) && !is_alive(*pid);
        processes().into_iter().filter(is_one).count()
    }

    /// Whether a process sleeps at the gate: `ferrolock` has not opened it yet.
    pub(crate) fn waits_at_gate(&self) -> bool {
        let own = self.pid().as_raw_pid();
        let is_asleep = |pid: i32| stat(pid).is_some_and(|words| words[0] == "S");
        processes()
            .into_iter()
            .any(|pid| parent(pid) == Some(own) && words(pid).contains("__gate") && is_asleep(pid))
    }

    #[track_caller]
    fn child_with(&self, word: &str) -> Pid {
        let own = self.pid().as_raw_pid();
        let mut found = None;
        eventually(LIMIT, &format!("a process with {word}"), || {
            found = processes()
                .into_iter()
                .find(|pid| parent(*pid) == Some(own) && words(*pid).contains(word));
            found.is_some()
        });
        Pid::from_raw(found.unwrap()).unwrap()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An output of a process, read to its end by a thread.
struct Stream {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Stream {
    fn read(mut from: impl Read + Send + 'static) -> Self {
        let bytes: Arc<Mutex<Vec<u8>>> = Arc::default();
        let into = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut part) {
                into.lock().unwrap().extend(&part[..count]);
            }
        });
        Self {
            bytes,
            reader: Some(reader),
        }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }

    /// Everything, once every process that could still write is gone.
    fn rest(&mut self) -> String {
        let reader = self.reader.take().unwrap();
        eventually(LIMIT, "the end of an output", || reader.is_finished());
        self.text()
    }
}

/// For a run with `--json` whose command ran on after TERM.
#[track_caller]
pub(crate) fn assert_term_before_kill(ended: &Ended) {
    let sent = |signal| ended.errors.find(&format!("\"signal\":\"{signal}\""));
    match (sent("TERM"), sent("KILL")) {
        (Some(term), Some(kill)) => assert!(term < kill, "{ended:?}"),
        _ => panic!("not both: {ended:?}"),
    }
}

/// Whether that process runs or is stopped.
pub(crate) fn is_alive(pid: i32) -> bool {
    stat(pid).is_some_and(|words| !matches!(words[0].as_str(), "Z" | "X"))
}

/// Whether that process is stopped.
pub(crate) fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|words| words[0] == "T")
}

/// All living processes of that group.
pub(crate) fn living_in_group(group: i32) -> Vec<i32> {
    let of_group = |pid: &i32| stat(*pid).is_some_and(|words| words[2] == group.to_string());
    processes()
        .into_iter()
        .filter(|pid| of_group(pid) && is_alive(*pid))
        .collect()
}

/// Waits until no process of that group is alive.
#[track_caller]
pub(crate) fn wait_until_gone(group: i32) {
    eventually(LIMIT, "the end of the group", || {
        living_in_group(group).is_empty()
    });
}

/// The same after `kill -9`: promised is a second, and a busy machine gets ten times as much.
#[track_caller]
pub(crate) fn assert_gone_soon(group: i32) {
    let since = std::time::Instant::now();
    eventually(GONE_MAX, "the end of the group", || {
        living_in_group(group).is_empty()
    });
    println!("nothing of the group was alive after {:?}", since.elapsed());
}

/// Whether a process has that text in its arguments.
pub(crate) fn is_mentioned(text: &str) -> bool {
    processes().into_iter().any(|pid| words(pid).contains(text))
}

/// All living processes in whose environment that variable has that value.
pub(crate) fn living_in_environment(name: &str, value: &str) -> Vec<i32> {
    let variable = format!("{name}={value}");
    let has_it = |pid: &i32| {
        let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        variables
            .split(|byte| *byte == 0)
            .any(|one| one == variable.as_bytes())
    };
    processes()
        .into_iter()
        .filter(|pid| has_it(pid) && is_alive(*pid))
        .collect()
}

fn processes() -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn parent(pid: i32) -> Option<i32> {
    stat(pid)?[1].parse().ok()
}

fn words(pid: i32) -> String {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).replace('\0', " ")
}

/// State, parent, group and what follows.
fn stat(pid: i32) -> Option<Vec<String>> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = line.rsplit_once(')')?;
    let words: Vec<String> = rest.split_whitespace().map(str::to_owned).collect();
    (words.len() > 3).then_some(words)
}
