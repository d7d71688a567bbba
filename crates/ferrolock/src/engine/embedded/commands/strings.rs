//! Commands on strings.

use super::super::keyspace::{Data, Life, Millis};
use super::super::server::Server;
use super::{Args, Reply, invalid_expire};

pub(super) fn get(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let text = server.keys.text(args.word(1), now)?;
    Ok(text.map_or(Reply::Nil, Reply::bulk))
}

/// Replaces a value of any type, and its deadline with it.
pub(super) fn set(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (key, now) = (args.word(1), server.now());
    let options = set_options(args, now)?;
    let life = server.keys.life(key, now);
    let wanted = match options.only_if {
        OnlyIf::Always => true,
        OnlyIf::Missing => life == Life::Missing,
        OnlyIf::There => life != Life::Missing,
    };
    if !wanted {
        return Ok(Reply::Nil);
    }
    server.keys.set(key, Data::Text(args.word(2).to_vec()));
    match (options.deadline, life) {
        (Deadline::At(deadline), _) | (Deadline::Keep, Life::Until(deadline)) => {
            server.keys.set_deadline(key, deadline);
        }
        _ => {}
    }
    Ok(Reply::Status("OK"))
}

struct Options {
    only_if: OnlyIf,
    deadline: Deadline,
}

#[derive(PartialEq, Eq)]
enum OnlyIf {
    Always,
    Missing,
    There,
}

enum Deadline {
    None,
    Keep,
    At(Millis),
}

fn set_options(args: &Args, now: Millis) -> Result<Options, String> {
    let syntax = || "ERR syntax error".to_owned();
    let (mut only_if, mut keep, mut time) = (OnlyIf::Always, false, None);
    let mut at = 3;
    while let Some(option) = args.get(at) {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if only_if != OnlyIf::There => only_if = OnlyIf::Missing,
            b"XX" if only_if != OnlyIf::Missing => only_if = OnlyIf::There,
            b"KEEPTTL" if time.is_none() => keep = true,
            b"PX" if !keep && !matches!(time, Some((_, 1000))) => {
                at += 1;
                time = Some((at, 1));
            }
            b"EX" if !keep && !matches!(time, Some((_, 1))) => {
                at += 1;
                time = Some((at, 1000));
            }
            _ => return Err(syntax()),
        }
        at += 1;
    }
    if at > args.len() {
        return Err(syntax());
    }
    let deadline = match time {
        Some((at, unit)) => Deadline::At(set_deadline(args.integer(at)?, unit, now)?),
        None if keep => Deadline::Keep,
        None => Deadline::None,
    };
    Ok(Options { only_if, deadline })
}

fn set_deadline(time: i64, unit: i64, now: Millis) -> Result<Millis, String> {
    Some(time)
        .filter(|time| *time > 0)
        .and_then(|time| time.checked_mul(unit))
        .and_then(|time| now.checked_add(time))
        .ok_or_else(|| invalid_expire("set"))
}
