//! Commands that look at a part of a hash.

use super::super::keyspace::Hash;
use super::super::server::Server;
use super::{Args, Reply, syntax};

/// Hashes up to this size are replied whole, as on the servers.
const WHOLE_MAX: usize = 128;
/// How many fields are replied at a time without `COUNT`.
const PAGE: usize = 10;

/// A page of fields and values, oldest field first, and the cursor of the next page. There is no `MATCH`.
pub(super) fn hscan(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let cursor = cursor(args.word(2)).ok_or_else(|| "ERR invalid cursor".to_owned())?;
    let now = server.now();
    let Some(hash) = server.keys.read::<Hash>(args.word(1), now)? else {
        return Ok(page(0, Vec::new()));
    };
    let count = page_size(args)?;
    if hash.len() <= WHOLE_MAX {
        return Ok(page(0, hash.iter().flat_map(pair).collect()));
    }
    let mut fields = hash.scan(cursor);
    let (mut found, mut next) = (Vec::new(), 0);
    for (behind, field, value) in fields.by_ref().take(count) {
        found.extend(pair((field, value)));
        next = behind;
    }
    let is_last = fields.next().is_none();
    Ok(page(if is_last { 0 } else { next }, found))
}

fn cursor(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn page_size(args: &Args) -> Result<usize, String> {
    let mut count = PAGE;
    for at in (3..args.len()).step_by(2) {
        if !args.is_option(at, "COUNT") || at + 1 == args.len() {
            return Err(syntax());
        }
        let told = usize::try_from(args.integer(at + 1)?);
        count = told.ok().filter(|count| *count > 0).ok_or_else(syntax)?;
    }
    Ok(count)
}

fn page(cursor: u64, found: Vec<Reply>) -> Reply {
    let cursor = Reply::Bulk(cursor.to_string().into_bytes());
    Reply::List(vec![cursor, Reply::List(found)])
}

fn pair((field, value): (&[u8], &[u8])) -> [Reply; 2] {
    [Reply::bulk(field), Reply::bulk(value)]
}

/// One field drawn at random, or several: each once, or with a negative number as often as it is drawn.
pub(super) fn hrandfield(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let wanted = wanted(args)?;
    let now = server.now();
    let mut random = server.random();
    let hash = server.keys.read::<Hash>(args.word(1), now)?;
    let ranks = match (hash, wanted) {
        (None, None) => return Ok(Reply::Nil),
        (None, Some(_)) => Vec::new(),
        (Some(hash), None) => vec![random.usize(..hash.len())],
        (Some(hash), Some(count)) => ranks(&mut random, hash.len(), count),
    };
    let found = ranks
        .into_iter()
        .filter_map(|rank| hash?.iter_from(rank).next());
    let with_values = args.len() == 4;
    let mut list: Vec<Reply> = match with_values {
        true => found.flat_map(pair).collect(),
        false => found.map(|(field, _)| Reply::bulk(field)).collect(),
    };
    if wanted.is_some() {
        return Ok(Reply::List(list));
    }
    Ok(list.pop().unwrap_or(Reply::Nil))
}

fn wanted(args: &Args) -> Result<Option<i64>, String> {
    if args.len() == 2 {
        return Ok(None);
    }
    let out_of_range = || "ERR value is out of range".to_owned();
    let count = args.integer(2)?;
    let max = match args.len() {
        3 => i64::MAX,
        4 if args.is_option(3, "WITHVALUES") => i64::MAX / 2,
        _ => return Err(syntax()),
    };
    if !(-max..=max).contains(&count) {
        return Err(out_of_range());
    }
    Ok(Some(count))
}

/// Ranks below `length`: all different, or for a negative `count` any.
fn ranks(random: &mut fastrand::Rng, length: usize, count: i64) -> Vec<usize> {
    let number = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count < 0 {
        return (0..number).map(|_| random.usize(..length)).collect();
    }
    let number = number.min(length);
    // Floyd's algorithm: as many draws as are wanted.
    let mut drawn = Vec::with_capacity(number);
    for last in length - number..length {
        let rank = random.usize(..=last);
        drawn.push(if drawn.contains(&rank) { last } else { rank });
    }
    drawn
}
