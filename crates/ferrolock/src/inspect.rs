//! What can be seen of a lock from outside.

use std::time::Duration;

use crate::owner::OwnerId;
use crate::protocol::scheme::{Rest, Seen};

/// How long a lock stays taken if nothing happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remaining {
    /// No owner has it.
    Free,
    /// This long, unless the holder renews or releases it.
    Left(Duration),
    /// The holder gave it no end, as no client of ours and no Redisson does.
    NoExpiry,
}

impl Remaining {
    pub(crate) fn of(rest: Option<Rest>) -> Self {
        match rest {
            None => Remaining::Free,
            Some(Rest::Left(left)) => Remaining::Left(left),
            Some(Rest::NoExpiry) => Remaining::NoExpiry,
        }
    }
}

/// Who holds a lock.
///
/// Host, process and label are known of holders that were given a label, or whose client has a name; `None` otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The client and its number for this tenure.
    pub owner: OwnerId,
    /// How often the holder has entered.
    pub count: u32,
    /// How long the lock stays taken if nothing happens.
    pub remaining: Remaining,
    /// The holder's machine.
    pub host: Option<String>,
    /// The holder's process.
    pub pid: Option<u32>,
    /// What the holder calls itself.
    pub label: Option<String>,
    /// How long it holds, by the server's clock.
    pub held_for: Option<Duration>,
}

impl Holder {
    pub(crate) fn of(seen: Seen, remaining: Remaining) -> Option<Self> {
        let details = seen.details.as_ref();
        Some(Self {
            owner: seen.field.parse().ok()?,
            count: seen.count,
            remaining,
            host: details.and_then(|details| details.host.clone()),
            pid: details.and_then(|details| details.pid),
            label: details.and_then(|details| details.label.clone()),
            held_for: details.map(|details| details.held_for),
        })
    }
}
