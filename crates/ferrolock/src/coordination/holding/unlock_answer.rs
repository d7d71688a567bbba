//! Where an `unlock` waits for its answer.

use std::task::{Context, Poll, Waker};

use crate::coordination::{safely, unpoisoned};
use crate::error::Result;
use crate::primitives::{AtomicU32, Mutex, MutexGuard, Ordering};

/// One in each hold; the first answer counts.
#[derive(Debug)]
pub(crate) struct UnlockAnswer {
    state: Mutex<Leaving>,
    /// The number of the wait: how often it has waited before.
    turn: AtomicU32,
}

#[derive(Debug)]
enum Leaving {
    Waiting(Option<Waker>),
    Answered(Result<u32>),
    Over,
}

impl Default for UnlockAnswer {
    fn default() -> Self {
        Self {
            state: Mutex::new(Leaving::Waiting(None)),
            turn: AtomicU32::new(0),
        }
    }
}

impl UnlockAnswer {
    pub(crate) fn answer(&self, answer: Result<u32>) {
        tell(unpoisoned(&self.state), answer);
    }

    /// Answers the wait with that number only. False: it is over, and another may have begun.
    pub(crate) fn answer_in(&self, turn: u32, answer: Result<u32>) -> bool {
        let state = unpoisoned(&self.state);
        self.turn() == turn && tell(state, answer)
    }

    /// The number of this wait.
    pub(crate) fn turn(&self) -> u32 {
        // `Relaxed` is enough: only the unlock that waits changes it, under the lock. That unlock sees its own change, and
        // all other threads read it under the lock.
        self.turn.load(Ordering::Relaxed)
    }

    /// Whether that wait goes on.
    pub(crate) fn is_waiting(&self, turn: u32) -> bool {
        let state = unpoisoned(&self.state);
        self.turn() == turn && matches!(*state, Leaving::Waiting(_))
    }

    /// It was answered, and waits for something else.
    pub(crate) fn again(&self) {
        // The lock orders the number and the state: `answer_in` and `is_waiting` never see one without the other.
        let mut state = unpoisoned(&self.state);
        self.turn.fetch_add(1, Ordering::Relaxed);
        *state = Leaving::Waiting(None);
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<u32>> {
        // Cloned before the lock, and what it replaces dropped after it: a waker is foreign code.
        let mut ours = Some(cx.waker().clone());
        let mut state = unpoisoned(&self.state);
        if let Leaving::Waiting(waker) = &mut *state {
            std::mem::swap(waker, &mut ours);
            drop(state);
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, Leaving::Over) {
            Leaving::Answered(answer) => Poll::Ready(answer),
            Leaving::Waiting(_) | Leaving::Over => Poll::Pending,
        }
    }
}

/// Unlocks before it wakes: a waker is foreign code. False: no unlock waits.
fn tell(mut state: MutexGuard<'_, Leaving>, answer: Result<u32>) -> bool {
    let Leaving::Waiting(waker) = &mut *state else {
        return false;
    };
    let waker = waker.take();
    *state = Leaving::Answered(answer);
    drop(state);
    safely(|| waker.into_iter().for_each(Waker::wake));
    true
}
