//! Removes keys past their deadlines: calls see them as gone anyway.

use super::super::emulator::keyspace::Millis;
use super::map::{Change, Map};
use super::rows;
use crate::engine::Failure;

/// How many keys past their deadlines go with one change.
const PURGED_MAX: usize = 16;

/// How many such changes a call makes that finds the store full. Not one large change: pages are copied before they are
/// changed, and there is little room for copies.
const ROUNDS: usize = 100;

/// Removes a few keys past their deadlines.
pub(super) fn purge(change: &mut Change, now: Millis) -> Result<(), Failure> {
    purge_some(change, now).map(drop)
}

/// Removes many of them in separate changes, if the store is full: a call that is refused removes nothing.
pub(super) fn make_room(map: &mut Map, now: Millis) -> Result<(), Failure> {
    for _ in 0..ROUNDS {
        if !map.is_full() {
            break;
        }
        let mut change = map.begin()?;
        let purged = purge_some(&mut change, now)?;
        change.commit()?;
        if purged < PURGED_MAX {
            break;
        }
    }
    Ok(())
}

/// Returns how many were removed.
fn purge_some(change: &mut Change, now: Millis) -> Result<usize, Failure> {
    for purged in 0..PURGED_MAX {
        let Some((name, _)) = change.first(rows::DEADLINES)? else {
            return Ok(purged);
        };
        let name = name.to_vec();
        match rows::time_and_rest(&name) {
            Some((deadline, row)) if deadline < now => change.delete(row)?,
            _ => return Ok(purged),
        }
        change.delete(&name)?;
    }
    Ok(PURGED_MAX)
}
