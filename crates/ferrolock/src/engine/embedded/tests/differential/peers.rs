//! The two that are compared: a server, and the embedded engine at the server's time.

use super::super::super::keyspace::Life;
use super::super::super::lua::Interpreter;
use super::super::super::server::Server as Embedded;
use super::calls::{Call, KEYS, Way};
use super::seen::Seen;
use crate::protocol::lock::SCRIPTS;
use crate::protocol::script::{Arg, Call as ScriptCall, Script, Value};
use testkit::{Connection, Reply, Server};

/// What a batch has shown.
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
    let functions: String = SCRIPTS
        .iter()
        .map(|script| {
            let (name, source) = (script.name, script.source);
            format!("scripts['{name}'] = function(KEYS, ARGV)\n{source}\nend\n")
        })
        .collect();
    let (calls, batch) = (include_str!("calls.lua"), include_str!("batch.lua"));
    format!("local scripts = {{}}\n{functions}{calls}{batch}")
}

fn words(who: &str, deadlines: &[i64], calls: &[Call]) -> Vec<String> {
    let mut words = vec![who.to_owned(), KEYS.len().to_string()];
    words.extend(KEYS.map(str::to_owned));
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
        let words = words("server", deadlines, calls);
        let mut command = vec!["EVALSHA", &self.hash, "0"];
        command.extend(words.iter().map(String::as_str));
        report(Seen::from(self.connection.command(&command)))
    }
}

/// The embedded engine's side.
pub(super) struct Ours {
    server: Embedded,
    interpreter: Interpreter,
    script: &'static Script,
}

impl Ours {
    pub(super) fn new() -> Self {
        let source = Box::leak(batch_source().into_boxed_str());
        Self {
            server: Embedded::default(),
            interpreter: Interpreter::new().unwrap(),
            script: Box::leak(Box::new(Script::new("batch", source))),
        }
    }

    /// Runs a batch at that time.
    pub(super) fn run(&mut self, micros: i64, calls: &[Call]) -> Report {
        let words = words("embedded", &[], calls);
        let call = ScriptCall {
            script: self.script,
            keys: smallvec::SmallVec::new(),
            args: words
                .into_iter()
                .map(|word| Arg::Text(word.into()))
                .collect(),
        };
        self.server.begin(micros);
        let reply = self.interpreter.run(&mut self.server, &call).unwrap();
        let mut report = report(Seen::from(reply)).unwrap();
        for (key, seen) in KEYS.iter().zip(&mut report.keys) {
            seen.deadline = match self.server.keys.life(key.as_bytes(), micros / 1000) {
                Life::Missing => -2,
                Life::Endless => -1,
                Life::Until(deadline) => deadline,
            };
        }
        report
    }

    /// Takes over the server's deadlines, which its moving clock may have made a little later.
    pub(super) fn follow(&mut self, keys: &[Key]) {
        // What a number of Lua holds exactly.
        const EXACT: std::ops::Range<i64> = 0..1 << 53;
        for (key, seen) in KEYS.iter().zip(keys) {
            if EXACT.contains(&seen.deadline) {
                self.server.keys.set_deadline(key.as_bytes(), seen.deadline);
            }
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
