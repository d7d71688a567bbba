//! Things that have an owner, found by it: a few in a row, many in a table.
//!
//! A lock mostly has one holder. But thousands of readers of one client may share a name, and each must not look through
//! all others.

use smallvec::SmallVec;

use crate::coordination::number_hash::ByNumber;
use crate::owner::Owner;

/// Looking through this many costs less than a table.
const ROW_MAX: usize = 8;

/// What a [`Crowd`] is made of.
pub(super) trait Owned {
    fn owner(&self) -> &Owner;
}

#[derive(Debug)]
pub(super) struct Crowd<T>(CrowdForm<T>);

#[derive(Debug)]
enum CrowdForm<T> {
    Row(SmallVec<[T; 1]>),
    /// Stays a table until it is empty.
    Table(Box<ByNumber<Owner, SmallVec<[T; 1]>>>),
}

impl<T: Owned> Crowd<T> {
    pub(super) fn new() -> Self {
        Self(CrowdForm::Row(SmallVec::new()))
    }

    pub(super) fn is_empty(&self) -> bool {
        match &self.0 {
            CrowdForm::Row(row) => row.is_empty(),
            CrowdForm::Table(table) => table.is_empty(),
        }
    }

    pub(super) fn push(&mut self, one: T) {
        if let CrowdForm::Row(row) = &mut self.0
            && row.len() == ROW_MAX
        {
            let mut table = Box::<ByNumber<Owner, SmallVec<[T; 1]>>>::default();
            for other in row.drain(..) {
                let owner = other.owner().clone();
                table.entry(owner).or_default().push(other);
            }
            self.0 = CrowdForm::Table(table);
        }
        match &mut self.0 {
            CrowdForm::Row(row) => row.push(one),
            CrowdForm::Table(table) => table.entry(one.owner().clone()).or_default().push(one),
        }
    }

    /// Removes those of that owner for which `goes` returns true.
    pub(super) fn remove(&mut self, owner: &Owner, goes: impl Fn(&T) -> bool) {
        match &mut self.0 {
            CrowdForm::Row(row) => row.retain(|one| !goes(one)),
            CrowdForm::Table(table) => {
                if let Some(row) = table.get_mut(owner) {
                    row.retain(|one| !goes(one));
                    if row.is_empty() {
                        table.remove(owner);
                    }
                }
            }
        }
        if self.is_empty() {
            *self = Self::new();
        }
    }

    /// The first of that owner for which `is_it` returns true.
    pub(super) fn find(&self, owner: &Owner, is_it: impl Fn(&T) -> bool) -> Option<&T> {
        let row = match &self.0 {
            CrowdForm::Row(row) => Some(row),
            CrowdForm::Table(table) => table.get(owner),
        };
        let mut row = row?.iter();
        row.find(|one| one.owner() == owner && is_it(one))
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        let (row, table) = match &self.0 {
            CrowdForm::Row(row) => (Some(row.iter()), None),
            CrowdForm::Table(table) => (None, Some(table.values().flatten())),
        };
        row.into_iter().flatten().chain(table.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct One(Owner, u32);

    impl Owned for One {
        fn owner(&self) -> &Owner {
            &self.0
        }
    }

    fn crowd(owners: &[Owner]) -> Crowd<One> {
        let mut crowd = Crowd::new();
        for (number, owner) in (0..).zip(owners) {
            crowd.push(One(owner.clone(), number));
        }
        crowd
    }

    fn numbers(crowd: &Crowd<One>) -> Vec<u32> {
        let mut numbers: Vec<u32> = crowd.iter().map(|one| one.1).collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn each_is_found_by_its_owner_in_a_row_and_in_a_table() {
        for size in [1, 7, 8, 9, 100] {
            let owners: Vec<Owner> = (0..size).map(|_| Owner::new()).collect();
            let crowd = crowd(&owners);

            for (number, owner) in (0..).zip(&owners) {
                let found = crowd.find(owner, |_| true);
                assert_eq!(found.map(|one| one.1), Some(number), "of {size}");
            }
            assert_eq!(crowd.find(&Owner::new(), |_| true), None);
            assert_eq!(numbers(&crowd), (0..size).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn of_one_owners_only_what_is_meant_goes() {
        for others in [0, 20] {
            let owner = Owner::new();
            let mut owners = vec![owner.clone(), owner.clone()];
            owners.extend((0..others).map(|_| Owner::new()));
            let mut crowd = crowd(&owners);

            crowd.remove(&owner, |one| one.1 == 0);

            assert_eq!(crowd.find(&owner, |_| true), Some(&One(owner.clone(), 1)));
            crowd.remove(&owner, |one| one.1 == 1);
            assert_eq!(crowd.find(&owner, |_| true), None);
            assert_eq!(numbers(&crowd), (2..2 + others).collect::<Vec<u32>>());
        }
    }

    #[test]
    fn one_that_has_emptied_begins_as_a_row_again() {
        let owners: Vec<Owner> = (0..50).map(|_| Owner::new()).collect();
        let mut crowd = crowd(&owners);
        assert!(matches!(crowd.0, CrowdForm::Table(_)));

        owners
            .iter()
            .for_each(|owner| crowd.remove(owner, |_| true));

        assert!(crowd.is_empty());
        assert!(matches!(crowd.0, CrowdForm::Row(_)));
    }
}
