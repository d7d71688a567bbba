//! Where an `unlock` waits for its answer.

use std::sync::Mutex;
use std::task::{Context, Poll, Waker};

use super::unpoisoned;
use crate::error::Result;

/// In each hold; the first answer counts.
#[derive(Debug)]
pub(crate) struct Leaver {
    state: Mutex<Leaving>,
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

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*unpoisoned(&self.state), Leaving::Waiting(_))
    }

    /// It was answered, and waits for something else.
    pub(crate) fn again(&self) {
        *unpoisoned(&self.state) = Leaving::Waiting(None);
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
