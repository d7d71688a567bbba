//! Commands on keys of any type, and commands without keys.

use super::super::keyspace::Data;
use super::super::server::Server;
use super::{Args, Reply};

pub(super) fn del(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let removed = args
        .words_from(1)
        .filter(|key| server.keys.remove(key, now));
    Ok(Reply::count(removed.count()))
}

/// Counts a key as often as it is named.
pub(super) fn exists(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let found = args
        .words_from(1)
        .filter(|key| server.keys.get(key, now).is_some());
    Ok(Reply::count(found.count()))
}

pub(super) fn kind(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    Ok(Reply::Status(match server.keys.get(args.word(1), now) {
        None => "none",
        Some(Data::Text(_)) => "string",
        Some(Data::Hash(_)) => "hash",
        Some(Data::List(_)) => "list",
        Some(Data::SortedSet(_)) => "zset",
    }))
}

/// Seconds, and the microseconds beyond them.
pub(super) fn time(server: &mut Server, _args: &Args) -> Result<Reply, String> {
    let part = |number: i64| Reply::Bulk(number.to_string().into_bytes());
    let micros = server.micros();
    Ok(Reply::List(vec![
        part(micros / 1_000_000),
        part(micros % 1_000_000),
    ]))
}

pub(super) fn publish(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let heard = server.publish(args.word(1), args.word(2));
    Ok(Reply::count(heard))
}
