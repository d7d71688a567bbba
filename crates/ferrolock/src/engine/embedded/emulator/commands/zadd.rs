//! Commands that add to sorted sets.

use super::super::keyspace::SortedSet;
use super::super::numbers;
use super::super::server::Server;
use super::{Args, Reply, syntax};

/// Replies how many members are new, or as the options say.
pub(super) fn zadd(server: &mut Server, args: &Args) -> Result<Reply, String> {
    add(server, args, false)
}

/// Replies the new score.
pub(super) fn zincrby(server: &mut Server, args: &Args) -> Result<Reply, String> {
    add(server, args, true)
}

#[derive(Default)]
struct Rules {
    /// Only members that are not there.
    new: bool,
    /// Only members that are there.
    old: bool,
    /// Scores only grow, or only fall.
    greater: bool,
    less: bool,
    /// Count those whose score has changed too.
    changed: bool,
    /// Add to the score, and reply it.
    increment: bool,
}

/// The outcome for one member.
enum Done {
    Added(f64),
    Changed(f64),
    Same(f64),
    Refused,
}

fn add(server: &mut Server, args: &Args, increment: bool) -> Result<Reply, String> {
    let (rules, first) = rules(args, increment);
    let pairs = first..args.len();
    if pairs.is_empty() || pairs.len() % 2 == 1 {
        return Err(syntax());
    }
    rules.check(pairs.len() / 2)?;
    let mut scores = Vec::with_capacity(pairs.len() / 2);
    for at in pairs.step_by(2) {
        let score = numbers::float(args.word(at));
        let score = score.ok_or_else(|| "ERR value is not a valid float".to_owned())?;
        scores.push((args.word(at + 1), score));
    }
    let now = server.now();
    server.keys.edit(args.word(1), now, |set: &mut SortedSet| {
        let mut counted = 0;
        for (member, score) in scores {
            let done = rules.apply(set, member, score)?;
            match done {
                Done::Added(score) | Done::Changed(score) | Done::Same(score)
                    if rules.increment =>
                {
                    return Ok(Reply::number(score));
                }
                Done::Refused if rules.increment => return Ok(Reply::Nil),
                Done::Added(_) => counted += 1,
                Done::Changed(_) => counted += usize::from(rules.changed),
                Done::Same(_) | Done::Refused => {}
            }
        }
        Ok(Reply::count(counted))
    })?
}

/// The options, and where the scores begin.
fn rules(args: &Args, increment: bool) -> (Rules, usize) {
    let mut rules = Rules {
        increment,
        ..Rules::default()
    };
    let mut at = 2;
    while let Some(word) = args.get(at) {
        match word.to_ascii_uppercase().as_slice() {
            b"NX" => rules.new = true,
            b"XX" => rules.old = true,
            b"GT" => rules.greater = true,
            b"LT" => rules.less = true,
            b"CH" => rules.changed = true,
            b"INCR" => rules.increment = true,
            _ => break,
        }
        at += 1;
    }
    (rules, at)
}

impl Rules {
    fn check(&self, members: usize) -> Result<(), String> {
        let clash = if self.new && self.old {
            "ERR XX and NX options at the same time are not compatible"
        } else if (self.new && (self.greater || self.less)) || (self.greater && self.less) {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if self.increment && members > 1 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok(());
        };
        Err(clash.to_owned())
    }

    fn apply(&self, set: &mut SortedSet, member: &[u8], score: f64) -> Result<Done, String> {
        let Some(old) = set.score(member) else {
            if self.old {
                return Ok(Done::Refused);
            }
            set.set(member, score);
            return Ok(Done::Added(score));
        };
        if self.new {
            return Ok(Done::Refused);
        }
        let score = if self.increment { old + score } else { score };
        if score.is_nan() {
            return Err("ERR resulting score is not a number (NaN)".to_owned());
        }
        if (self.greater && score <= old) || (self.less && score >= old) {
            return Ok(Done::Refused);
        }
        if score == old {
            return Ok(Done::Same(score));
        }
        set.set(member, score);
        Ok(Done::Changed(score))
    }
}
