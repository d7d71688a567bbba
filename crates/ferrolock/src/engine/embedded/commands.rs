//! What a script may ask of the server: one function per command, with the replies and errors of Redis.

mod generic;
mod hashes;
mod strings;

use super::keyspace::WrongType;
use super::numbers;
use super::server::Server;

/// A command's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Status(&'static str),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    List(Vec<Reply>),
    /// The code, and what went wrong.
    Error(String),
}

/// Runs a command: its name and its arguments.
pub(super) fn execute(server: &mut Server, args: &Args) -> Reply {
    let Some(command) = args.get(0).and_then(find) else {
        return Reply::error("ERR Unknown Redis command called from script");
    };
    if !command.words.allows(args.len()) {
        return Reply::error("ERR Wrong number of args calling Redis command from script");
    }
    (command.run)(server, args).unwrap_or_else(Reply::Error)
}

/// Each command, by name.
static COMMANDS: [Command; 15] = [
    Command::new("DEL", Words::AtLeast(2), generic::del),
    Command::new("EXISTS", Words::AtLeast(2), generic::exists),
    Command::new("GET", Words::Exactly(2), strings::get),
    Command::new("HDEL", Words::AtLeast(3), hashes::hdel),
    Command::new("HEXISTS", Words::Exactly(3), hashes::hexists),
    Command::new("HGET", Words::Exactly(3), hashes::hget),
    Command::new("HGETALL", Words::Exactly(2), hashes::hgetall),
    Command::new("HLEN", Words::Exactly(2), hashes::hlen),
    Command::new("HSET", Words::AtLeast(4), hashes::hset),
    Command::new("PEXPIRE", Words::AtLeast(3), generic::pexpire),
    Command::new("PTTL", Words::Exactly(2), generic::pttl),
    Command::new("PUBLISH", Words::Exactly(3), generic::publish),
    Command::new("SET", Words::AtLeast(3), strings::set),
    Command::new("TIME", Words::Exactly(1), generic::time),
    Command::new("TYPE", Words::Exactly(2), generic::kind),
];

struct Command {
    name: &'static str,
    words: Words,
    run: Run,
}

/// A command's function; `Err` is the text of an error reply.
type Run = fn(&mut Server, &Args) -> Result<Reply, String>;

/// How many words a command takes, its name included.
enum Words {
    Exactly(usize),
    AtLeast(usize),
}

impl Command {
    const fn new(name: &'static str, words: Words, run: Run) -> Self {
        Self { name, words, run }
    }
}

impl Words {
    fn allows(&self, count: usize) -> bool {
        match *self {
            Words::Exactly(words) => count == words,
            Words::AtLeast(words) => count >= words,
        }
    }
}

/// The command of that name, in upper or lower case.
fn find(name: &[u8]) -> Option<&'static Command> {
    let upper = |byte: &u8| byte.to_ascii_uppercase();
    let at = COMMANDS
        .binary_search_by(|command| command.name.bytes().cmp(name.iter().map(upper)))
        .ok()?;
    COMMANDS.get(at)
}

/// The words of a command, in one buffer that the next command uses again.
#[derive(Debug, Default)]
pub(super) struct Args {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    /// Pushes a number as the servers write it.
    pub(super) fn push_number(&mut self, number: f64) {
        numbers::write(&mut self.bytes, number);
        self.ends.push(self.bytes.len());
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    /// A word; the command's name is the first.
    fn get(&self, at: usize) -> Option<&[u8]> {
        let start = match at.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(at)?)
    }

    /// A word that the command's number of words says is there.
    fn word(&self, at: usize) -> &[u8] {
        self.get(at).unwrap_or_default()
    }

    fn words_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        (first..self.len()).map(|at| self.word(at))
    }

    /// An integer, or the error that says it is none.
    fn integer(&self, at: usize) -> Result<i64, String> {
        numbers::integer(self.word(at))
            .ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
    }
}

impl Reply {
    pub(super) fn error(text: &str) -> Self {
        Reply::Error(text.to_owned())
    }

    fn bulk(bytes: &[u8]) -> Self {
        Reply::Bulk(bytes.to_vec())
    }

    fn count(count: usize) -> Self {
        Reply::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl From<bool> for Reply {
    fn from(yes: bool) -> Self {
        Reply::Int(yes.into())
    }
}

impl From<WrongType> for String {
    fn from(_: WrongType) -> Self {
        "WRONGTYPE Operation against a key holding the wrong kind of value".to_owned()
    }
}

/// The text for a deadline that no integer can hold.
fn invalid_expire(command: &str) -> String {
    format!("ERR invalid expire time in '{command}' command")
}
