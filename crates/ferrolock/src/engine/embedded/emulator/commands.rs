//! The commands that a script may call: one function per command, with the replies and errors of Redis.

mod deadlines;
mod generic;
mod hashes;
mod lists;
mod scans;
mod sorted_sets;
mod strings;
mod zadd;
mod zrange;

use std::ops::Range;

use super::keyspace::WrongType;
use super::numbers;
use super::server::Server;

/// A command's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Reply {
    Status(&'static str),
    Int(i64),
    Bulk(Vec<u8>),
    Nil,
    List(Vec<Reply>),
    /// The code, and what went wrong.
    Error(String),
}

/// Runs a command: its name and its arguments.
pub(in super::super) fn execute(server: &mut Server, args: &Args) -> Reply {
    let Some(command) = args.get(0).and_then(find) else {
        return Reply::error("ERR Unknown Redis command called from script");
    };
    if !command.words.allows(args.len()) {
        return Reply::error("ERR Wrong number of args calling Redis command from script");
    }
    (command.run)(server, args).unwrap_or_else(Reply::Error)
}

/// Each command, by name.
static COMMANDS: [ScriptCommand; 51] = [
    ScriptCommand::new("DECR", Words::Exactly(2), strings::decr),
    ScriptCommand::new("DECRBY", Words::Exactly(3), strings::decrby),
    ScriptCommand::new("DEL", Words::AtLeast(2), generic::del),
    ScriptCommand::new("EXISTS", Words::AtLeast(2), generic::exists),
    ScriptCommand::new("EXPIRE", Words::AtLeast(3), deadlines::expire),
    ScriptCommand::new("GET", Words::Exactly(2), strings::get),
    ScriptCommand::new("HDEL", Words::AtLeast(3), hashes::hdel),
    ScriptCommand::new("HEXISTS", Words::Exactly(3), hashes::hexists),
    ScriptCommand::new("HGET", Words::Exactly(3), hashes::hget),
    ScriptCommand::new("HGETALL", Words::Exactly(2), hashes::hgetall),
    ScriptCommand::new("HINCRBY", Words::Exactly(4), hashes::hincrby),
    ScriptCommand::new("HKEYS", Words::Exactly(2), hashes::hkeys),
    ScriptCommand::new("HLEN", Words::Exactly(2), hashes::hlen),
    ScriptCommand::new("HMGET", Words::AtLeast(3), hashes::hmget),
    ScriptCommand::new("HRANDFIELD", Words::AtLeast(2), scans::hrandfield),
    ScriptCommand::new("HSCAN", Words::AtLeast(3), scans::hscan),
    ScriptCommand::new("HSET", Words::AtLeast(4), hashes::hset),
    ScriptCommand::new("HSETNX", Words::Exactly(4), hashes::hsetnx),
    ScriptCommand::new("HVALS", Words::Exactly(2), hashes::hvals),
    ScriptCommand::new("INCR", Words::Exactly(2), strings::incr),
    ScriptCommand::new("INCRBY", Words::Exactly(3), strings::incrby),
    ScriptCommand::new("LINDEX", Words::Exactly(3), lists::lindex),
    ScriptCommand::new("LINSERT", Words::Exactly(5), lists::linsert),
    ScriptCommand::new("LLEN", Words::Exactly(2), lists::llen),
    ScriptCommand::new("LPOP", Words::AtLeast(2), lists::lpop),
    ScriptCommand::new("LPUSH", Words::AtLeast(3), lists::lpush),
    ScriptCommand::new("LRANGE", Words::Exactly(4), lists::lrange),
    ScriptCommand::new("LREM", Words::Exactly(4), lists::lrem),
    ScriptCommand::new("PERSIST", Words::Exactly(2), deadlines::persist),
    ScriptCommand::new("PEXPIRE", Words::AtLeast(3), deadlines::pexpire),
    ScriptCommand::new("PEXPIREAT", Words::AtLeast(3), deadlines::pexpireat),
    ScriptCommand::new("PTTL", Words::Exactly(2), deadlines::pttl),
    ScriptCommand::new("PUBLISH", Words::Exactly(3), generic::publish),
    ScriptCommand::new("RPOP", Words::AtLeast(2), lists::rpop),
    ScriptCommand::new("RPUSH", Words::AtLeast(3), lists::rpush),
    ScriptCommand::new("SET", Words::AtLeast(3), strings::set),
    ScriptCommand::new("TIME", Words::Exactly(1), generic::time),
    ScriptCommand::new("TTL", Words::Exactly(2), deadlines::ttl),
    ScriptCommand::new("TYPE", Words::Exactly(2), generic::kind),
    ScriptCommand::new("ZADD", Words::AtLeast(4), zadd::zadd),
    ScriptCommand::new("ZCARD", Words::Exactly(2), sorted_sets::zcard),
    ScriptCommand::new("ZCOUNT", Words::Exactly(4), sorted_sets::zcount),
    ScriptCommand::new("ZINCRBY", Words::Exactly(4), zadd::zincrby),
    ScriptCommand::new("ZPOPMIN", Words::AtLeast(2), sorted_sets::zpopmin),
    ScriptCommand::new("ZRANGE", Words::AtLeast(4), zrange::zrange),
    ScriptCommand::new("ZRANGEBYSCORE", Words::AtLeast(4), zrange::zrangebyscore),
    ScriptCommand::new("ZRANK", Words::Exactly(3), sorted_sets::zrank),
    ScriptCommand::new("ZREM", Words::AtLeast(3), sorted_sets::zrem),
    ScriptCommand::new(
        "ZREMRANGEBYSCORE",
        Words::Exactly(4),
        sorted_sets::zremrangebyscore,
    ),
    ScriptCommand::new("ZREVRANGE", Words::AtLeast(4), zrange::zrevrange),
    ScriptCommand::new("ZSCORE", Words::Exactly(3), sorted_sets::zscore),
];

/// The names of all commands.
#[cfg(test)]
pub(in super::super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

struct ScriptCommand {
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

impl ScriptCommand {
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
fn find(name: &[u8]) -> Option<&'static ScriptCommand> {
    let upper = |byte: &u8| byte.to_ascii_uppercase();
    let at = COMMANDS
        .binary_search_by(|command| command.name.bytes().cmp(name.iter().map(upper)))
        .ok()?;
    COMMANDS.get(at)
}

/// The words of a command, in one buffer that the next command uses again.
#[derive(Debug, Default)]
pub(in super::super) struct Args {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Args {
    pub(in super::super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(in super::super) fn push(&mut self, word: &[u8]) {
        self.bytes.extend_from_slice(word);
        self.ends.push(self.bytes.len());
    }

    /// Pushes a number as the servers write it.
    pub(in super::super) fn push_number(&mut self, number: f64) {
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

    /// A word that is there because the number of words was checked.
    fn word(&self, at: usize) -> &[u8] {
        self.get(at).unwrap_or_default()
    }

    fn words_from(&self, first: usize) -> impl Iterator<Item = &[u8]> {
        (first..self.len()).map(|at| self.word(at))
    }

    /// Whether a word is that option, given in upper case.
    fn is_option(&self, at: usize, option: &str) -> bool {
        self.get(at)
            .is_some_and(|word| word.eq_ignore_ascii_case(option.as_bytes()))
    }

    /// An integer, or the error that says it is none.
    fn integer(&self, at: usize) -> Result<i64, String> {
        numbers::integer(self.word(at)).ok_or_else(no_integer)
    }

    /// A number of elements.
    fn count(&self, at: usize) -> Result<usize, String> {
        numbers::integer(self.word(at))
            .and_then(|count| usize::try_from(count).ok())
            .ok_or_else(|| "ERR value is out of range, must be positive".to_owned())
    }
}

impl Reply {
    pub(in super::super) fn error(text: &str) -> Self {
        Reply::Error(text.to_owned())
    }

    fn bulk(bytes: &[u8]) -> Self {
        Reply::Bulk(bytes.to_vec())
    }

    /// A number as text, as scores are replied.
    fn number(number: f64) -> Self {
        let mut text = Vec::new();
        numbers::write(&mut text, number);
        Reply::Bulk(text)
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

fn no_integer() -> String {
    "ERR value is not an integer or out of range".to_owned()
}

fn overflow() -> String {
    "ERR increment or decrement would overflow".to_owned()
}

fn syntax() -> String {
    "ERR syntax error".to_owned()
}

/// The text for a number of words that the command's own rules forbid.
fn wrong_words(command: &str) -> String {
    format!("ERR wrong number of arguments for '{command}' command")
}

/// The places from `first` to `last` in a row of that length; negative ones count from its end.
fn places(first: i64, last: i64, length: usize) -> Range<usize> {
    let from_start = |place: i64| {
        let back = usize::try_from(place.unsigned_abs()).unwrap_or(usize::MAX);
        match place {
            0.. => Some(back),
            _ => length.checked_sub(back),
        }
    };
    let start = from_start(first).unwrap_or(0).min(length);
    let end = from_start(last).map_or(0, |last| last.saturating_add(1).min(length));
    start..end.max(start)
}
