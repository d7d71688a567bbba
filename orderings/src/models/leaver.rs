//! Where an unlock waits for its answer.

use std::future::poll_fn;
use std::sync::Arc;

use loom::thread::spawn;

use crate::coordination::leaver::Leaver;
use crate::error::Error;
use crate::primitives::block_on;

pub(super) fn an_answer_wakes_the_unlock() {
    let leaver = Arc::new(Leaver::default());
    let release = {
        let leaver = leaver.clone();
        spawn(move || leaver.answer(Ok(1)))
    };

    let answer = block_on(poll_fn(|cx| leaver.poll(cx)));

    assert!(matches!(answer, Ok(1)), "{answer:?}");
    assert!(release.join().is_ok());
}

/// The keeper's alarm for the first wait rings while that is answered and the second one begins.
pub(super) fn a_late_alarm_does_not_answer_the_next_wait() {
    let leaver = Arc::new(Leaver::default());
    let turn = leaver.turn();
    let keeper = {
        let leaver = leaver.clone();
        spawn(move || leaver.answer_in(turn, Err(Error)))
    };
    leaver.answer(Ok(1));
    let _ = block_on(poll_fn(|cx| leaver.poll(cx)));
    leaver.again();
    let release = {
        let leaver = leaver.clone();
        spawn(move || leaver.answer(Ok(2)))
    };

    let answer = block_on(poll_fn(|cx| leaver.poll(cx)));

    assert!(matches!(answer, Ok(2)), "{answer:?}");
    assert!(!leaver.is_waiting(turn));
    assert!(keeper.join().is_ok() && release.join().is_ok());
}
