//! Fields with a value each.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::{Collection, Data};

/// Fields with a value each, in the order in which they came.
///
/// `order` and `fields` hold the same fields; a field that is written again keeps its place.
#[derive(Debug, Default)]
pub(in super::super::super) struct Hash {
    fields: BTreeMap<Arc<[u8]>, PlacedValue>,
    /// By place: a rank is an index, and a new field comes last.
    order: VecDeque<(u64, Arc<[u8]>)>,
    next: u64,
}

#[derive(Debug)]
struct PlacedValue {
    place: u64,
    value: Vec<u8>,
}

impl Hash {
    pub(in super::super::super) fn get(&self, field: &[u8]) -> Option<&[u8]> {
        self.fields.get(field).map(|placed| placed.value.as_slice())
    }

    /// Writes a field; returns whether it is new.
    pub(in super::super::super) fn set(&mut self, field: &[u8], value: &[u8]) -> bool {
        if let Some(placed) = self.fields.get_mut(field) {
            placed.value = value.to_vec();
            return false;
        }
        let (field, place) = (Arc::<[u8]>::from(field), self.next);
        self.next += 1;
        self.order.push_back((place, field.clone()));
        let value = value.to_vec();
        self.fields.insert(field, PlacedValue { place, value });
        true
    }

    /// Removes a field; returns whether it was there.
    pub(in super::super::super) fn remove(&mut self, field: &[u8]) -> bool {
        let Some((field, placed)) = self.fields.remove_entry(field) else {
            return false;
        };
        if let Ok(rank) = self.order.binary_search(&(placed.place, field)) {
            self.order.remove(rank);
        }
        debug_assert_eq!(self.order.len(), self.fields.len());
        true
    }

    pub(in super::super::super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// A hash as it was stored, from the places of its fields, lowest first, and the next free place.
    pub(in super::super::super) fn restored(
        next: u64,
        fields: impl Iterator<Item = (u64, Vec<u8>, Vec<u8>)>,
    ) -> Self {
        let mut hash = Self {
            next,
            ..Self::default()
        };
        for (place, field, value) in fields {
            let field = Arc::<[u8]>::from(field);
            hash.order.push_back((place, field.clone()));
            hash.fields.insert(field, PlacedValue { place, value });
        }
        hash
    }

    /// Places, fields and values, oldest field first, and the next free place: what [`Hash::restored`] takes.
    pub(in super::super::super) fn places(
        &self,
    ) -> (u64, impl Iterator<Item = (u64, &[u8], &[u8])>) {
        let fields = self
            .order
            .iter()
            .filter_map(|(place, field)| Some((*place, &**field, self.get(field)?)));
        (self.next, fields)
    }

    /// Fields and values, oldest field first.
    pub(in super::super::super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.iter_from(0)
    }

    /// Fields and values from that rank on, oldest field first.
    pub(in super::super::super) fn iter_from(
        &self,
        rank: usize,
    ) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.order
            .iter()
            .skip(rank)
            .filter_map(|(_, field)| Some((&**field, self.get(field)?)))
    }

    /// Fields and values from a cursor on, each with the cursor behind it. A cursor stays valid when the hash changes.
    pub(in super::super::super) fn scan(
        &self,
        cursor: u64,
    ) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        let rank = self.order.partition_point(|(place, _)| *place < cursor);
        self.order
            .iter()
            .skip(rank)
            .filter_map(|(place, field)| Some((place + 1, &**field, self.get(field)?)))
    }
}

impl Collection for Hash {
    fn of(data: &Data) -> Option<&Self> {
        match data {
            Data::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn of_mut(data: &mut Data) -> Option<&mut Self> {
        match data {
            Data::Hash(hash) => Some(hash),
            _ => None,
        }
    }

    fn into_data(self) -> Data {
        Data::Hash(self)
    }

    fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }
}
