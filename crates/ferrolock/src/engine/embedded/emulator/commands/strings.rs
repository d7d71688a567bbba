//! Commands on strings.

use super::super::keyspace::{Data, KeyLife, Millis};
use super::super::numbers;
use super::super::server::Server;
use super::{Args, Reply, invalid_expire, no_integer, overflow, syntax};

pub(super) fn get(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let text = server.keys.text(args.word(1), now)?;
    Ok(text.map_or(Reply::Nil, Reply::bulk))
}

pub(super) fn incr(server: &mut Server, args: &Args) -> Result<Reply, String> {
    add(server, args, 1)
}

pub(super) fn incrby(server: &mut Server, args: &Args) -> Result<Reply, String> {
    add(server, args, args.integer(2)?)
}

pub(super) fn decr(server: &mut Server, args: &Args) -> Result<Reply, String> {
    add(server, args, -1)
}

pub(super) fn decrby(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let step = args.integer(2)?.checked_neg();
    let step = step.ok_or_else(|| "ERR decrement would overflow".to_owned())?;
    add(server, args, step)
}

/// A missing key counts as zero; a deadline stays.
fn add(server: &mut Server, args: &Args, step: i64) -> Result<Reply, String> {
    let (key, now) = (args.word(1), server.now());
    let old = match server.keys.text(key, now)? {
        Some(text) => numbers::integer(text).ok_or_else(no_integer)?,
        None => 0,
    };
    let new = old.checked_add(step).ok_or_else(overflow)?;
    let text = new.to_string().into_bytes();
    server.keys.set_text(key, now, text);
    Ok(Reply::Int(new))
}

/// Replaces a value of any type, and its deadline with it.
pub(super) fn set(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let (key, now) = (args.word(1), server.now());
    let options = set_options(args, now)?;
    let old = match options.replies_old {
        true => Some(get(server, args)?),
        false => None,
    };
    let life = server.keys.life(key, now);
    let wanted = match options.only_if {
        OnlyIf::Always => true,
        OnlyIf::Missing => life == KeyLife::Missing,
        OnlyIf::There => life != KeyLife::Missing,
    };
    if !wanted {
        return Ok(old.unwrap_or(Reply::Nil));
    }
    server.keys.set(key, Data::Text(args.word(2).to_vec()));
    match (options.deadline, life) {
        (Deadline::At(deadline), _) | (Deadline::Keep, KeyLife::Until(deadline)) => {
            server.keys.set_deadline(key, deadline);
        }
        _ => {}
    }
    Ok(old.unwrap_or(Reply::Status("OK")))
}

struct SetOptions {
    only_if: OnlyIf,
    replies_old: bool,
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

/// The unit of a time, whether it counts from now, and the place of its word.
#[derive(Clone, Copy)]
struct Time {
    unit: i64,
    from_now: bool,
    at: usize,
}

impl Time {
    fn of(option: &[u8], at: usize) -> Option<Self> {
        let (unit, from_now) = match option {
            b"EX" => (1000, true),
            b"PX" => (1, true),
            b"EXAT" => (1000, false),
            b"PXAT" => (1, false),
            _ => return None,
        };
        Some(Self { unit, from_now, at })
    }

    fn is_like(self, other: Self) -> bool {
        (self.unit, self.from_now) == (other.unit, other.from_now)
    }

    fn deadline(self, args: &Args, now: Millis) -> Result<Millis, String> {
        let base = if self.from_now { now } else { 0 };
        Some(args.integer(self.at)?)
            .filter(|time| *time > 0)
            .and_then(|time| time.checked_mul(self.unit))
            .and_then(|time| base.checked_add(time))
            .ok_or_else(|| invalid_expire("set"))
    }
}

fn set_options(args: &Args, now: Millis) -> Result<SetOptions, String> {
    let (mut only_if, mut replies_old) = (OnlyIf::Always, false);
    let (mut keep, mut time) = (false, None::<Time>);
    let mut at = 3;
    while let Some(option) = args.get(at) {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" if only_if != OnlyIf::There => only_if = OnlyIf::Missing,
            b"XX" if only_if != OnlyIf::Missing => only_if = OnlyIf::There,
            b"GET" => replies_old = true,
            b"KEEPTTL" if time.is_none() => keep = true,
            option => {
                at += 1;
                let told = Time::of(option, at).filter(|_| !keep && at < args.len());
                let told = told.filter(|told| time.is_none_or(|other| told.is_like(other)));
                time = Some(told.ok_or_else(syntax)?);
            }
        }
        at += 1;
    }
    let deadline = match time {
        Some(time) => Deadline::At(time.deadline(args, now)?),
        None if keep => Deadline::Keep,
        None => Deadline::None,
    };
    Ok(SetOptions {
        only_if,
        replies_old,
        deadline,
    })
}
