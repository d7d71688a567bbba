//! Commands on sorted sets, except those that add and those that list.

use super::super::keyspace::{Bound, SortedSet};
use super::super::numbers;
use super::super::server::Server;
use super::{Args, Reply, syntax};

pub(super) fn zrem(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let removed = server.keys.edit(args.word(1), now, |set: &mut SortedSet| {
        args.words_from(2)
            .filter(|member| set.remove(member))
            .count()
    })?;
    Ok(Reply::count(removed))
}

pub(super) fn zscore(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let set = server.keys.read::<SortedSet>(args.word(1), now)?;
    let score = set.and_then(|set| set.score(args.word(2)));
    Ok(score.map_or(Reply::Nil, Reply::number))
}

pub(super) fn zrank(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let set = server.keys.read::<SortedSet>(args.word(1), now)?;
    let rank = set.and_then(|set| set.rank(args.word(2)));
    Ok(rank.map_or(Reply::Nil, Reply::count))
}

pub(super) fn zcard(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let set = server.keys.read::<SortedSet>(args.word(1), now)?;
    Ok(Reply::count(set.map_or(0, SortedSet::len)))
}

pub(super) fn zcount(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (min, max) = bounds(args.word(2), args.word(3))?;
    let now = server.now();
    let set = server.keys.read::<SortedSet>(args.word(1), now)?;
    let count = set.map_or(0, |set| set.ranks_between(min, max).len());
    Ok(Reply::count(count))
}

pub(super) fn zremrangebyscore(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (min, max) = bounds(args.word(2), args.word(3))?;
    let now = server.now();
    let removed = server.keys.edit(args.word(1), now, |set: &mut SortedSet| {
        let ranks = set.ranks_between(min, max);
        set.remove_ranks(&ranks)
    })?;
    Ok(Reply::count(removed.len()))
}

/// The lowest members with their scores.
pub(super) fn zpopmin(server: &mut Server, args: &Args) -> Result<Reply, String> {
    if args.len() > 3 {
        return Err(syntax());
    }
    let count = if args.len() == 3 { args.count(2)? } else { 1 };
    let now = server.now();
    let popped = server.keys.edit(args.word(1), now, |set: &mut SortedSet| {
        set.remove_ranks(&(0..count))
    })?;
    let list = popped
        .iter()
        .flat_map(|(member, score)| [Reply::bulk(member), Reply::number(*score)]);
    Ok(Reply::List(list.collect()))
}

/// The two ends of a range of scores.
pub(super) fn bounds(min: &[u8], max: &[u8]) -> Result<(Bound, Bound), String> {
    let bound = |text: &[u8]| {
        let (is_open, number) = match text.strip_prefix(b"(") {
            Some(number) => (true, number),
            None => (false, text),
        };
        let score = numbers::bound(number)?;
        Some(Bound { score, is_open })
    };
    bound(min)
        .zip(bound(max))
        .ok_or_else(|| "ERR min or max is not a float".to_owned())
}
