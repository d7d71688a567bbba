//! Commands on keys of any type, and on none.

use super::super::keyspace::{Data, Life, Millis};
use super::super::server::Server;
use super::{Args, Reply, invalid_expire};

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
    }))
}

pub(super) fn pttl(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let now = server.now();
    Ok(Reply::Int(match server.keys.life(args.word(1), now) {
        Life::Missing => -2,
        Life::Endless => -1,
        Life::Until(deadline) => deadline - now,
    }))
}

/// A time that is not ahead deletes the key.
pub(super) fn pexpire(server: &mut Server, args: &Args) -> Result<Reply, String> {
    let rule = pexpire_rule(args)?;
    let (key, time, now) = (args.word(1), args.integer(2)?, server.now());
    let deadline = now
        .checked_add(time)
        .ok_or_else(|| invalid_expire("pexpire"))?;
    let life = server.keys.life(key, now);
    if life == Life::Missing || !rule.allows(life, deadline) {
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
    fn allows(&self, life: Life, deadline: Millis) -> bool {
        match life {
            Life::Until(old) => {
                !self.none_yet
                    && (!self.later || deadline > old)
                    && (!self.earlier || deadline < old)
            }
            // No deadline counts as one that never comes.
            Life::Endless | Life::Missing => !self.one_already && !self.later,
        }
    }
}

fn pexpire_rule(args: &Args) -> Result<Rule, String> {
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
