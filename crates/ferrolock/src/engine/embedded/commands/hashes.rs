//! Commands on hashes.

use super::super::server::Server;
use super::{Args, Reply};

/// Replies how many fields are new.
pub(super) fn hset(server: &mut Server, args: &Args) -> Result<Reply, String> {
    if args.len() % 2 == 1 {
        return Err("ERR wrong number of arguments for 'hset' command".to_owned());
    }
    let now = server.now();
    let added = server.keys.edit_hash(args.word(1), now, |hash| {
        (2..args.len())
            .step_by(2)
            .filter(|&at| hash.set(args.word(at), args.word(at + 1)))
            .count()
    })?;
    Ok(Reply::count(added))
}

pub(super) fn hget(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.hash(args.word(1), now)?;
    let value = hash.and_then(|hash| hash.get(args.word(2)));
    Ok(value.map_or(Reply::Nil, Reply::bulk))
}

pub(super) fn hexists(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.hash(args.word(1), now)?;
    let found = hash.is_some_and(|hash| hash.get(args.word(2)).is_some());
    Ok(found.into())
}

pub(super) fn hdel(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let removed = server.keys.edit_hash(args.word(1), now, |hash| {
        args.words_from(2)
            .filter(|field| hash.remove(field))
            .count()
    })?;
    Ok(Reply::count(removed))
}

pub(super) fn hlen(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.hash(args.word(1), now)?;
    Ok(Reply::count(hash.map_or(0, |hash| hash.len())))
}

/// Fields and values in turn, oldest field first.
pub(super) fn hgetall(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let pairs = server.keys.hash(args.word(1), now)?.into_iter();
    let list = pairs
        .flat_map(|hash| hash.iter())
        .flat_map(|(field, value)| [Reply::bulk(field), Reply::bulk(value)]);
    Ok(Reply::List(list.collect()))
}
