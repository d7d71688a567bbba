//! The JVM's process, and the lines to and from it.

use super::Jvm;
use super::answer::{Line, Pending, Slot};
use crate::leash::{self, Group};
use crate::wait::{LIMIT, eventually};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// How many of the last lines of the error output are kept.
const CHATTER_LINES_MAX: usize = 200;

/// What the JVM printed beside its answers, to be shown when something fails.
type Chatter = VecDeque<String>;

#[derive(Debug)]
pub(super) struct Dialogue {
    process: Mutex<Child>,
    /// Lines for its input, which is open as long as this is.
    commands: Sender<String>,
    asked: Arc<Mutex<Asked>>,
    chatter: Arc<Mutex<Chatter>>,
    numbers: AtomicU64,
    _group: Group,
}

/// The commands without an answer.
#[derive(Debug, Default)]
struct Asked {
    slots: BTreeMap<u64, Arc<Slot>>,
    /// The JVM has closed its output: no more answers come.
    is_over: bool,
}

impl Asked {
    /// Whether an answer may come.
    fn insert(&mut self, id: u64, slot: &Arc<Slot>) -> bool {
        if !self.is_over {
            self.slots.insert(id, Arc::clone(slot));
        }
        !self.is_over
    }

    fn take(&mut self, id: u64) -> Option<Arc<Slot>> {
        self.slots.remove(&id)
    }

    /// Marks the end of the answers; returns the commands that will get none.
    fn end(&mut self) -> BTreeMap<u64, Arc<Slot>> {
        self.is_over = true;
        std::mem::take(&mut self.slots)
    }
}

impl Dialogue {
    #[track_caller]
    pub(super) fn begin(jar: &Path, jvm: Jvm) -> Self {
        let mut java = Command::new("java");
        java.args(flags(jvm)).arg("-jar").arg(jar);
        // For the names of files and for its output, whatever the language of this machine.
        java.env("LC_ALL", "C.UTF-8");
        Self::with(java)
    }

    #[track_caller]
    fn with(mut program: Command) -> Self {
        program
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let group = Group::start().expect("sh starts");
        let mut process = group.spawn(&mut program).expect("java starts");
        let input = process.stdin.take().expect("a pipe");
        let answers = process.stdout.take().expect("a pipe");
        let errors = process.stderr.take().expect("a pipe");
        let asked = Arc::default();
        let chatter = Arc::default();
        let (commands, lines) = channel();
        speak(input, lines);
        let overhears = overhear(errors, Arc::clone(&chatter));
        listen(answers, Arc::clone(&asked), Arc::clone(&chatter), overhears);
        Self {
            process: Mutex::new(process),
            commands,
            asked,
            chatter,
            numbers: AtomicU64::new(1),
            _group: group,
        }
    }

    /// A number that was not given before.
    pub(super) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Gives a command, whose other fields are the object `fields`.
    pub(super) fn ask<T: DeserializeOwned>(
        self: &Arc<Self>,
        command: &str,
        mut fields: Value,
    ) -> Pending<T> {
        let id = self.number();
        fields["do"] = json!(command);
        fields["id"] = json!(id);
        let slot = Arc::new(Slot::default());
        let line = fields.to_string();
        if !lock(&self.asked).insert(id, &slot) {
            slot.put(None);
        }
        // A JVM that no longer reads is about to end, and then the command gets no answer.
        let _ = self.commands.send(line.clone());
        Pending::new(Arc::clone(self), slot, line)
    }

    pub(super) fn pid(&self) -> u32 {
        lock(&self.process).id()
    }

    pub(super) fn stop(&self) {
        leash::stop(&lock(&self.process));
    }

    pub(super) fn cont(&self) {
        leash::cont(&lock(&self.process));
    }

    pub(super) fn kill(&self) {
        // It may have ended by itself.
        let _ = lock(&self.process).kill();
    }

    #[track_caller]
    pub(super) fn wait_for_end(&self) -> ExitStatus {
        let mut status = None;
        eventually(LIMIT, "the JVM ends", || {
            status = self.exit_status();
            status.is_some()
        });
        status.expect("the wait ended well")
    }

    /// Whether it runs, and what it printed, for the text of a failure.
    #[track_caller]
    pub(super) fn state(&self) -> String {
        let is_over = lock(&self.asked).is_over;
        let state = match is_over {
            true => format!("it ended with {}", self.wait_for_end()),
            false => "it runs".to_owned(),
        };
        let chatter: Vec<String> = lock(&self.chatter).iter().cloned().collect();
        format!("{state}; it printed:\n{}", chatter.join("\n"))
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        lock(&self.process)
            .try_wait()
            .expect("the JVM is our child")
    }
}

impl Drop for Dialogue {
    fn drop(&mut self) {
        self.kill();
        let _ = lock(&self.process).wait();
    }
}

fn flags(jvm: Jvm) -> &'static [&'static str] {
    match jvm {
        Jvm::Quick => &[
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
            "-Xmx256m",
        ],
        Jvm::Full => &[],
    }
}

/// Writes the commands in a thread of its own, so that no caller is blocked: a stopped JVM does not read.
fn speak(mut input: ChildStdin, lines: Receiver<String>) {
    std::thread::spawn(move || {
        for line in lines {
            if writeln!(input, "{line}").is_err() {
                return;
            }
        }
    });
}

/// Puts each answer into the slot of its command, until the JVM ends.
fn listen(
    output: ChildStdout,
    asked: Arc<Mutex<Asked>>,
    chatter: Arc<Mutex<Chatter>>,
    overhears: JoinHandle<()>,
) {
    std::thread::spawn(move || {
        for line in lines(output) {
            let Ok(answer) = serde_json::from_str::<Line>(&line) else {
                keep(&chatter, line);
                continue;
            };
            // A slot has a lock of its own: the two are never locked together.
            let slot = lock(&asked).take(answer.id);
            if let Some(slot) = slot {
                slot.put(Some(answer));
            }
        }
        // A caller that gets no answer reports why: so the error output is read to its end first.
        let _ = overhears.join();
        let unanswered = lock(&asked).end();
        for slot in unanswered.into_values() {
            slot.put(None);
        }
    });
}

/// Keeps the last lines of the error output, until the JVM ends.
fn overhear(output: ChildStderr, chatter: Arc<Mutex<Chatter>>) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in lines(output) {
            keep(&chatter, line);
        }
    })
}

/// The lines, whatever their bytes are.
fn lines(output: impl Read) -> impl Iterator<Item = String> {
    let lines = BufReader::new(output).split(b'\n');
    lines
        .map_while(Result::ok)
        .map(|line| String::from_utf8_lossy(&line).into_owned())
}

fn keep(chatter: &Mutex<Chatter>, line: String) {
    let mut chatter = lock(chatter);
    if chatter.len() == CHATTER_LINES_MAX {
        chatter.pop_front();
    }
    chatter.push_back(line);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
