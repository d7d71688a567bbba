//! Which stories do not run for which kind of lock, and why.
//!
//! Every other story that is listed for every kind runs for every kind.

use super::kinds::LockKind::{self, Any, Fenced, Spin};

/// A story, the kinds of lock that it is not true of, and the reason.
pub(crate) type Row = (&'static str, &'static [LockKind], &'static str);

pub(crate) const LEFT_OUT: &[Row] = &[
    (
        "a_second_acquisition_of_a_non_reentrant_owner_changes_nothing",
        &[Fenced, Spin, Any],
        "it has no form that is not reentrant",
    ),
    (
        "non_reentrant_excludes_other_owners",
        &[Fenced, Spin, Any],
        "it has no form that is not reentrant",
    ),
    (
        "a_non_reentrant_waiter_fails_when_another_call_of_its_owner_gets_in",
        &[Fenced, Spin, Any],
        "it has no form that is not reentrant",
    ),
    (
        "a_holder_without_a_label_is_shown_without_details",
        &[Any],
        "its guards do not say whose they are",
    ),
    (
        "a_holder_with_a_label_is_shown_with_host_process_and_time",
        &[Any],
        "its guards do not say whose they are",
    ),
    (
        "no_number_is_used_for_two_tenures",
        &[Any],
        "its guards do not say whose they are",
    ),
];

/// Why the story does not run for that kind; `None`: it runs.
pub(crate) fn why(story: &str, kind: LockKind) -> Option<&'static str> {
    let is_it = |row: &&Row| row.0 == story && row.1.contains(&kind);
    LEFT_OUT.iter().find(is_it).map(|row| row.2)
}
