//! Commands on lists.

use super::super::keyspace::{End, List};
use super::super::server::Server;
use super::{Args, Reply, places, syntax, wrong_words};

pub(super) fn lpush(server: &mut Server, args: &Args) -> Result<Reply, String> {
    push(server, args, End::Head)
}

pub(super) fn rpush(server: &mut Server, args: &Args) -> Result<Reply, String> {
    push(server, args, End::Tail)
}

/// Replies how long the list is now.
fn push(server: &mut Server, args: &Args, end: End) -> Result<Reply, String> {
    let now = server.now();
    let length = server.keys.edit(args.word(1), now, |list: &mut List| {
        for item in args.words_from(2) {
            list.push(end, item);
        }
        list.len()
    })?;
    Ok(Reply::count(length))
}

pub(super) fn lpop(server: &mut Server, args: &Args) -> Result<Reply, String> {
    pop(server, args, End::Head, "lpop")
}

pub(super) fn rpop(server: &mut Server, args: &Args) -> Result<Reply, String> {
    pop(server, args, End::Tail, "rpop")
}

/// One item, or with a number a list of at most that many; nil without a list.
fn pop(server: &mut Server, args: &Args, end: End, command: &str) -> Result<Reply, String> {
    if args.len() > 3 {
        return Err(wrong_words(command));
    }
    let count = (args.len() == 3).then(|| args.count(2)).transpose()?;
    let (key, now) = (args.word(1), server.now());
    if server.keys.read::<List>(key, now)?.is_none() {
        return Ok(Reply::Nil);
    }
    let reply = server.keys.edit(key, now, |list: &mut List| match count {
        None => list.pop(end).map_or(Reply::Nil, Reply::Bulk),
        Some(count) => {
            let items = (0..count).map_while(|_| list.pop(end));
            Reply::List(items.map(Reply::Bulk).collect())
        }
    })?;
    Ok(reply)
}

pub(super) fn llen(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let list = server.keys.read::<List>(args.word(1), now)?;
    Ok(Reply::count(list.map_or(0, List::len)))
}

pub(super) fn lindex(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let Some(list) = server.keys.read::<List>(args.word(1), now)? else {
        return Ok(Reply::Nil);
    };
    let at = args.integer(2)?;
    let place = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
    let place = match at {
        0.. => Some(place),
        _ => list.len().checked_sub(place),
    };
    let item = place.and_then(|place| list.get(place));
    Ok(item.map_or(Reply::Nil, Reply::bulk))
}

pub(super) fn lrange(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (first, last, now) = (args.integer(2)?, args.integer(3)?, server.now());
    let list = server.keys.read::<List>(args.word(1), now)?;
    let items = list.into_iter().flat_map(|list| {
        let places = places(first, last, list.len());
        list.iter().skip(places.start).take(places.len())
    });
    Ok(Reply::List(items.map(Reply::bulk).collect()))
}

/// Replies how many were removed; a negative number begins at the tail, zero means all.
pub(super) fn lrem(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (count, now) = (args.integer(2)?, server.now());
    let from = if count < 0 { End::Tail } else { End::Head };
    let limit = match count {
        0 => usize::MAX,
        _ => usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX),
    };
    let removed = server.keys.edit(args.word(1), now, |list: &mut List| {
        list.remove(args.word(3), from, limit)
    })?;
    Ok(Reply::count(removed))
}

/// Replies how long the list is now; -1: the pivot is not in it, 0: there is no list.
pub(super) fn linsert(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let side = if args.is_option(2, "BEFORE") {
        End::Head
    } else if args.is_option(2, "AFTER") {
        End::Tail
    } else {
        return Err(syntax());
    };
    let (key, now) = (args.word(1), server.now());
    if server.keys.read::<List>(key, now)?.is_none() {
        return Ok(Reply::Int(0));
    }
    let reply = server.keys.edit(key, now, |list: &mut List| {
        match list.insert(args.word(4), side, args.word(3)) {
            true => Reply::count(list.len()),
            false => Reply::Int(-1),
        }
    })?;
    Ok(reply)
}
