//! Members in the order of their scores.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use super::{Collection, Data};

/// Members in the order of their scores; those of one score in the order of their bytes.
///
/// `order` and `scores` hold the same members. No score is NaN.
#[derive(Debug, Default)]
pub(in super::super::super) struct SortedSet {
    scores: BTreeMap<Arc<[u8]>, f64>,
    /// Sorted: a rank is an index, and the ends, where queues change, cost least.
    order: VecDeque<ScoredMember>,
}

#[derive(Debug)]
struct ScoredMember {
    score: f64,
    member: Arc<[u8]>,
}

impl Ord for ScoredMember {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.partial_cmp(&other.score);
        let by_score = by_score.unwrap_or(Ordering::Equal);
        by_score.then_with(|| self.member.cmp(&other.member))
    }
}

impl PartialOrd for ScoredMember {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScoredMember {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for ScoredMember {}

/// An end of a range of scores.
#[derive(Clone, Copy, Debug)]
pub(in super::super::super) struct Bound {
    pub(in super::super::super) score: f64,
    /// Members with exactly that score are not in the range.
    pub(in super::super::super) is_open: bool,
}

impl SortedSet {
    pub(in super::super::super) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(in super::super::super) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).copied()
    }

    /// How many members come before this one.
    pub(in super::super::super) fn rank(&self, member: &[u8]) -> Option<usize> {
        let (member, &score) = self.scores.get_key_value(member)?;
        let place = ScoredMember {
            score,
            member: member.clone(),
        };
        self.order.binary_search(&place).ok()
    }

    /// Adds a member, or gives one a new score.
    pub(in super::super::super) fn set(&mut self, member: &[u8], score: f64) {
        debug_assert!(!score.is_nan());
        // The servers' small sets have no negative zero.
        let score = score + 0.0;
        self.remove(member);
        let member = Arc::<[u8]>::from(member);
        self.scores.insert(member.clone(), score);
        let place = ScoredMember { score, member };
        let rank = self.order.partition_point(|other| *other < place);
        self.order.insert(rank, place);
    }

    /// Removes a member; returns whether it was there.
    pub(in super::super::super) fn remove(&mut self, member: &[u8]) -> bool {
        let Some((member, score)) = self.scores.remove_entry(member) else {
            return false;
        };
        if let Ok(rank) = self.order.binary_search(&ScoredMember { score, member }) {
            self.order.remove(rank);
        }
        debug_assert_eq!(self.order.len(), self.scores.len());
        true
    }

    /// The ranks of the members whose scores lie between two bounds.
    pub(in super::super::super) fn ranks_between(&self, min: Bound, max: Bound) -> Range<usize> {
        let start = self.order.partition_point(|place| {
            place.score < min.score || (min.is_open && place.score == min.score)
        });
        let end = self.order.partition_point(|place| {
            place.score < max.score || (!max.is_open && place.score == max.score)
        });
        start..end.max(start)
    }

    /// Members with their scores from a rank on, the lowest first.
    pub(in super::super::super) fn iter_from(
        &self,
        rank: usize,
    ) -> impl Iterator<Item = (&[u8], f64)> {
        self.order
            .iter()
            .skip(rank)
            .map(|place| (&*place.member, place.score))
    }

    /// Removes the members of these ranks and returns them.
    pub(in super::super::super) fn remove_ranks(
        &mut self,
        ranks: &Range<usize>,
    ) -> Vec<(Arc<[u8]>, f64)> {
        let end = ranks.end.min(self.order.len());
        let out = self.order.drain(ranks.start.min(end)..end);
        let out: Vec<_> = out.map(|place| (place.member, place.score)).collect();
        for (member, _) in &out {
            self.scores.remove(member);
        }
        debug_assert_eq!(self.order.len(), self.scores.len());
        out
    }
}

impl Collection for SortedSet {
    fn of(data: &Data) -> Option<&Self> {
        match data {
            Data::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn of_mut(data: &mut Data) -> Option<&mut Self> {
        match data {
            Data::SortedSet(set) => Some(set),
            _ => None,
        }
    }

    fn into_data(self) -> Data {
        Data::SortedSet(self)
    }

    fn is_empty(&self) -> bool {
        self.scores.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_scores_and_ranks_are_those_of_a_list_that_is_sorted_anew_each_time() {
        let mut random = fastrand::Rng::with_seed(7);
        let (mut set, mut model) = (SortedSet::default(), Vec::<(f64, Vec<u8>)>::new());

        for _ in 0..20_000 {
            let (member, score) = (vec![random.u8(0..200)], f64::from(random.u8(0..20)));
            let was_there = model.iter().any(|(_, other)| *other == member);
            match random.u8(0..100) {
                0 => {
                    let (start, end) = (random.usize(0..=200), random.usize(0..=200));
                    let start = start.min(model.len());
                    let ranks = start..end.clamp(start, model.len());
                    let gone: Vec<_> = model.drain(ranks.clone()).collect();
                    let removed = set.remove_ranks(&ranks).into_iter();
                    assert!(
                        removed
                            .map(|(member, score)| (score, member.to_vec()))
                            .eq(gone)
                    );
                }
                1..50 => {
                    model.retain(|(_, other)| *other != member);
                    assert_eq!(set.remove(&member), was_there);
                }
                _ => {
                    model.retain(|(_, other)| *other != member);
                    model.push((score, member.clone()));
                    model.sort_by(|a, b| a.partial_cmp(b).unwrap());
                    set.set(&member, score);
                }
            }
            let rank = model.iter().position(|(_, other)| *other == member);
            assert_eq!(set.rank(&member), rank);
            let members = set.iter_from(0);
            assert!(
                members
                    .map(|(member, score)| (score, member.to_vec()))
                    .eq(model.clone())
            );
        }
    }
}
