//! When two replies, or two keyspaces, are the same.

use super::calls::{Call, KEYS, Way};
use super::known;
use super::peers::{Key, Report};
use super::seen::Seen;
use testkit::Kind;

/// Compares the reports of a batch of both sides; `Err` says how they differ.
pub(super) fn compare(
    who: &str,
    server: Kind,
    calls: &[Call],
    ours: &Report,
    theirs: &Report,
) -> Result<(), String> {
    let slack = Slack::of(theirs);
    let replies = ours.replies.iter().zip(&theirs.replies);
    assert_eq!(ours.replies.len(), calls.len());
    assert_eq!(theirs.replies.len(), calls.len());
    for (call, (ours, theirs)) in calls.iter().zip(replies) {
        if !slack.same_reply(server, call, ours, theirs) {
            return Err(format!(
                "{call:?}\n  {who}: {ours:?}\n  {}: {theirs:?}",
                server.name()
            ));
        }
    }
    for (name, (ours, theirs)) in KEYS.iter().zip(ours.keys.iter().zip(&theirs.keys)) {
        if !slack.same_key(server, ours, theirs) {
            return Err(format!(
                "key {name}\n  {who}: {ours:?}\n  {}: {theirs:?}",
                server.name()
            ));
        }
    }
    Ok(())
}

/// How far times may be apart: Redis 7.0 has a clock that goes on while a script runs.
struct Slack {
    start: i64,
    end: i64,
}

impl Slack {
    fn of(theirs: &Report) -> Self {
        Self {
            start: theirs.start,
            end: theirs.end,
        }
    }

    fn millis(&self) -> i64 {
        (self.end - self.start) / 1000 + 1
    }

    fn same_key(&self, server: Kind, ours: &Key, theirs: &Key) -> bool {
        ours.kind == theirs.kind
            && self.same_time(ours.deadline, theirs.deadline)
            && self.same_value(
                server,
                &sorted(&ours.kind, &ours.value),
                &sorted(&theirs.kind, &theirs.value),
            )
    }

    fn same_reply(&self, server: Kind, call: &Call, ours: &Seen, theirs: &Seen) -> bool {
        match (ours, theirs) {
            (Seen::Plain(ours), Seen::Plain(theirs)) => {
                return self.same_reply(server, call, ours, theirs);
            }
            (Seen::Plain(_), _) | (_, Seen::Plain(_)) => return false,
            _ => {}
        }
        let command = match call.way {
            Way::Script => "SCRIPT".to_owned(),
            _ => call.words.first().cloned().unwrap_or_default(),
        };
        let command = command.to_uppercase();
        match command.as_str() {
            _ if known::is_known(server, &command, ours, theirs) => true,
            "HRANDFIELD" => same_size(ours, theirs),
            "TIME" => ours == theirs || self.same_moment(theirs),
            "SCRIPT" | "PTTL" | "TTL" => self.same_timed(ours, theirs),
            _ => {
                let (ours, theirs) = (sorted(&command, ours), sorted(&command, theirs));
                self.same_value(server, &ours, &theirs)
            }
        }
    }

    /// Equal, but for how a score is written and for the time in a holder's details.
    fn same_value(&self, server: Kind, ours: &Seen, theirs: &Seen) -> bool {
        match (ours, theirs) {
            (Seen::List(ours), Seen::List(theirs)) => {
                let mut pairs = ours.iter().zip(theirs);
                ours.len() == theirs.len()
                    && pairs.all(|(ours, theirs)| self.same_value(server, ours, theirs))
            }
            (Seen::Text(ours), Seen::Text(theirs)) if ours != theirs => {
                same_details(ours, theirs)
                    || same_ticket(ours, theirs)
                    || known::is_same_score(server, ours, theirs)
            }
            _ => ours == theirs,
        }
    }

    /// Equal, but for times.
    fn same_timed(&self, ours: &Seen, theirs: &Seen) -> bool {
        match (ours, theirs) {
            (Seen::List(ours), Seen::List(theirs)) => {
                let mut pairs = ours.iter().zip(theirs);
                ours.len() == theirs.len() && pairs.all(|(a, b)| self.same_timed(a, b))
            }
            (Seen::Int(ours), Seen::Int(theirs)) => self.same_time(*ours, *theirs),
            (Seen::Number(ours), Seen::Number(theirs)) => {
                self.same_time(*ours as i64, *theirs as i64)
            }
            (Seen::Text(ours), Seen::Text(theirs)) => ours == theirs || same_details(ours, theirs),
            (ours, theirs) => ours == theirs,
        }
    }

    fn same_time(&self, ours: i64, theirs: i64) -> bool {
        // From here on a number is a time in microseconds, perhaps of an earlier batch.
        const MICROS: i64 = 100_000_000_000_000;
        // From here on a number of Lua has lost the last digits.
        const EXACT: i64 = 1 << 53;
        let slack = match ours {
            ..MICROS => self.millis(),
            MICROS..EXACT => 1_000_000,
            _ => 1 << 11,
        };
        ours == theirs || (ours >= 0 && theirs >= 0 && (ours - theirs).abs() <= slack)
    }

    /// Whether a reply of `TIME` lies within the batch.
    fn same_moment(&self, theirs: &Seen) -> bool {
        let Seen::List(parts) = theirs else {
            return false;
        };
        let number = |at: usize| parts[at].clone().text().parse::<i64>().unwrap();
        (self.start..=self.end).contains(&(number(0) * 1_000_000 + number(1)))
    }
}

/// The order of a hash's fields is not compared: servers have none once a hash is large. That of a sorted set's members is
/// compared in the replies of its commands.
fn sorted(kind: &str, value: &Seen) -> Seen {
    let Seen::List(list) = value else {
        return value.clone();
    };
    let width = match kind {
        // Times of one moment may be a little apart on one side, and equal on the other.
        "HGETALL" | "hash" | "zset" => 2,
        "HKEYS" | "HVALS" => 1,
        "HSCAN" => {
            let inner = list.iter().map(|part| sorted("HGETALL", part));
            return Seen::List(inner.collect());
        }
        _ => return value.clone(),
    };
    let mut groups: Vec<&[Seen]> = list.chunks(width).collect();
    groups.sort_by(|a, b| a.partial_cmp(b).unwrap());
    Seen::List(groups.concat())
}

fn same_size(ours: &Seen, theirs: &Seen) -> bool {
    match (ours, theirs) {
        (Seen::List(ours), Seen::List(theirs)) => ours.len() == theirs.len(),
        (Seen::Text(_), Seen::Text(_)) => true,
        _ => ours == theirs,
    }
}

/// Texts that begin with a time in ms and are equal otherwise.
fn same_details(ours: &str, theirs: &str) -> bool {
    let parts = |text: &str| {
        let (time, rest) = text.split_once('\n').unwrap_or((text, ""));
        Some((time.parse::<i64>().ok()?, rest.to_owned()))
    };
    match (parts(ours), parts(theirs)) {
        (Some((ours, a)), Some((theirs, b))) => {
            // They may be of an earlier batch, so its slack is not known.
            let is_time = ours > 1_000_000_000_000;
            is_time && a == b && (ours - theirs).abs() < 1000
        }
        _ => false,
    }
}

/// A time in microseconds, a colon, and a time in ms: a waiter of a fair lock. Both may be of an earlier batch.
fn same_ticket(ours: &str, theirs: &str) -> bool {
    let parts = |text: &str| {
        let (ticket, refreshed) = text.split_once(':')?;
        Some((ticket.parse::<i64>().ok()?, refreshed.parse::<i64>().ok()?))
    };
    match (parts(ours), parts(theirs)) {
        (Some((a, b)), Some((c, d))) => (a - c).abs() < 1_000_000 && (b - d).abs() < 1_000,
        _ => false,
    }
}
