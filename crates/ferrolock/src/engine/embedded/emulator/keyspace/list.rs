//! Texts in a row.

use std::collections::VecDeque;

use super::{Collection, Data};

/// Texts in a row, the head first.
#[derive(Debug, Default)]
pub(in super::super::super) struct List {
    items: VecDeque<Vec<u8>>,
}

/// One of the two ends of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super::super) enum End {
    Head,
    Tail,
}

impl List {
    pub(in super::super::super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(in super::super::super) fn push(&mut self, end: End, item: &[u8]) {
        match end {
            End::Head => self.items.push_front(item.to_vec()),
            End::Tail => self.items.push_back(item.to_vec()),
        }
    }

    pub(in super::super::super) fn pop(&mut self, end: End) -> Option<Vec<u8>> {
        match end {
            End::Head => self.items.pop_front(),
            End::Tail => self.items.pop_back(),
        }
    }

    pub(in super::super::super) fn get(&self, at: usize) -> Option<&[u8]> {
        self.items.get(at).map(Vec::as_slice)
    }

    /// Items from the head on.
    pub(in super::super::super) fn iter(
        &self,
    ) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.items.iter().map(Vec::as_slice)
    }

    /// Puts an item in front of the first equal to `pivot`, or behind it; returns whether there is one.
    pub(in super::super::super) fn insert(&mut self, item: &[u8], side: End, pivot: &[u8]) -> bool {
        let Some(at) = self.iter().position(|other| other == pivot) else {
            return false;
        };
        let at = at + usize::from(side == End::Tail);
        self.items.insert(at, item.to_vec());
        true
    }

    /// Removes up to `limit` items equal to `item`, beginning at that end; returns how many.
    pub(in super::super::super) fn remove(
        &mut self,
        item: &[u8],
        from: End,
        limit: usize,
    ) -> usize {
        let equal = self.iter().filter(|other| *other == item).count();
        let removed = equal.min(limit);
        // From the tail, the first ones in the list stay.
        let mut stay = if from == End::Head {
            0
        } else {
            equal - removed
        };
        let mut left = removed;
        self.items.retain(|other| {
            if other != item || left == 0 {
                return true;
            }
            if stay > 0 {
                stay -= 1;
                return true;
            }
            left -= 1;
            false
        });
        removed
    }
}

impl Collection for List {
    fn of(data: &Data) -> Option<&Self> {
        match data {
            Data::List(list) => Some(list),
            _ => None,
        }
    }

    fn of_mut(data: &mut Data) -> Option<&mut Self> {
        match data {
            Data::List(list) => Some(list),
            _ => None,
        }
    }

    fn into_data(self) -> Data {
        Data::List(self)
    }

    fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}
