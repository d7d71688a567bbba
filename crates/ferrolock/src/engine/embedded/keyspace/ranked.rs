//! An ordered set whose members know their rank.

use std::cmp::Ordering;
use std::ops::Range;

/// A treap: ordered by member, balanced by a number drawn for each.
///
/// Adding, removing, finding a rank and finding the member of a rank each take a number of steps that grows with the
/// logarithm of the size.
#[derive(Debug)]
pub(super) struct Ranked<T> {
    root: Link<T>,
    /// How many members were ever added: the source of their priorities.
    added: u64,
}

type Link<T> = Option<Box<Node<T>>>;

#[derive(Debug)]
struct Node<T> {
    member: T,
    priority: u64,
    /// How many members this branch has.
    size: usize,
    left: Link<T>,
    right: Link<T>,
}

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Self {
            root: None,
            added: 0,
        }
    }
}

impl<T: Ord> Ranked<T> {
    pub(super) fn len(&self) -> usize {
        size(&self.root)
    }

    /// Adds a member that is not there yet.
    pub(super) fn insert(&mut self, member: T) {
        self.added += 1;
        let node = Box::new(Node {
            member,
            priority: scrambled(self.added),
            size: 1,
            left: None,
            right: None,
        });
        self.root = Some(insert(self.root.take(), node));
    }

    /// Removes a member, if it is there.
    pub(super) fn remove(&mut self, member: &T) {
        self.root = remove(self.root.take(), member);
    }

    /// Removes the members of these ranks and gives them back.
    pub(super) fn remove_ranks(&mut self, ranks: &Range<usize>) -> Vec<T> {
        let (rest, after) = split_at(self.root.take(), ranks.end);
        let (before, out) = split_at(rest, ranks.start);
        self.root = merge(before, after);
        let mut members = Vec::with_capacity(size(&out));
        empty_into(out, &mut members);
        members
    }

    /// How many members stand first of which `before` is true; it must be true of a first part and of no other.
    pub(super) fn count_while(&self, before: impl Fn(&T) -> bool) -> usize {
        let (mut count, mut link) = (0, &self.root);
        while let Some(node) = link {
            link = if before(&node.member) {
                count += size(&node.left) + 1;
                &node.right
            } else {
                &node.left
            };
        }
        count
    }

    /// The members from a rank on.
    pub(super) fn iter_from(&self, rank: usize) -> impl Iterator<Item = &T> {
        let mut path = Vec::new();
        let (mut rank, mut link) = (rank, &self.root);
        while let Some(node) = link {
            let left = size(&node.left);
            if rank <= left {
                path.push(&**node);
                link = &node.left;
            } else {
                rank -= left + 1;
                link = &node.right;
            }
        }
        std::iter::from_fn(move || {
            let node = path.pop()?;
            let mut link = &node.right;
            while let Some(next) = link {
                path.push(&**next);
                link = &next.left;
            }
            Some(&node.member)
        })
    }
}

impl<T> Node<T> {
    fn recount(&mut self) {
        self.size = size(&self.left) + 1 + size(&self.right);
    }
}

fn size<T>(link: &Link<T>) -> usize {
    link.as_ref().map_or(0, |node| node.size)
}

fn insert<T: Ord>(link: Link<T>, mut node: Box<Node<T>>) -> Box<Node<T>> {
    let Some(mut here) = link else {
        return node;
    };
    if node.priority > here.priority {
        let (left, right) = split(Some(here), &node.member);
        node.left = left;
        node.right = right;
        node.recount();
        return node;
    }
    if node.member < here.member {
        here.left = Some(insert(here.left.take(), node));
    } else {
        here.right = Some(insert(here.right.take(), node));
    }
    here.recount();
    here
}

fn remove<T: Ord>(link: Link<T>, member: &T) -> Link<T> {
    let mut here = link?;
    match member.cmp(&here.member) {
        Ordering::Less => here.left = remove(here.left.take(), member),
        Ordering::Greater => here.right = remove(here.right.take(), member),
        Ordering::Equal => return merge(here.left, here.right),
    }
    here.recount();
    Some(here)
}

/// What comes before a member, and the rest.
fn split<T: Ord>(link: Link<T>, member: &T) -> (Link<T>, Link<T>) {
    let rank = {
        let (mut rank, mut link) = (0, &link);
        while let Some(node) = link {
            link = if node.member < *member {
                rank += size(&node.left) + 1;
                &node.right
            } else {
                &node.left
            };
        }
        rank
    };
    split_at(link, rank)
}

/// The first `rank` members, and the rest.
fn split_at<T>(link: Link<T>, rank: usize) -> (Link<T>, Link<T>) {
    let Some(mut here) = link else {
        return (None, None);
    };
    let left = size(&here.left);
    if rank <= left {
        let (before, after) = split_at(here.left.take(), rank);
        here.left = after;
        here.recount();
        (before, Some(here))
    } else {
        let (before, after) = split_at(here.right.take(), rank - left - 1);
        here.right = before;
        here.recount();
        (Some(here), after)
    }
}

/// Both, all of `left` first.
fn merge<T>(left: Link<T>, right: Link<T>) -> Link<T> {
    let (mut left, mut right) = match (left, right) {
        (Some(left), Some(right)) => (left, right),
        (left, right) => return left.or(right),
    };
    if left.priority > right.priority {
        left.right = merge(left.right.take(), Some(right));
        left.recount();
        Some(left)
    } else {
        right.left = merge(Some(left), right.left.take());
        right.recount();
        Some(right)
    }
}

fn empty_into<T>(link: Link<T>, members: &mut Vec<T>) {
    if let Some(node) = link {
        let node = *node;
        empty_into(node.left, members);
        members.push(node.member);
        empty_into(node.right, members);
    }
}

/// The finalizer of `splitmix64`: looks random, and is the same in every run.
fn scrambled(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn depth<T>(link: &Link<T>) -> usize {
        link.as_ref()
            .map_or(0, |node| 1 + depth(&node.left).max(depth(&node.right)))
    }

    #[test]
    fn members_and_ranks_are_those_of_a_sorted_list() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut ranked, mut model) = (Ranked::default(), BTreeSet::new());

        for _ in 0..20_000 {
            let member = random.u32(0..500);
            if random.u32(0..100) == 0 {
                let start = random.usize(0..=model.len());
                let end = random.usize(start..=model.len());
                let out: Vec<u32> = model
                    .iter()
                    .copied()
                    .skip(start)
                    .take(end - start)
                    .collect();
                model.retain(|member| !out.contains(member));
                assert_eq!(ranked.remove_ranks(&(start..end)), out);
            } else if model.remove(&member) {
                ranked.remove(&member);
            } else {
                model.insert(member);
                ranked.insert(member);
            }
            assert_eq!(ranked.len(), model.len());
            let rank = model.range(..member).count();
            assert_eq!(ranked.count_while(|other| *other < member), rank);
            assert!(ranked.iter_from(rank).eq(model.range(member..)));
        }
    }

    #[test]
    fn members_added_in_order_do_not_make_a_list() {
        let mut ranked = Ranked::default();
        for member in 0..100_000 {
            ranked.insert(member);
        }

        assert!(depth(&ranked.root) < 60, "{}", depth(&ranked.root));
    }

    #[test]
    fn a_member_that_is_not_there_is_not_removed() {
        let mut ranked = Ranked::default();
        ranked.insert(1);

        ranked.remove(&2);

        assert_eq!(ranked.len(), 1);
    }
}
