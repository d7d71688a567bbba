//! The fair lock: who comes first is served first, across clients and processes, and the dead are skipped.
//!
//! The traps that were found when it was designed, and the test that shows each. `scripts` is `engine/embedded/tests/fair_scripts`,
//! `heads`, `waiters` and `lies` are `coordination/fair_heads_tests`, `fair_tests` and `fair_lies_tests`, `places` is
//! `coordination/waiting/driver/places_tests`.
//!
//! | trap | shown by |
//! |---|---|
//! | F1 short deadlines, which Redisson's grants use up | `scripts/random_lines`, `scripts/foreign_waiters`: `a_deadline_has_a_whole_wait_of_redisson_for_each_foreign_waiter` |
//! | F2 Redisson's give-ups lower all later deadlines by 300 s | the same |
//! | F3 after a server that stood still every process seems dead | `scripts/dead_waiters`: `a_server_that_stood_still_makes_no_waiter_dead`, `a_server_clock_that_was_set_back_makes_no_waiter_dead`; `servers.rs`: `a_server_that_stood_still_keeps_the_queue` |
//! | F4 an entry without a deadline, or with one in 1970 | `scripts/random_lines`: `no_waiter_of_ours_is_evicted_or_overtaken_whatever_redisson_subtracts`; `scripts`: `a_waiter_that_leaves_is_gone_and_the_next_is_told_if_it_was_its_turn` |
//! | F5 a deadline without an end, which the next waiter of Redisson inherits | `scripts/random_lines` |
//! | F6 budgets that add up on a dead head of Redisson | `scripts/foreign_waiters`: `a_foreign_head_is_kept_no_longer_than_redisson_would_and_never_less` |
//! | F7 a late wake, answered by leaving, frees the lock of its holder | `waiters`: `a_late_wake_for_a_waiter_that_holds_is_ignored` |
//! | F8 a local line in another order than the server's | `places`: `the_front_of_the_line_is_the_first_in_the_servers_queue` |
//! | F9 a newcomer or a new front that uses up a wake | `places`: `a_newcomer_does_not_use_up_the_attempt_of_a_waiter_that_was_woken`, `a_waiter_that_is_named_goes_before_newcomers` |
//! | F10 a cancelled waiter whose leave was lost, kept alive by its process | `waiters`: `an_entry_of_this_client_that_no_call_knows_is_left_when_it_is_woken_or_at_the_head`; `lies` |
//! | F11 a head of Redisson that gave up after its wake | `heads`: `behind_a_foreign_head_a_free_lock_is_asked_for_no_more_than_three_times_a_second` |
//! | F12 an end of the queue's keys while Redisson waits | `scripts/foreign_waiters`: `the_queue_has_an_end_only_while_all_waiters_are_ours` |
//! | F13 a client's clock | `heads`: `no_call_of_a_waiting_and_holding_client_has_its_own_time`; `scripts`: `no_call_has_a_time_of_day` |
//! | F14 waiters that Redisson evicted and our key still counts | `scripts/foreign_waiters`: `waiters_that_redisson_evicted_are_forgotten_by_and_by` |
//! | F15 a newcomer as a sign of life | `scripts/dead_waiters`: `only_the_first_waiter_of_a_client_is_a_sign_of_life` |
#![allow(missing_docs, reason = "test code")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "test code: a failure ends the test, and real servers live in real time"
)]
#![cfg(all(feature = "redis", feature = "embedded"))]

#[macro_use]
#[path = "../stage/mod.rs"]
mod stage;

mod crowd;
mod deaths;
mod order;
mod servers;
mod support;

testkit::roles![crowd::member, support::waiter];
