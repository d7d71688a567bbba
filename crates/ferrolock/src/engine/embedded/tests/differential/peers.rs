//! The two sides that are compared: a server, and the embedded engines at the server's time.

use std::collections::BTreeSet;

use super::super::super::emulator::lua::Interpreter;
use super::super::super::emulator::server::Server as InMemory;
use super::super::super::file::lone::Lone;
use super::calls::{Call, KEYS, Way};
use super::seen::Seen;
use crate::protocol::call::{Arg, Call as ScriptCall, Form, Script, Value};
use crate::protocol::scripts;
use testkit::{Connection, Reply, Server};

/// The outcome of a batch.
#[derive(Debug)]
pub(super) struct Report {
    /// When it began and ended, in microseconds.
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) replies: Vec<Seen>,
    /// Type, deadline and value of each of [`KEYS`].
    pub(super) keys: Vec<Key>,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) kind: String,
    /// In ms; negative: none.
    pub(super) deadline: i64,
    pub(super) value: Seen,
}

/// The text of the script that runs a batch.
fn batch_source() -> String {
    let functions: String = scripts()
        .iter()
        .map(|script| {
            let (name, source) = (script.name, script.source);
            format!("scripts['{name}'] = function(KEYS, ARGV)\n{source}\nend\n")
        })
        .collect();
    let (calls, batch) = (include_str!("calls.lua"), include_str!("batch.lua"));
    format!("local scripts = {{}}\n{functions}{calls}{batch}")
}

fn words(who: &str, shown: &[&str], deadlines: &[i64], calls: &[Call]) -> Vec<String> {
    let mut words = vec![who.to_owned(), shown.len().to_string()];
    words.extend(shown.iter().map(|key| (*key).to_owned()));
    words.push(deadlines.len().to_string());
    words.extend(deadlines.iter().map(i64::to_string));
    for call in calls {
        let way = match call.way {
            Way::Command => "command",
            Way::Numbers => "numbers",
            Way::Script => "script",
            Way::Skip => "skip",
        };
        words.push(way.to_owned());
        words.push(call.words.len().to_string());
        words.extend(call.words.iter().cloned());
    }
    words
}

/// The server's side.
pub(super) struct Theirs {
    connection: Connection,
    hash: String,
}

impl Theirs {
    pub(super) fn new(server: &Server) -> Self {
        let mut connection = server.connect();
        let load = connection.command(&["SCRIPT", "LOAD", &batch_source()]);
        Self {
            connection,
            hash: load.text(),
        }
    }

    /// Runs a batch; `None` if one of the deadlines of [`KEYS`] passed just as it began.
    pub(super) fn run(&mut self, deadlines: &[i64], calls: &[Call]) -> Option<Report> {
        let words = words("server", &KEYS, deadlines, calls);
        let mut command = vec!["EVALSHA", &self.hash, "0"];
        command.extend(words.iter().map(String::as_str));
        report(Seen::from(self.connection.command(&command)))
    }
}

/// An embedded engine's side.
pub(super) struct Ours {
    engine: Embedded,
    batch: &'static Script,
    /// Scripts that read how long keys still live, and that set when they end: an embedded engine has no `PEXPIRETIME`.
    lives: &'static Script,
    ends: &'static Script,
}

enum Embedded {
    /// All keys are there, as in `memory:`.
    Memory {
        server: Box<InMemory>,
        interpreter: Box<Interpreter>,
    },
    /// Each call loads its keys and writes them back, as in `file:`.
    File(Box<Lone>),
}

impl Embedded {
    fn call(&mut self, micros: i64, call: &ScriptCall) -> Seen {
        let reply = match self {
            Self::Memory {
                server,
                interpreter,
            } => {
                server.begin(micros);
                let reply = interpreter.run(server, call);
                server.take_outbox();
                reply
            }
            Self::File(store) => store.call_at(micros, call),
        };
        Seen::from(reply.unwrap())
    }
}

impl Ours {
    pub(super) fn in_memory() -> Self {
        Self::new(Embedded::Memory {
            server: Box::default(),
            interpreter: Box::new(Interpreter::new().unwrap()),
        })
    }

    pub(super) fn in_file() -> Self {
        Self::new(Embedded::File(Box::new(Lone::new())))
    }

    fn new(engine: Embedded) -> Self {
        let script = |source: String| -> &'static Script {
            let source = Box::leak(source.into_boxed_str());
            Box::leak(Box::new(Script::new("batch", source)))
        };
        let lives = "local lives = {} for i, key in ipairs(KEYS) do lives[i] = redis.call('PTTL', key) end return lives";
        let ends = "for i, key in ipairs(KEYS) do redis.call('PEXPIREAT', key, ARGV[i]) end";
        Self {
            engine,
            batch: script(batch_source()),
            lives: script(lives.to_owned()),
            ends: script(ends.to_owned()),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self.engine {
            Embedded::Memory { .. } => "memory",
            Embedded::File(_) => "file",
        }
    }

    /// Runs a batch at that time.
    pub(super) fn run(&mut self, micros: i64, calls: &[Call]) -> Report {
        // An even number, so that every other reply is made in the same way as on the server.
        let together = match self.engine {
            Embedded::Memory { .. } => calls.len(),
            Embedded::File(_) => 2,
        };
        let mut replies = Vec::new();
        for (number, part) in calls.chunks(together.max(1)).enumerate() {
            // Every other part names no keys, and has to be run again with those it asked for.
            let named: &[Call] = if number % 2 == 0 { part } else { &[] };
            let keys = named.iter().flat_map(|call| &call.words);
            replies.extend(self.run_part(micros, &[], keys, part).replies);
        }
        let keys = KEYS.map(str::to_owned);
        let mut report = self.run_part(micros, &KEYS, &keys, &[]);
        report.replies = replies;
        let lives = self.call(micros, self.lives, &KEYS, Vec::new());
        for (life, seen) in lives.list().into_iter().zip(&mut report.keys) {
            seen.deadline = match life.int() {
                left if left >= 0 => left.saturating_add(micros / 1000),
                missing_or_endless => missing_or_endless,
            };
        }
        report
    }

    /// Names all words as keys: any word may be one.
    fn run_part<'a>(
        &mut self,
        micros: i64,
        shown: &[&str],
        named: impl IntoIterator<Item = &'a String>,
        calls: &[Call],
    ) -> Report {
        let words = words("embedded", shown, &[], calls);
        let keys: BTreeSet<&str> = named.into_iter().map(String::as_str).collect();
        let keys: Vec<&str> = keys.into_iter().collect();
        report(self.call(micros, self.batch, &keys, words)).unwrap()
    }

    fn call(
        &mut self,
        micros: i64,
        script: &'static Script,
        keys: &[&str],
        args: Vec<String>,
    ) -> Seen {
        let args = args
            .into_iter()
            .map(|word| Arg::Bytes(Vec::from(word).into()));
        let call = ScriptCall {
            script,
            keys: keys.iter().map(|&key| key.into()).collect(),
            args: args.collect(),
            form: Form::default(),
        };
        self.engine.call(micros, &call)
    }

    /// Takes over the server's deadlines, which its moving clock may have made a little later.
    pub(super) fn follow(&mut self, ours: &Report, theirs: &Report) {
        // Only deadlines that a number of Lua holds exactly; those that have passed end their keys by themselves.
        let exact = ours.start / 1000 + 1..1 << 53;
        let pairs = KEYS.iter().zip(ours.keys.iter().zip(&theirs.keys));
        let later = pairs.filter(|(_, (ours, theirs))| {
            exact.contains(&theirs.deadline) && ours.deadline != theirs.deadline
        });
        let (keys, ends): (Vec<_>, Vec<_>) = later
            .map(|(key, (_, theirs))| (*key, theirs.deadline.to_string()))
            .unzip();
        if !keys.is_empty() {
            self.call(ours.start, self.ends, &keys, ends);
        }
    }
}

/// What `batch.lua` replies.
fn report(reply: Seen) -> Option<Report> {
    let parts = reply.list();
    let [start, end, replies, keys] = <[Seen; 4]>::try_from(parts).ok()?;
    let key = |seen: Seen| {
        let [kind, deadline, value] = <[Seen; 3]>::try_from(seen.list()).unwrap();
        Key {
            kind: kind.text(),
            deadline: deadline.int(),
            value: Seen::parse(&value.text()),
        }
    };
    let plain_or_shown = |seen: Seen| match seen {
        Seen::Text(shown) => Seen::parse(&shown),
        plain => Seen::Plain(Box::new(plain.list().pop().unwrap_or(Seen::False))),
    };
    Some(Report {
        start: start.text().parse().unwrap(),
        end: end.text().parse().unwrap(),
        replies: replies.list().into_iter().map(plain_or_shown).collect(),
        keys: keys.list().into_iter().map(key).collect(),
    })
}

impl From<Reply> for Seen {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Nil => Seen::False,
            Reply::Int(number) => Seen::Int(number),
            Reply::Text(text) => Seen::Text(text),
            Reply::List(list) => Seen::List(list.into_iter().map(Seen::from).collect()),
            Reply::Error(text) => panic!("{text}"),
        }
    }
}

impl From<Value> for Seen {
    fn from(value: Value) -> Self {
        match value {
            Value::Nil => Seen::False,
            Value::Int(number) => Seen::Int(number),
            Value::Bytes(bytes) => Seen::Text(String::from_utf8(bytes).unwrap()),
            Value::List(list) => Seen::List(list.into_iter().map(Seen::from).collect()),
        }
    }
}
