//! Which stories do not run for which kind of lock, and why.
//!
//! Every other story that is listed for every kind runs for every kind.

use super::kinds::LockKind::{
    self, Any, Fenced, Mixed, Multi, Preferred, Quorum, Read, Spin, Write,
};

/// Kinds of lock, stories that are not true of them, and the reason.
pub(crate) type Row = (&'static [LockKind], &'static [&'static str], &'static str);

pub(crate) const LEFT_OUT: &[Row] = &[
    (
        &[
            Fenced, Spin, Read, Write, Preferred, Multi, Mixed, Quorum, Any,
        ],
        &[
            "a_second_acquisition_of_a_non_reentrant_owner_changes_nothing",
            "non_reentrant_excludes_other_owners",
            "a_non_reentrant_waiter_fails_when_another_call_of_its_owner_gets_in",
        ],
        "it has no form that is not reentrant",
    ),
    (
        &[Multi, Mixed, Any],
        &[
            "a_holder_without_a_label_is_shown_without_details",
            "a_holder_with_a_label_is_shown_with_host_process_and_time",
            "no_number_is_used_for_two_tenures",
        ],
        "its guards do not say whose they are",
    ),
    (
        &[Multi, Quorum],
        &[
            "a_future_polled_once_and_kept_blocks_no_other_caller",
            "an_offer_that_is_taken_in_time_is_a_hold_like_any_other",
        ],
        "it is taken in several steps, and a future that is not polled makes no step: nothing is offered to it",
    ),
    (
        &[Read],
        &[
            "unlock_after_does_not_harm_a_reentry_made_meanwhile",
            "unlock_after_keeps_the_name_taken_until_the_delay_is_over",
            "no_number_is_used_for_two_tenures",
            "a_scope_does_not_reach_into_spawned_tasks",
            "tasks_with_fresh_owners_never_share",
            "all_waiters_of_an_owner_go_in_with_its_first_grant",
            "three_hundred_waiters_of_one_name_are_served_one_after_the_other",
            "a_future_polled_once_and_kept_blocks_no_other_caller",
        ],
        "other readers of the client share it",
    ),
    (
        &[Quorum],
        &["a_future_polled_once_on_a_free_name_blocks_no_other_caller"],
        "a future that is not polled for as long as its nodes may take for their answers fails with NoQuorum",
    ),
    (
        &[Read],
        &["two_tries_of_one_owner_at_once_both_get_in"],
        "both get in, and each has a hold of its own: readers that come at once do not wait for each other",
    ),
];

/// Why the story does not run for that kind; `None`: it runs.
pub(crate) fn why(story: &str, kind: LockKind) -> Option<&'static str> {
    let is_it = |row: &&Row| row.0.contains(&kind) && row.1.contains(&story);
    LEFT_OUT.iter().find(is_it).map(|row| row.2)
}
