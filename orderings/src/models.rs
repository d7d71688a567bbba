//! All models: what must hold in every order of steps, and which planted faults make each of them fail.

mod bundle;
mod hold;
mod slot;
mod unlock_answer;

use crate::engine::redis::models as pulse;
use crate::fault::Fault;

/// A few threads and what must be true of them.
pub(crate) struct Model {
    /// A sentence.
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
    /// Each of these faults, if planted, must make the model fail.
    pub(crate) faults: &'static [Fault],
}

macro_rules! models {
    ($($place:ident :: $name:ident notices $($fault:ident),+;)*) => {
        pub(crate) const MODELS: &[Model] = &[$(
            Model {
                name: concat!(stringify!($place), "::", stringify!($name)),
                run: $place::$name,
                faults: &[$(Fault::$fault),+],
            }
        ),*];
    };
}

models! {
    slot::a_grant_wakes_the_caller notices LostWake;
    slot::a_grant_has_one_owner_when_its_caller_goes notices LateEar;
    slot::served_counts_from_when_it_was_made notices LateEar;
    unlock_answer::an_answer_wakes_the_unlock notices LostWake;
    unlock_answer::a_late_alarm_does_not_answer_the_next_wait notices LostWake;
    hold::a_renewal_that_is_seen_has_moved_the_deadline notices Relaxed;
    hold::the_end_of_a_renewal_shows_its_deadline notices Relaxed, LateEar, LostWake;
    hold::a_hold_ends_in_one_way notices Torn;
    hold::a_loss_wakes_the_caller_that_waits_for_it notices LostWake;
    hold::a_token_made_while_the_hold_ends_is_cancelled notices NoFence, Relaxed;
    hold::a_token_made_while_the_client_closes_is_cancelled notices NoFence, Relaxed;
    hold::one_renewal_at_a_time_waits_for_a_lane notices Relaxed;
    bundle::a_part_that_ends_while_its_bundle_is_made_ends_it notices NoFence, Relaxed;
    bundle::a_part_that_ends_while_it_joins_is_seen_by_the_next_look notices NoFence, Relaxed;
    bundle::a_token_made_while_a_part_ends_is_cancelled notices Unordered;
    bundle::of_two_parts_that_end_at_once_one_sees_the_other notices Unordered;
    bundle::a_loss_wakes_the_caller_that_waits_for_it notices LostWake;
    bundle::a_loss_stays_and_is_told_although_a_part_joins notices Forgotten;
    bundle::a_loss_and_a_release_are_both_told notices Forgotten;
    pulse::an_idle_connection_that_is_asked_is_not_silent notices Relaxed;
    pulse::a_caller_who_gives_up_leaves_the_silence_behind notices Relaxed;
}
