//! Commands on hashes.

use super::super::keyspace::Hash;
use super::super::numbers;
use super::super::server::Server;
use super::{Args, Reply, overflow, wrong_words};

/// Replies how many fields are new.
pub(super) fn hset(server: &mut Server, args: &Args) -> Result<Reply, String> {
    if args.len() % 2 == 1 {
        return Err(wrong_words("hset"));
    }
    let now = server.now();
    let added = server.keys.edit(args.word(1), now, |hash: &mut Hash| {
        (2..args.len())
            .step_by(2)
            .filter(|&at| hash.set(args.word(at), args.word(at + 1)))
            .count()
    })?;
    Ok(Reply::count(added))
}

pub(super) fn hget(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    let value = hash.and_then(|hash| hash.get(args.word(2)));
    Ok(value.map_or(Reply::Nil, Reply::bulk))
}

pub(super) fn hexists(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    let found = hash.is_some_and(|hash| hash.get(args.word(2)).is_some());
    Ok(found.into())
}

pub(super) fn hdel(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let removed = server.keys.edit(args.word(1), now, |hash: &mut Hash| {
        args.words_from(2)
            .filter(|field| hash.remove(field))
            .count()
    })?;
    Ok(Reply::count(removed))
}

pub(super) fn hlen(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    Ok(Reply::count(hash.map_or(0, Hash::len)))
}

/// Fields and values in turn, oldest field first.
pub(super) fn hgetall(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let pairs = server.keys.read::<Hash>(args.word(1), now)?.into_iter();
    let list = pairs
        .flat_map(|hash| hash.iter())
        .flat_map(|(field, value)| [Reply::bulk(field), Reply::bulk(value)]);
    Ok(Reply::List(list.collect()))
}

/// Replies whether the field is new; one that is there stays as it is.
pub(super) fn hsetnx(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let added = server.keys.edit(args.word(1), now, |hash: &mut Hash| {
        hash.get(args.word(2)).is_none() && hash.set(args.word(2), args.word(3))
    })?;
    Ok(added.into())
}

pub(super) fn hmget(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    let value = |field| hash.and_then(|hash| hash.get(field));
    let list = args
        .words_from(2)
        .map(|field| value(field).map_or(Reply::Nil, Reply::bulk));
    Ok(Reply::List(list.collect()))
}

pub(super) fn hkeys(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    let pairs = hash.into_iter().flat_map(Hash::iter);
    let fields = pairs.map(|(field, _)| Reply::bulk(field));
    Ok(Reply::List(fields.collect()))
}

pub(super) fn hvals(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    let pairs = hash.into_iter().flat_map(Hash::iter);
    let values = pairs.map(|(_, value)| Reply::bulk(value));
    Ok(Reply::List(values.collect()))
}

/// A missing field counts as zero.
pub(super) fn hincrby(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (key, field, step, now) = (args.word(1), args.word(2), args.integer(3)?, server.now());
    let hash = server.keys.read::<Hash>(key, now)?;
    let old = match hash.and_then(|hash| hash.get(field)) {
        Some(value) => {
            numbers::integer(value).ok_or_else(|| "ERR hash value is not an integer".to_owned())?
        }
        None => 0,
    };
    let new = old.checked_add(step).ok_or_else(overflow)?;
    server.keys.edit(key, now, |hash: &mut Hash| {
        hash.set(field, new.to_string().as_bytes())
    })?;
    Ok(Reply::Int(new))
}
