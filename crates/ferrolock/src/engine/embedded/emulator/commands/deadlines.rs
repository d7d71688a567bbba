//! Commands on the deadlines of keys.

use super::super::keyspace::{KeyLife, Millis};
use super::super::server::Server;
use super::{Args, Reply, invalid_expire};

/// Milliseconds in a second.
const SECOND: i64 = 1000;

pub(super) fn pttl(server: &mut Server, args: &Args) -> Result<Reply, String> {
    Ok(Reply::Int(left(server, args)))
}

/// Seconds, to the nearest.
pub(super) fn ttl(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let left = left(server, args);
    Ok(Reply::Int(match left {
        ..0 => left,
        _ => left.saturating_add(SECOND / 2) / SECOND,
    }))
}

/// Milliseconds that a key still lives; -1: no end, -2: no key.
fn left(server: &mut Server, args: &Args) -> i64 {
    let now = server.now();
    match server.keys.life(args.word(1), now) {
        KeyLife::Missing => -2,
        KeyLife::Endless => -1,
        KeyLife::Until(deadline) => deadline - now,
    }
}

pub(super) fn persist(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    Ok(server.keys.clear_deadline(args.word(1), now).into())
}

pub(super) fn pexpire(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    set_deadline(server, args, |time| now.checked_add(time), "pexpire")
}

pub(super) fn expire(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    let from_now = |time: i64| now.checked_add(time.checked_mul(SECOND)?);
    set_deadline(server, args, from_now, "expire")
}

pub(super) fn pexpireat(server: &mut Server, args: &Args) -> Result<Reply, String> {
    set_deadline(server, args, Some, "pexpireat")
}

/// A time that is not in the future deletes the key.
fn set_deadline(
    server: &mut Server,
    args: &Args,
    deadline: impl FnOnce(i64) -> Option<Millis>,
    command: &str,
) -> Result<Reply, String> {
    let rule = rule_of(args)?;
    let (key, time, now) = (args.word(1), args.integer(2)?, server.now());
    let deadline = deadline(time).ok_or_else(|| invalid_expire(command))?;
    let life = server.keys.life(key, now);
    if life == KeyLife::Missing || !rule.allows(life, deadline) {
        return Ok(Reply::Int(0));
    }
    if deadline <= now {
        server.keys.remove(key, now);
    } else {
        server.keys.set_deadline(key, deadline);
    }
    Ok(Reply::Int(1))
}

/// Under which conditions a deadline is set.
#[derive(Default)]
struct Rule {
    none_yet: bool,
    one_already: bool,
    later: bool,
    earlier: bool,
}

impl Rule {
    fn allows(&self, life: KeyLife, deadline: Millis) -> bool {
        match life {
            KeyLife::Until(old) => {
                !self.none_yet
                    && (!self.later || deadline > old)
                    && (!self.earlier || deadline < old)
            }
            // No deadline counts as one that never comes.
            KeyLife::Endless | KeyLife::Missing => !self.one_already && !self.later,
        }
    }
}

fn rule_of(args: &Args) -> Result<Rule, String> {
    let mut rule = Rule::default();
    for option in args.words_from(3) {
        match option.to_ascii_uppercase().as_slice() {
            b"NX" => rule.none_yet = true,
            b"XX" => rule.one_already = true,
            b"GT" => rule.later = true,
            b"LT" => rule.earlier = true,
            _ => {
                let option = String::from_utf8_lossy(option);
                return Err(format!("ERR Unsupported option {option}"));
            }
        }
    }
    if rule.none_yet && (rule.one_already || rule.later || rule.earlier) {
        return Err(
            "ERR NX and XX, GT or LT options at the same time are not compatible".to_owned(),
        );
    }
    if rule.later && rule.earlier {
        return Err("ERR GT and LT options at the same time are not compatible".to_owned());
    }
    Ok(rule)
}
