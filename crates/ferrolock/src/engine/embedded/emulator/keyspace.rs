//! Typed values by key, each with a deadline or without.
//!
//! No I/O and no clock: the caller gives the time. A key whose deadline has passed is gone for every reader, whether
//! [`Keyspace::purge`] has removed it or not.

mod hash;
mod list;
mod sorted_set;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(in super::super) use hash::Hash;
pub(in super::super) use list::{End, List};
pub(in super::super) use sorted_set::{Bound, SortedSet};

/// A point in the server's time, in milliseconds.
pub(in super::super) type Millis = i64;

/// The bytes of a key, shared by the entry and its place among the deadlines.
type Key = Arc<[u8]>;

/// All keys, in the order of their bytes.
///
/// `deadlines` holds exactly the keys of `entries` that have a deadline, so that the due ones are found without
/// looking at the others. No collection in `entries` is empty.
#[derive(Debug, Default)]
pub(in super::super) struct Keyspace {
    entries: BTreeMap<Key, KeyEntry>,
    deadlines: BTreeSet<(Millis, Key)>,
    scope: Scope,
}

#[derive(Debug)]
struct KeyEntry {
    data: Data,
    deadline: Option<Millis>,
    /// Whether a command may have changed it since it was loaded.
    is_touched: bool,
}

/// Which keys are here.
#[derive(Debug, Default)]
enum Scope {
    /// All that there are.
    #[default]
    Whole,
    /// Only these, out of a larger store.
    Part {
        /// In the order of their bytes, each once: a call may have many.
        keys: Vec<Key>,
        /// Other keys that were asked for: whether they exist in the larger store is unknown here.
        missing: BTreeSet<Key>,
    },
}

/// A key with its value and deadline, or `None` if there is no such key now.
pub(in super::super) type TouchedKey<'a> = (&'a [u8], Option<(&'a Data, Option<Millis>)>);

/// A value of one of the types.
#[derive(Debug)]
pub(in super::super) enum Data {
    Text(Vec<u8>),
    Hash(Hash),
    List(List),
    SortedSet(SortedSet),
}

/// A type of which an empty value is the same as none.
pub(in super::super) trait Collection: Default {
    fn of(data: &Data) -> Option<&Self>;
    fn of_mut(data: &mut Data) -> Option<&mut Self>;
    fn into_data(self) -> Data;
    fn is_empty(&self) -> bool;
}

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct WrongType;

/// How long a key still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum KeyLife {
    Missing,
    Endless,
    Until(Millis),
}

impl Keyspace {
    /// Clears everything and becomes a part of a larger store with these keys; their values have to be loaded.
    pub(in super::super) fn narrow<'a>(&mut self, keys: impl Iterator<Item = &'a [u8]>) {
        self.entries.clear();
        self.deadlines.clear();
        let mut keys: Vec<Key> = keys.map(Key::from).collect();
        keys.sort_unstable();
        keys.dedup();
        let missing = BTreeSet::new();
        self.scope = Scope::Part { keys, missing };
    }

    /// Loads what the larger store has under a key.
    pub(in super::super) fn load(&mut self, key: &[u8], data: Data, deadline: Option<Millis>) {
        self.insert(key, data);
        if let Some(deadline) = deadline {
            self.set_deadline(key, deadline);
        }
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_touched = false;
        }
    }

    /// The keys that were asked for and are not of this part: replies about them may be wrong.
    #[cfg(target_os = "linux")]
    pub(in super::super) fn missing(&self) -> impl Iterator<Item = &[u8]> {
        let missing = match &self.scope {
            Scope::Whole => None,
            Scope::Part { missing, .. } => Some(missing),
        };
        missing.into_iter().flatten().map(|key| &**key)
    }

    /// The keys of this part that may differ from what was loaded.
    pub(in super::super) fn touched(&self) -> impl Iterator<Item = TouchedKey<'_>> {
        let keys = match &self.scope {
            Scope::Whole => None,
            Scope::Part { keys, .. } => Some(keys),
        };
        let keys = keys.into_iter().flatten();
        keys.filter_map(|key| match self.entries.get(key) {
            Some(entry) if !entry.is_touched => None,
            Some(entry) => Some((&**key, Some((&entry.data, entry.deadline)))),
            None => Some((&**key, None)),
        })
    }

    /// Removes every key whose deadline has passed.
    pub(in super::super) fn purge(&mut self, now: Millis) {
        while self
            .deadlines
            .first()
            .is_some_and(|(deadline, _)| is_over(*deadline, now))
        {
            if let Some((_, key)) = self.deadlines.pop_first() {
                self.entries.remove(&key);
            }
        }
    }

    /// The value of a key.
    pub(in super::super) fn get(&mut self, key: &[u8], now: Millis) -> Option<&Data> {
        self.live(key, now).map(|entry| &entry.data)
    }

    /// The text at a key.
    pub(in super::super) fn text(
        &mut self,
        key: &[u8],
        now: Millis,
    ) -> Result<Option<&[u8]>, WrongType> {
        match self.get(key, now) {
            None => Ok(None),
            Some(Data::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WrongType),
        }
    }

    /// The collection at a key.
    pub(in super::super) fn read<C: Collection>(
        &mut self,
        key: &[u8],
        now: Millis,
    ) -> Result<Option<&C>, WrongType> {
        match self.get(key, now) {
            None => Ok(None),
            Some(data) => C::of(data).map(Some).ok_or(WrongType),
        }
    }

    /// Changes the collection at a key: a missing one starts empty, one that ends empty is removed.
    pub(in super::super) fn edit<C: Collection, R>(
        &mut self,
        key: &[u8],
        now: Millis,
        edit: impl FnOnce(&mut C) -> R,
    ) -> Result<R, WrongType> {
        let Some(entry) = self.live(key, now) else {
            let mut collection = C::default();
            let result = edit(&mut collection);
            if !collection.is_empty() {
                self.set(key, collection.into_data());
            }
            return Ok(result);
        };
        let collection = C::of_mut(&mut entry.data).ok_or(WrongType)?;
        entry.is_touched = true;
        let result = edit(collection);
        if collection.is_empty() {
            self.drop_entry(key);
        }
        Ok(result)
    }

    /// Puts a value in place of whatever was there, without a deadline.
    pub(in super::super) fn set(&mut self, key: &[u8], data: Data) {
        self.scope.asks_for(key);
        self.drop_entry(key);
        self.insert(key, data);
    }

    /// Changes the text at a key, which keeps its deadline; a missing one is made without a deadline.
    pub(in super::super) fn set_text(&mut self, key: &[u8], now: Millis, text: Vec<u8>) {
        match self.live(key, now) {
            Some(entry) => {
                entry.is_touched = true;
                entry.data = Data::Text(text);
            }
            None => self.set(key, Data::Text(text)),
        }
    }

    /// Removes a key; returns whether it was there.
    pub(in super::super) fn remove(&mut self, key: &[u8], now: Millis) -> bool {
        self.live(key, now).is_some() && self.drop_entry(key)
    }

    /// How long a key still lives.
    pub(in super::super) fn life(&mut self, key: &[u8], now: Millis) -> KeyLife {
        match self.live(key, now) {
            None => KeyLife::Missing,
            Some(entry) => entry.deadline.map_or(KeyLife::Endless, KeyLife::Until),
        }
    }

    /// Sets the deadline of a key that is there.
    pub(in super::super) fn set_deadline(&mut self, key: &[u8], deadline: Millis) {
        let Some((key, _)) = self.entries.get_key_value(key) else {
            return;
        };
        let key = key.clone();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        entry.is_touched = true;
        if let Some(old) = entry.deadline.replace(deadline) {
            self.deadlines.remove(&(old, key.clone()));
        }
        self.deadlines.insert((deadline, key));
        debug_assert!(self.deadlines.len() <= self.entries.len());
    }

    /// Removes the deadline of a key; returns whether it had one.
    pub(in super::super) fn clear_deadline(&mut self, key: &[u8], now: Millis) -> bool {
        let Some(entry) = self.live(key, now) else {
            return false;
        };
        let Some(deadline) = entry.deadline.take() else {
            return false;
        };
        entry.is_touched = true;
        self.deadlines.remove(&(deadline, Key::from(key)));
        true
    }

    /// Removes everything.
    #[cfg(test)]
    pub(in super::super) fn clear(&mut self) {
        self.entries.clear();
        self.deadlines.clear();
    }

    /// How many keys are stored, those past their deadline included.
    #[cfg(test)]
    pub(in super::super) fn stored(&self) -> usize {
        self.entries.len()
    }

    /// The entry of a key; one past its deadline is removed.
    fn live(&mut self, key: &[u8], now: Millis) -> Option<&mut KeyEntry> {
        self.scope.asks_for(key);
        let over = self
            .entries
            .get(key)?
            .deadline
            .is_some_and(|deadline| is_over(deadline, now));
        if over {
            self.drop_entry(key);
            return None;
        }
        self.entries.get_mut(key)
    }

    fn insert(&mut self, key: &[u8], data: Data) {
        let entry = KeyEntry {
            data,
            deadline: None,
            is_touched: true,
        };
        self.entries.insert(Key::from(key), entry);
    }

    fn drop_entry(&mut self, key: &[u8]) -> bool {
        let Some((key, entry)) = self.entries.remove_entry(key) else {
            return false;
        };
        if let Some(deadline) = entry.deadline {
            self.deadlines.remove(&(deadline, key));
        }
        true
    }
}

impl Scope {
    fn asks_for(&mut self, key: &[u8]) {
        if let Scope::Part { keys, missing } = self
            && keys.binary_search_by(|known| (**known).cmp(key)).is_err()
            && !missing.contains(key)
        {
            missing.insert(Key::from(key));
        }
    }
}

/// A key lives through the millisecond of its deadline, as on the servers.
fn is_over(deadline: Millis, now: Millis) -> bool {
    now > deadline
}
