//! A hold: its status, its deadline, and the waits for its changes.

use std::sync::Arc;
use std::time::Duration;

use loom::thread::spawn;

use crate::coordination::Tenure;
use crate::coordination::holding::hold::{Hold, Status};
use crate::engine::{Lane, Tick};
use crate::error::LostReason;
use crate::options::Terms;
use crate::primitives::{AtomicUsize, Ordering, block_on};

const LEASE: Duration = Duration::from_nanos(10);
const BEYOND: Tick = Tick::from_nanos(15);

/// Granted for 10 ns, at the only time that the clock of the models shows.
pub(super) fn hold() -> Arc<Hold> {
    let sent = Tick::from_nanos(0);
    Hold::new(
        Arc::new(Tenure::default()),
        Terms::default(),
        None,
        sent,
        LEASE,
    )
}

/// Only a confirmed renewal makes an uncertain hold certain.
pub(super) fn a_renewal_that_is_seen_has_moved_the_deadline() {
    let hold = hold();
    hold.doubt();
    let keeper = {
        let hold = hold.clone();
        spawn(move || hold.renewed(&Terms::default(), Tick::from_nanos(0), 2 * LEASE))
    };

    if hold.doubt() {
        assert!(hold.is_good(BEYOND), "certain, with the old deadline");
    }

    assert!(keeper.join().is_ok());
}

pub(super) fn the_end_of_a_renewal_shows_its_deadline() {
    let hold = hold();
    hold.renewal_begins();
    let keeper = {
        let hold = hold.clone();
        spawn(move || {
            hold.renewed(&Terms::default(), Tick::from_nanos(0), 2 * LEASE);
            hold.renewal_ends();
        })
    };

    block_on(hold.renewal_ended(LEASE));

    assert!(hold.is_good(BEYOND), "ended, with the old deadline");
    assert!(keeper.join().is_ok());
}

pub(super) fn a_hold_ends_in_one_way() {
    let hold = hold();
    let keeper = {
        let hold = hold.clone();
        spawn(move || hold.lose(LostReason::Removed))
    };

    let was_released = hold.release(Tick::from_nanos(0)) == Status::Held;

    let Ok(was_lost) = keeper.join() else { return };
    assert!(was_lost != was_released, "{was_lost} {was_released}");
    assert_eq!(hold.is_released(), was_released);
}

pub(super) fn a_loss_wakes_the_caller_that_waits_for_it() {
    let hold = hold();
    let keeper = {
        let hold = hold.clone();
        spawn(move || assert!(hold.lose(LostReason::Removed)))
    };

    assert_eq!(block_on(hold.lost()), LostReason::Removed);

    assert!(keeper.join().is_ok());
}

/// One thread sets the status and then looks for a token, the other makes the token and then reads the status.
pub(super) fn a_token_made_while_the_hold_ends_is_cancelled() {
    let hold = hold();
    let keeper = {
        let hold = hold.clone();
        spawn(move || assert!(hold.lose(LostReason::Removed)))
    };

    let token = hold.token();

    assert!(keeper.join().is_ok());
    assert!(token.is_cancelled(), "a loss that the token does not tell");
}

pub(super) fn a_token_made_while_the_client_closes_is_cancelled() {
    let hold = hold();
    let closing = {
        let hold = hold.clone();
        spawn(move || {
            hold.tenure.core.close();
            hold.warn();
        })
    };

    let token = hold.token();

    assert!(closing.join().is_ok());
    assert!(token.is_cancelled(), "an end that the token does not tell");
}

/// The next renewal sees what the first one has written.
pub(super) fn one_renewal_at_a_time_waits_for_a_lane() {
    let (hold, sent) = (hold(), Arc::new(AtomicUsize::new(0)));
    let renews = |hold: Arc<Hold>, sent: Arc<AtomicUsize>| {
        let Some(_waits) = hold.wait_for_connection(Lane::Keeper) else {
            return 0;
        };
        let before = sent.load(Ordering::Relaxed);
        sent.store(before + 1, Ordering::Relaxed);
        1
    };
    let other = {
        let (hold, sent) = (hold.clone(), sent.clone());
        spawn(move || renews(hold, sent))
    };

    let ours = renews(hold, sent.clone());

    let Ok(theirs) = other.join() else { return };
    assert_eq!(sent.load(Ordering::Relaxed), ours + theirs);
}
