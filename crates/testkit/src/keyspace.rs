//! The whole content of a server, for comparison.

use crate::connection::Connection;
use crate::resp::Reply;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub key: String,
    /// What the server's `TYPE` says: `hash`, `string` …
    pub kind: String,
    /// What it holds.
    pub value: Value,
    /// Its time to live; `None`: it does not expire.
    pub ttl: Option<Duration>,
}

/// What a key holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A string.
    Text(String),
    /// A hash: fields and values.
    Hash(BTreeMap<String, String>),
    /// A list, from its head.
    List(Vec<String>),
    /// A sorted set: members and scores, from the lowest.
    SortedSet(Vec<(String, String)>),
    /// A set.
    Set(BTreeSet<String>),
}

impl Value {
    /// A hash of these fields.
    pub fn hash<const N: usize>(fields: [(&str, &str); N]) -> Self {
        Self::Hash(
            fields
                .map(|(field, value)| (field.to_owned(), value.to_owned()))
                .into(),
        )
    }
}

/// One script, so that all keys are seen at the same moment.
const DUMP: &str = r"
local entries = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
    local kind = redis.call('TYPE', key).ok
    local value = {}
    if kind == 'string' then
        value = { redis.call('GET', key) }
    elseif kind == 'hash' then
        value = redis.call('HGETALL', key)
    elseif kind == 'list' then
        value = redis.call('LRANGE', key, 0, -1)
    elseif kind == 'set' then
        value = redis.call('SMEMBERS', key)
    elseif kind == 'zset' then
        value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
    end
    entries[#entries + 1] = { key, kind, redis.call('PTTL', key), value }
end
return entries";

pub(crate) fn dump(connection: &mut Connection) -> Vec<Entry> {
    let reply = connection.command(&["EVAL", DUMP, "0"]);
    let mut entries: Vec<_> = reply.list().into_iter().map(entry).collect();
    entries.sort_by(|a, b| a.key.cmp(&b.key));
    entries
}

fn entry(reply: Reply) -> Entry {
    let [key, kind, ttl, parts]: [Reply; 4] =
        reply.list().try_into().expect("the script's four parts");
    let kind = kind.text();
    Entry {
        key: key.text(),
        value: value(&kind, parts.texts()),
        // Negative for a key that does not expire.
        ttl: u64::try_from(ttl.int()).ok().map(Duration::from_millis),
        kind,
    }
}

fn value(kind: &str, parts: Vec<String>) -> Value {
    match kind {
        "string" => Value::Text(parts.concat()),
        "hash" => Value::Hash(pairs(parts).into_iter().collect()),
        "list" => Value::List(parts),
        "set" => Value::Set(parts.into_iter().collect()),
        "zset" => Value::SortedSet(pairs(parts)),
        other => panic!("a key of type {other}, which nothing here makes"),
    }
}

fn pairs(parts: Vec<String>) -> Vec<(String, String)> {
    let mut parts = parts.into_iter();
    std::iter::from_fn(|| Some((parts.next()?, parts.next()?))).collect()
}
