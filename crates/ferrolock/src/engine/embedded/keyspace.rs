//! Typed values by key, each with a deadline or without.
//!
//! No I/O and no clock: whoever asks says what time it is. A key whose deadline has passed is gone for every reader,
//! whether [`Keyspace::purge`] came by or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A point in the server's time, in milliseconds.
pub(super) type Millis = i64;

/// The bytes of a key, shared by the entry and its place among the deadlines.
type Key = Arc<[u8]>;

/// All keys, in the order of their bytes.
///
/// `deadlines` holds exactly the keys of `entries` that have a deadline, so that the due ones are found without
/// looking at the others. No collection in `entries` is empty.
#[derive(Debug, Default)]
pub(super) struct Keyspace {
    entries: BTreeMap<Key, Entry>,
    deadlines: BTreeSet<(Millis, Key)>,
}

#[derive(Debug)]
struct Entry {
    data: Data,
    deadline: Option<Millis>,
}

/// A value of one of the types.
#[derive(Debug)]
pub(super) enum Data {
    Text(Vec<u8>),
    Hash(Hash),
}

/// The key holds a value of another type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongType;

/// How long a key still lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Missing,
    Endless,
    Until(Millis),
}

impl Keyspace {
    /// Removes every key whose deadline has passed.
    pub(super) fn purge(&mut self, now: Millis) {
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
    pub(super) fn get(&mut self, key: &[u8], now: Millis) -> Option<&Data> {
        self.live(key, now).map(|entry| &entry.data)
    }

    /// The text at a key.
    pub(super) fn text(&mut self, key: &[u8], now: Millis) -> Result<Option<&[u8]>, WrongType> {
        match self.get(key, now) {
            None => Ok(None),
            Some(Data::Text(text)) => Ok(Some(text)),
            Some(_) => Err(WrongType),
        }
    }

    /// The hash at a key.
    pub(super) fn hash(&mut self, key: &[u8], now: Millis) -> Result<Option<&Hash>, WrongType> {
        match self.get(key, now) {
            None => Ok(None),
            Some(Data::Hash(hash)) => Ok(Some(hash)),
            Some(_) => Err(WrongType),
        }
    }

    /// Changes the hash at a key: a missing one starts empty, one that ends empty is removed.
    pub(super) fn edit_hash<R>(
        &mut self,
        key: &[u8],
        now: Millis,
        edit: impl FnOnce(&mut Hash) -> R,
    ) -> Result<R, WrongType> {
        let Some(entry) = self.live(key, now) else {
            let mut hash = Hash::default();
            let result = edit(&mut hash);
            if !hash.is_empty() {
                self.set(key, Data::Hash(hash));
            }
            return Ok(result);
        };
        let Data::Hash(hash) = &mut entry.data else {
            return Err(WrongType);
        };
        let result = edit(hash);
        if hash.is_empty() {
            self.drop_entry(key);
        }
        Ok(result)
    }

    /// Puts a value in place of whatever was there, without a deadline.
    pub(super) fn set(&mut self, key: &[u8], data: Data) {
        debug_assert!(!matches!(&data, Data::Hash(hash) if hash.is_empty()));
        self.drop_entry(key);
        let entry = Entry {
            data,
            deadline: None,
        };
        self.entries.insert(Key::from(key), entry);
    }

    /// Removes a key; whether it was there.
    pub(super) fn remove(&mut self, key: &[u8], now: Millis) -> bool {
        self.live(key, now).is_some() && self.drop_entry(key)
    }

    /// How long a key still lives.
    pub(super) fn life(&mut self, key: &[u8], now: Millis) -> Life {
        match self.live(key, now) {
            None => Life::Missing,
            Some(entry) => entry.deadline.map_or(Life::Endless, Life::Until),
        }
    }

    /// Sets the deadline of a key that is there.
    pub(super) fn set_deadline(&mut self, key: &[u8], deadline: Millis) {
        let Some((key, _)) = self.entries.get_key_value(key) else {
            return;
        };
        let key = key.clone();
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if let Some(old) = entry.deadline.replace(deadline) {
            self.deadlines.remove(&(old, key.clone()));
        }
        self.deadlines.insert((deadline, key));
        debug_assert!(self.deadlines.len() <= self.entries.len());
    }

    /// Removes everything.
    #[cfg(test)]
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.deadlines.clear();
    }

    /// How many keys are stored, those past their deadline included.
    #[cfg(test)]
    pub(super) fn stored(&self) -> usize {
        self.entries.len()
    }

    /// The entry of a key; one past its deadline goes.
    fn live(&mut self, key: &[u8], now: Millis) -> Option<&mut Entry> {
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

/// A key lives through the millisecond of its deadline, as on the servers.
fn is_over(deadline: Millis, now: Millis) -> bool {
    now > deadline
}

/// Fields with a value each, in the order in which they came.
///
/// `order` and `fields` hold the same fields; a field that is written again keeps its place.
#[derive(Debug, Default)]
pub(super) struct Hash {
    fields: BTreeMap<Arc<[u8]>, Slot>,
    order: BTreeMap<u64, Arc<[u8]>>,
    next: u64,
}

#[derive(Debug)]
struct Slot {
    place: u64,
    value: Vec<u8>,
}

impl Hash {
    pub(super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(|slot| slot.value.as_slice())
    }

    /// Writes a field; whether it is new.
    pub(super) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if let Some(slot) = self.fields.get_mut(field) {
            slot.value = value.to_vec();
            return false;
        }
        let (field, place) = (Arc::<[u8]>::from(field), self.next);
        self.next += 1;
        self.order.insert(place, field.clone());
        let value = value.to_vec();
        self.fields.insert(field, Slot { place, value });
        true
    }

    /// Removes a field; whether it was there.
    pub(super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some(slot) = self.fields.remove(field) else {
            return false;
        };
        self.order.remove(&slot.place);
        debug_assert_eq!(self.order.len(), self.fields.len());
        true
    }

    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Fields and values, oldest field first.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.order
            .values()
            .filter_map(|field| Some((&**field, self.get(field)?)))
    }
}
