//! Which entries of a call's lock belong to processes that have ended, and what frees each.
//!
//! The store keeps a holder, or a waiter in a queue, as `client:number`, and knows to which process a client belongs.
//! The scheme of the lock says under which keys such entries are, and which call frees one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::super::emulator::keyspace::Data;
use super::super::emulator::server::Server;
use super::map::Change;
use super::rows;
use super::session::{Others, SessionLife};
use crate::engine::Failure;
use crate::protocol::call::Call;
use crate::protocol::scheme::{client_of, dead_bearer, scheme_of};

/// At most this many entries are freed with one call, which waits for it; the next call frees the next ones. Each entry that
/// is freed wakes waiters, so a next call comes.
const FREED_MAX: usize = 16;

/// One call checks for at most this many clients whether they live: each costs a look into the table and a system call.
const ASKED_MAX: usize = 64;

/// What was found under the keys of a call.
#[derive(Debug, Default)]
pub(super) struct FoundEntries {
    pub(super) dead: Vec<Dead>,
    /// Channels of locks, and the living sessions of other processes that hold or wait for these locks.
    pub(super) alive: BTreeSet<(Arc<str>, Arc<str>)>,
}

/// An entry whose process has ended.
#[derive(Debug)]
pub(super) struct Dead {
    pub(super) lock: Arc<str>,
    pub(super) entry: Arc<str>,
    pub(super) session: Arc<str>,
    /// The call that frees it.
    pub(super) freeing: Call,
}

/// Checks each client once.
struct Lives<'a> {
    others: &'a mut Others,
    change: &'a Change,
    own: Option<&'a str>,
    known: BTreeMap<String, Option<(Arc<str>, SessionLife)>>,
}

/// Looks through the values of a call, which are loaded.
pub(super) fn find(
    server: &mut Server,
    others: &mut Others,
    change: &Change,
    own: Option<&str>,
    call: &Call,
) -> Result<FoundEntries, Failure> {
    let mut found = FoundEntries::default();
    let now = server.now();
    // Most locks are free, and a free one has no entries to check.
    let mut keys = call.keys.iter().map(|key| key.as_bytes());
    let is_free = !keys.any(|key| server.keys.get(key, now).is_some());
    let Some(scheme) = (!is_free).then(|| scheme_of(call)).flatten() else {
        return Ok(found);
    };
    let mut lives = Lives {
        others,
        change,
        own,
        known: BTreeMap::new(),
    };
    for key in scheme.searched() {
        let Some(data) = server.keys.get(key.as_bytes(), now) else {
            continue;
        };
        for entry in entries_from_anywhere(data, now) {
            if found.dead.len() == FREED_MAX {
                break;
            }
            let Some((session, life)) = lives.of(entry)? else {
                continue;
            };
            match life {
                SessionLife::Alive => {
                    let channel = scheme.waiting().channel.clone();
                    found
                        .alive
                        .extend(channel.map(|channel| (channel, session)));
                }
                SessionLife::Dead if !stays(change, entry)? => {
                    let entry: Arc<str> = entry.into();
                    found.dead.push(Dead {
                        lock: scheme.name().clone(),
                        freeing: scheme.abandon(&dead_bearer(entry.clone())),
                        session,
                        entry,
                    });
                }
                // Its lease decides.
                SessionLife::Dead | SessionLife::Unknown => {}
            }
        }
    }
    Ok(found)
}

/// The entries of a value that may name a process: the fields of a hash, the members of a sorted set, the items of a list.
fn entries(data: &Data) -> Vec<&str> {
    let all: Vec<&[u8]> = match data {
        Data::Text(_) => Vec::new(),
        Data::Hash(hash) => hash.iter().map(|(field, _)| field).collect(),
        Data::List(list) => list.iter().collect(),
        Data::SortedSet(set) => set.iter_from(0).map(|(member, _)| member).collect(),
    };
    let texts = all
        .into_iter()
        .filter_map(|one| std::str::from_utf8(one).ok());
    texts.filter(|entry| client_of(entry).is_some()).collect()
}

/// The same. If there are more than one call checks, each call begins elsewhere, so that living ones in front do not hide
/// dead ones behind them for good.
fn entries_from_anywhere(data: &Data, now_ms: i64) -> Vec<&str> {
    let mut entries = entries(data);
    if entries.len() > ASKED_MAX {
        let at = usize::try_from(now_ms).unwrap_or(0) % entries.len();
        entries.rotate_left(at);
    }
    entries
}

/// Whether the entry was left to stay after its process ends.
fn stays(change: &Change, entry: &str) -> Result<bool, Failure> {
    let row = change.get(&rows::staying(entry.as_bytes()))?;
    Ok(row.is_some())
}

impl Lives<'_> {
    /// The session of an entry of another process, and whether it lives. None: it is our own, or of a client that the store
    /// does not know, or this call has checked too many already.
    fn of(&mut self, entry: &str) -> Result<Option<(Arc<str>, SessionLife)>, Failure> {
        let client = client_of(entry).unwrap_or_default();
        if let Some(known) = self.known.get(client) {
            return Ok(known.clone());
        }
        if self.known.len() == ASKED_MAX {
            return Ok(None);
        }
        let asked = self.ask(client)?;
        self.known.insert(client.to_owned(), asked.clone());
        Ok(asked)
    }

    fn ask(&mut self, client: &str) -> Result<Option<(Arc<str>, SessionLife)>, Failure> {
        let session = match self.change.get(&rows::client(client))? {
            Some(session) if Some(session) != self.own.map(str::as_bytes) => session,
            _ => return Ok(None),
        };
        let session = String::from_utf8_lossy(session);
        let life = self.others.life(self.change, &session)?;
        Ok(Some((session.into(), life)))
    }
}
