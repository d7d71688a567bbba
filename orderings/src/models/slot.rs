//! The slot in which a caller waits for a grant.

use std::future::poll_fn;
use std::sync::Arc;

use loom::thread::spawn;

use crate::coordination::waiting::slot::{Found, Slot};
use crate::models::hold::hold;
use crate::primitives::block_on;

pub(super) fn a_grant_wakes_the_caller() {
    let slot = Arc::new(Slot::new());
    let driver = {
        let slot = slot.clone();
        spawn(move || assert!(slot.offer(hold()).is_ok()))
    };

    let found = block_on(poll_fn(|cx| slot.poll(cx)));

    assert!(matches!(found, Found::Granted(_)), "{found:?}");
    assert!(driver.join().is_ok());
}

/// The driver is also woken when no caller waits in the slot.
pub(super) fn a_grant_has_one_owner_when_its_caller_goes() {
    let slot = Arc::new(Slot::new());
    let caller = {
        let slot = slot.clone();
        spawn(move || slot.abandon().is_some())
    };

    block_on(slot.served());
    let came_back = slot.offer(hold()).is_err() || slot.withdraw().is_some();

    let Ok(was_left) = caller.join() else { return };
    assert!(came_back != was_left, "{came_back} {was_left}");
}

/// A caller that was made to start over waits again before the driver first polls `served`.
pub(super) fn served_counts_from_when_it_was_made() {
    let slot = Arc::new(Slot::new());
    let served = slot.served();
    let other = {
        let slot = slot.clone();
        spawn(move || {
            slot.start_over();
            let found = block_on(poll_fn(|cx| slot.poll(cx)));
            assert!(matches!(found, Found::Withdrawn), "{found:?}");
        })
    };

    block_on(served);

    assert!(other.join().is_ok());
}
