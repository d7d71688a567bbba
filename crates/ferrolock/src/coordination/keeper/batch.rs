//! Which renewals go out together: at the same time, and in one call.
//!
//! Without I/O and clock. A call for each hold would cost the server seven times as much as one call for a hundred.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use crate::coordination::keeper::watch::Renewal;
use crate::engine::{Lane, Tick};

/// More rows hardly save anything, and a server is busy with one call at a time.
const ROWS_MAX: usize = 100;

/// Points of time a tenth of an interval apart, where holds with that interval meet. The offset is the keeper's own:
/// processes do not renew at the same moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    /// Times are counted from here, so that a seed repeats them.
    begun: Tick,
    offset: u64,
}

impl Grid {
    pub(super) fn new(begun: Tick, offset: u64) -> Self {
        Self { begun, offset }
    }

    /// When to renew a hold whose last lease was asked for at `sent` and that is renewed every `every`: at the last point of
    /// the grid that is not too late.
    pub(super) fn after(self, sent: Tick, every: Duration) -> Tick {
        let latest = sent.after(every);
        let step = (every.as_nanos() / 10).max(1);
        let past = (latest.since(self.begun).as_nanos() + u128::from(self.offset)) % step;
        latest.before(Duration::from_nanos(u64::try_from(past).unwrap_or(0)))
    }
}

/// Renewals that go out in one call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch<H> {
    pub(super) lane: Lane,
    pub(super) rows: Vec<Renewal<H>>,
}

/// Puts renewals of the same group (a client, and the shape of its rows) and the same lane together, in the order of `due`.
pub(super) fn collect<H, G: Eq + Hash>(
    due: Vec<Renewal<H>>,
    group: impl Fn(&H) -> G,
) -> Vec<Batch<H>> {
    let mut batches: Vec<Batch<H>> = Vec::new();
    let mut open = HashMap::new();
    for renewal in due {
        let lane = lane_of(&renewal);
        if renewal.alone {
            let rows = vec![renewal];
            batches.push(Batch { lane, rows });
            continue;
        }
        let place = open
            .entry((group(&renewal.hold), lane))
            .or_insert(batches.len());
        match batches.get_mut(*place) {
            Some(batch) if batch.rows.len() < ROWS_MAX => batch.rows.push(renewal),
            _ => {
                *place = batches.len();
                let rows = vec![renewal];
                batches.push(Batch { lane, rows });
            }
        }
    }
    batches
}

/// Every other try after trouble goes over the other connection.
fn lane_of<H>(renewal: &Renewal<H>) -> Lane {
    match renewal.troubles % 2 {
        0 => Lane::Keeper,
        _ => Lane::KeeperSpare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renewal(id: u64, client: &'static str) -> Renewal<&'static str> {
        Renewal {
            id,
            hold: client,
            troubles: 0,
            alone: false,
        }
    }

    /// The lane and the ids of each batch.
    fn collected(due: Vec<Renewal<&'static str>>) -> Vec<(Lane, Vec<u64>)> {
        let ids = |batch: Batch<_>| batch.rows.iter().map(|row| row.id).collect();
        collect(due, |client| *client)
            .into_iter()
            .map(|batch| (batch.lane, ids(batch)))
            .collect()
    }

    #[test]
    fn a_batch_has_at_most_a_hundred_rows() {
        let due = (0..250).map(|id| renewal(id, "a")).collect();

        let sizes: Vec<usize> = collected(due).iter().map(|(_, ids)| ids.len()).collect();

        assert_eq!(sizes, [100, 100, 50]);
    }

    #[test]
    fn each_client_and_each_lane_has_its_own_batch() {
        let again = |id, troubles| Renewal {
            troubles,
            ..renewal(id, "a")
        };
        let due = vec![
            renewal(1, "a"),
            renewal(2, "b"),
            again(3, 1),
            renewal(4, "a"),
            again(5, 2),
            again(6, 3),
            renewal(7, "b"),
        ];

        assert_eq!(
            collected(due),
            [
                (Lane::Keeper, vec![1, 4, 5]),
                (Lane::Keeper, vec![2, 7]),
                (Lane::KeeperSpare, vec![3, 6]),
            ]
        );
    }

    #[test]
    fn a_renewal_that_goes_alone_shares_no_call_and_does_not_split_the_others() {
        let alone = |id| Renewal {
            alone: true,
            ..renewal(id, "a")
        };

        let due = vec![alone(1), renewal(2, "a"), alone(3), renewal(4, "a")];

        let batches: Vec<_> = collected(due).into_iter().map(|(_, ids)| ids).collect();
        assert_eq!(batches, [vec![1], vec![2, 4], vec![3]]);
    }

    #[test]
    fn a_renewal_comes_after_nine_tenths_of_the_interval_and_not_after_the_whole() {
        for offset in [0, 1, 123_456_789_012, u64::MAX] {
            let grid = Grid::new(Tick::from_nanos(999), offset);
            for every_ms in [67, 800, 10_000, 1_200_000] {
                let every = Duration::from_millis(every_ms);
                for sent in [0, 1, 999_999, 5_000_000_000, 1 << 60].map(Tick::from_nanos) {
                    let waits = grid.after(sent, every).since(sent);
                    assert!(waits <= every, "{waits:?} of {every:?}");
                    assert!(waits > every.mul_f64(0.9), "{waits:?} of {every:?}");
                }
            }
        }
    }

    /// Holds whose leases were asked for within one step are renewed at the same moment, and stay together.
    #[test]
    fn holds_with_the_same_interval_meet() {
        let (grid, every) = (Grid::new(Tick::ZERO, 7_777_777), Duration::from_secs(10));
        let step = every / 10;
        let first = grid.after(Tick::from_nanos(1_000_000_000), every);

        for late in [0, 1, 500_000_000, 999_999_999].map(Duration::from_nanos) {
            let sent = first.after(late);
            assert_eq!(grid.after(sent, every), first.after(every), "{late:?}");
        }
        assert_eq!(
            grid.after(first.after(step), every),
            first.after(every + step)
        );
    }

    #[test]
    fn an_interval_without_end_and_one_without_length_have_a_time_too() {
        let grid = Grid::new(Tick::ZERO, u64::MAX);

        assert!(grid.after(Tick::ZERO, Duration::MAX) > Tick::ZERO);
        assert_eq!(grid.after(Tick::ZERO, Duration::ZERO), Tick::ZERO);
    }
}
