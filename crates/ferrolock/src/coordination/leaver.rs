//! Where an `unlock` waits for its answer.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};

use super::unpoisoned;
use crate::error::Result;

/// In each hold; the first answer counts.
#[derive(Debug)]
pub(crate) struct Leaver {
    state: Mutex<Leaving>,
    /// How often it has waited.
    turn: AtomicU32,
}

#[derive(Debug)]
enum Leaving {
    Waiting(Option<Waker>),
    Answered(Result<u32>),
    Over,
}

impl Default for Leaver {
    fn default() -> Self {
        Self {
            state: Mutex::new(Leaving::Waiting(None)),
            turn: AtomicU32::new(0),
        }
    }
}

impl Leaver {
    pub(crate) fn answer(&self, answer: Result<u32>) {
        let mut state = unpoisoned(&self.state);
        let Leaving::Waiting(waker) = &mut *state else {
            return;
        };
        let waker = waker.take();
        *state = Leaving::Answered(answer);
        drop(state);
        waker.inspect(Waker::wake_by_ref);
    }

    /// Which wait this is.
    pub(crate) fn turn(&self) -> u32 {
        self.turn.load(Ordering::Acquire)
    }

    /// Whether that wait goes on.
    pub(crate) fn is_waiting(&self, turn: u32) -> bool {
        let state = unpoisoned(&self.state);
        self.turn() == turn && matches!(*state, Leaving::Waiting(_))
    }

    /// It was answered, and waits for something else.
    pub(crate) fn again(&self) {
        let mut state = unpoisoned(&self.state);
        self.turn.fetch_add(1, Ordering::AcqRel);
        *state = Leaving::Waiting(None);
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<u32>> {
        let mut state = unpoisoned(&self.state);
        if let Leaving::Waiting(waker) = &mut *state {
            *waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, Leaving::Over) {
            Leaving::Answered(answer) => Poll::Ready(answer),
            Leaving::Waiting(_) | Leaving::Over => Poll::Pending,
        }
    }
}
