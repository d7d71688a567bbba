//! The steps of the spin lock that end differently.

use super::{Difference, Ours, ms, no_guard, row};

const LEASES: &str = "spin-reentry-and-leases";

pub(super) const DIFFERENCES: &[Difference] = &[
    no_guard(LEASES, 5),
    no_guard("spin-busy", 3),
    // Neither a re-entry nor a partial unlock cuts the lease of the outer hold.
    row(LEASES, 2, "W15", Ours::Lease(ms(20_000))),
    row(LEASES, 3, "W15", Ours::Lease(ms(20_000))),
];
