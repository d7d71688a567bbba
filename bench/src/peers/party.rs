//! The processes of a side, which all get the same commands: JVMs with Redisson, or this program again.
//!
//! The commands and their answers are those of `Bench` in `interop/java`; [`worker`](super::worker) carries them out for ours.

use super::meter;
use std::time::Duration;
use testkit::java::{JavaClient, Jvm, Pending};
use testkit::process::Child;
use testkit::{JavaPeer, Redisson, Server};

use serde_json::{Value, json};

/// Longer than any command takes: it ends a run that hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Whose locks a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    Ours,
    /// The real Redisson.
    Redisson,
    /// Redisson's flow, on the crate `redis`, which ours uses too.
    Replay,
}

impl Whose {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Redisson => "Redisson",
            Self::Replay => "replay",
        }
    }
}

/// A process that carries out commands.
enum Process {
    Again(Child),
    Jvm {
        // Before the JVM: fields are dropped in this order.
        client: JavaClient,
        jvm: JavaPeer,
    },
}

/// A command that was sent and is not answered yet.
pub(crate) enum Begun {
    Again,
    Jvm(Pending<Value>),
}

impl Process {
    fn start(whose: Whose, server: &Server) -> Self {
        match whose {
            Whose::Redisson => {
                let jvm = JavaPeer::start(Redisson::Newest, Jvm::Full)
                    .expect("Java was here when the run began");
                let client = jvm.client(&server.url()).full_size().open();
                Self::Jvm { client, jvm }
            }
            Whose::Ours | Whose::Replay => {
                let address = server.address().to_string();
                Self::Again(Child::again("peer", &[whose.name(), &address]))
            }
        }
    }

    fn begin(&mut self, command: &str, mut fields: Value) -> Begun {
        match self {
            Self::Jvm { client, .. } => Begun::Jvm(client.begin(command, fields)),
            Self::Again(child) => {
                fields["do"] = json!(command);
                child.say(&fields.to_string());
                Begun::Again
            }
        }
    }

    fn answer(&mut self, begun: Begun) -> Value {
        match (self, begun) {
            (Self::Again(child), Begun::Again) => serde_json::from_str(&child.hear(LIMIT)).unwrap(),
            (_, Begun::Jvm(pending)) => pending.answer(LIMIT).result.unwrap(),
            (Self::Jvm { .. }, Begun::Again) => panic!("a command of another process"),
        }
    }

    fn pid(&self) -> u32 {
        match self {
            Self::Again(child) => child.pid(),
            Self::Jvm { jvm, .. } => jvm.pid(),
        }
    }
}

/// Processes of one kind.
pub(crate) struct Party {
    pub(crate) whose: Whose,
    members: Vec<Process>,
}

impl Party {
    pub(crate) fn start(whose: Whose, members: usize, server: &Server) -> Self {
        let members = (0..members).map(|_| Process::start(whose, server));
        Self {
            whose,
            members: members.collect(),
        }
    }

    /// Sends a command to one of them, and waits for its answer.
    pub(crate) fn ask_one(&mut self, member: usize, command: &str, fields: Value) -> Value {
        let begun = self.begin_one(member, command, fields);
        self.answer_of(member, begun)
    }

    pub(crate) fn begin_one(&mut self, member: usize, command: &str, fields: Value) -> Begun {
        self.members[member].begin(command, fields)
    }

    pub(crate) fn answer_of(&mut self, member: usize, begun: Begun) -> Value {
        self.members[member].answer(begun)
    }

    /// Sends a command to all of them at once, and waits for their answers.
    pub(crate) fn ask(&mut self, command: &str, fields: &Value) -> Vec<Value> {
        let begun = self.begin(command, fields);
        self.answers(begun)
    }

    pub(crate) fn begin(&mut self, command: &str, fields: &Value) -> Vec<Begun> {
        let members = self.members.iter_mut();
        members
            .map(|member| member.begin(command, fields.clone()))
            .collect()
    }

    pub(crate) fn answers(&mut self, begun: Vec<Begun>) -> Vec<Value> {
        let members = self.members.iter_mut().zip(begun);
        members
            .map(|(member, begun)| member.answer(begun))
            .collect()
    }

    pub(crate) fn cpu(&self) -> Duration {
        let members = self.members.iter();
        members.map(|member| meter::cpu_of(member.pid())).sum()
    }
}

/// A number of an answer.
pub(crate) fn figure(answer: &Value, name: &str) -> u64 {
    answer[name]
        .as_u64()
        .unwrap_or_else(|| panic!("no `{name}` in {answer}"))
}

/// The sum of that number over all answers.
pub(crate) fn sum(answers: &[Value], name: &str) -> u64 {
    answers.iter().map(|answer| figure(answer, name)).sum()
}
