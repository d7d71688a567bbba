//! Commands that list sorted sets. There is no `BYLEX`.

use std::ops::Range;

use super::super::keyspace::{Bound, SortedSet};
use super::super::server::Server;
use super::{Args, Reply, places, sorted_sets, syntax};

pub(super) fn zrange(server: &mut Server, args: &Args) -> Result<Reply, String> {
    list(server, args, RangeForm::ByOptions)
}

pub(super) fn zrevrange(server: &mut Server, args: &Args) -> Result<Reply, String> {
    list(server, args, RangeForm::RanksReversed)
}

pub(super) fn zrangebyscore(server: &mut Server, args: &Args) -> Result<Reply, String> {
    list(server, args, RangeForm::Scores)
}

/// What a command's name decides about the list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RangeForm {
    /// Nothing: its options decide.
    ByOptions,
    RanksReversed,
    Scores,
}

struct RangeOptions {
    by_score: bool,
    reversed: bool,
    with_scores: bool,
    limit: Option<Limit>,
}

#[derive(Clone, Copy)]
struct Limit {
    /// How many are left out first; negative: all.
    offset: i64,
    /// How many follow; negative: all that are left.
    count: i64,
}

/// The two ends.
enum Between {
    Ranks(i64, i64),
    Scores(Bound, Bound),
}

fn list(server: &mut Server, args: &Args, form: RangeForm) -> Result<Reply, String> {
    let options = options(args, form)?;
    let between = between(args, &options)?;
    let now = server.now();
    let Some(set) = server.keys.read::<SortedSet>(args.word(1), now)? else {
        return Ok(Reply::List(Vec::new()));
    };
    let ranks = ranks(set, &between, &options);
    let mut members: Vec<_> = set.iter_from(ranks.start).take(ranks.len()).collect();
    if options.reversed {
        members.reverse();
    }
    let mut list = Vec::with_capacity(members.len() * 2);
    for (member, score) in members {
        list.push(Reply::bulk(member));
        if options.with_scores {
            list.push(Reply::number(score));
        }
    }
    Ok(Reply::List(list))
}

fn options(args: &Args, form: RangeForm) -> Result<RangeOptions, String> {
    let mut options = RangeOptions {
        by_score: form == RangeForm::Scores,
        reversed: form == RangeForm::RanksReversed,
        with_scores: false,
        limit: None,
    };
    let mut at = 4;
    while let Some(word) = args.get(at) {
        match word.to_ascii_uppercase().as_slice() {
            b"WITHSCORES" => options.with_scores = true,
            b"LIMIT" if at + 2 < args.len() => {
                options.limit = Some(Limit {
                    offset: args.integer(at + 1)?,
                    count: args.integer(at + 2)?,
                });
                at += 2;
            }
            b"REV" if !options.reversed && form == RangeForm::ByOptions => options.reversed = true,
            b"BYSCORE" if !options.by_score && form == RangeForm::ByOptions => {
                options.by_score = true
            }
            _ => return Err(syntax()),
        }
        at += 1;
    }
    if !options.by_score && options.limit.is_some_and(|limit| limit.count != -1) {
        let what = "LIMIT is only supported in combination with either BYSCORE or BYLEX";
        return Err(format!("{}, {what}", syntax()));
    }
    Ok(options)
}

fn between(args: &Args, options: &RangeOptions) -> Result<Between, String> {
    if !options.by_score {
        return Ok(Between::Ranks(args.integer(2)?, args.integer(3)?));
    }
    let (min, max) = match options.reversed {
        true => (3, 2),
        false => (2, 3),
    };
    let (min, max) = sorted_sets::bounds(args.word(min), args.word(max))?;
    Ok(Between::Scores(min, max))
}

/// The ranks to list, counted from the lowest score also when the list is reversed.
fn ranks(set: &SortedSet, between: &Between, options: &RangeOptions) -> Range<usize> {
    let length = set.len();
    match *between {
        Between::Ranks(first, last) => {
            let places = places(first, last, length);
            match options.reversed {
                true => length - places.end..length - places.start,
                false => places,
            }
        }
        Between::Scores(min, max) => {
            let Range { mut start, mut end } = set.ranks_between(min, max);
            let Some(limit) = options.limit else {
                return start..end;
            };
            let offset = usize::try_from(limit.offset).unwrap_or(usize::MAX);
            let offset = offset.min(end - start);
            let count = usize::try_from(limit.count).unwrap_or(usize::MAX);
            let count = count.min(end - start - offset);
            if options.reversed {
                end -= offset;
                start = end - count;
            } else {
                start += offset;
                end = start + count;
            }
            start..end
        }
    }
}
