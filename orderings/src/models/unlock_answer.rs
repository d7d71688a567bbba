//! Where an unlock waits for its answer.

use std::future::poll_fn;
use std::sync::Arc;

use loom::thread::spawn;

use crate::coordination::holding::unlock_answer::UnlockAnswer;
use crate::error::Error;
use crate::primitives::block_on;

pub(super) fn an_answer_wakes_the_unlock() {
    let unlock_answer = Arc::new(UnlockAnswer::default());
    let release = {
        let unlock_answer = unlock_answer.clone();
        spawn(move || unlock_answer.answer(Ok(1)))
    };

    let answer = block_on(poll_fn(|cx| unlock_answer.poll(cx)));

    assert!(matches!(answer, Ok(1)), "{answer:?}");
    assert!(release.join().is_ok());
}

/// The keeper's alarm for the first wait rings while that is answered and the second one begins.
pub(super) fn a_late_alarm_does_not_answer_the_next_wait() {
    let unlock_answer = Arc::new(UnlockAnswer::default());
    let turn = unlock_answer.turn();
    let keeper = {
        let unlock_answer = unlock_answer.clone();
        spawn(move || unlock_answer.answer_in(turn, Err(Error)))
    };
    unlock_answer.answer(Ok(1));
    let _ = block_on(poll_fn(|cx| unlock_answer.poll(cx)));
    unlock_answer.again();
    let release = {
        let unlock_answer = unlock_answer.clone();
        spawn(move || unlock_answer.answer(Ok(2)))
    };

    let answer = block_on(poll_fn(|cx| unlock_answer.poll(cx)));

    assert!(matches!(answer, Ok(2)), "{answer:?}");
    assert!(!unlock_answer.is_waiting(turn));
    assert!(keeper.join().is_ok() && release.join().is_ok());
}
