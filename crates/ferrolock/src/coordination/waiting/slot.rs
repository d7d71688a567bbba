//! Where a caller's future waits.
//!
//! ```text
//! Waiting ──offer──▶ Offered ──polled──▶ Over (the caller has a guard)
//!    │  ▲               │
//!    │  └───polled──┐   └──1 s or a third of the lease──▶ Withdrawn
//!    │              └────────────────────────────────────────┘   (the caller waits again, at the front)
//!    └──answer──▶ Answered (busy, or an error) ──polled──▶ Over
//! dropped in any state ──▶ Over; an offered hold is given back
//! ```

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::coordination::holding::hold::Hold;
use crate::coordination::{safely, unpoisoned};
use crate::error::Error;
use crate::primitives::{Mutex, Notify};

/// Shared by the caller's future and the task that makes its attempts.
#[derive(Debug)]
pub(crate) struct Slot {
    state: Mutex<State>,
    /// Notified when the caller no longer waits: no attempt or re-entry is needed for it.
    served: Notify,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    Offered(Arc<Hold>),
    Withdrawn,
    Answered(Answer),
    /// The caller has its answer, or has gone.
    Over,
}

/// What a caller gets instead of a hold.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// Busy, for a caller that does not want an error for it.
    Busy,
    Failed(Error),
}

/// What a caller's poll finds.
#[derive(Debug)]
pub(crate) enum Found {
    Granted(Arc<Hold>),
    /// An offer was taken back, or the way it waited on has ended: the caller waits again, at the front.
    Withdrawn,
    Answered(Answer),
}

impl Slot {
    pub(crate) fn new() -> Slot {
        Slot {
            state: Mutex::new(State::Waiting(None)),
            served: Notify::new(),
        }
    }

    /// Offers a grant. `Err`: the caller has gone, or has another answer.
    pub(crate) fn offer(&self, hold: Arc<Hold>) -> Result<(), Arc<Hold>> {
        if self.serve(State::Offered(hold.clone())) {
            Ok(())
        } else {
            Err(hold)
        }
    }

    /// Gives the caller its final answer, unless it has one.
    pub(crate) fn answer(&self, answer: Answer) {
        self.serve(State::Answered(answer));
    }

    /// The way it waited on (a re-entry, say) has ended: the caller begins anew, as after an offer that was taken back.
    pub(crate) fn start_over(&self) {
        self.serve(State::Withdrawn);
    }

    /// The caller took the offered hold and could not use it: it waits again.
    pub(crate) fn wait_again(&self) {
        *unpoisoned(&self.state) = State::Waiting(None);
    }

    /// Sets the next state and wakes the caller. False: the caller does not wait, and nothing is changed.
    fn serve(&self, next: State) -> bool {
        let mut state = unpoisoned(&self.state);
        let State::Waiting(waker) = &mut *state else {
            return false;
        };
        let waker = waker.take();
        *state = next;
        drop(state);
        self.served.notify_waiters();
        safely(|| waker.into_iter().for_each(Waker::wake));
        true
    }

    /// Takes an offer back that the caller did not come for. `None`: there is no offer.
    pub(crate) fn withdraw(&self) -> Option<Arc<Hold>> {
        let mut state = unpoisoned(&self.state);
        if !matches!(*state, State::Offered(_)) {
            return None;
        }
        match std::mem::replace(&mut *state, State::Withdrawn) {
            State::Offered(hold) => Some(hold),
            _ => None,
        }
    }

    /// The caller goes. Returns the hold that was offered to it, if any, which has to be released.
    pub(crate) fn abandon(&self) -> Option<Arc<Hold>> {
        let before = std::mem::replace(&mut *unpoisoned(&self.state), State::Over);
        self.served.notify_waiters();
        match before {
            State::Offered(hold) => Some(hold),
            _ => None,
        }
    }

    pub(crate) fn is_waiting(&self) -> bool {
        matches!(*unpoisoned(&self.state), State::Waiting(_))
    }

    /// Ready when, after this call, the caller was offered a hold, was answered, has to begin anew, or has gone.
    pub(crate) fn served(&self) -> impl Future<Output = ()> + Send + '_ {
        // Notified from now on, not from its first poll: a caller that begins anew may wait again by then.
        let served = self.served.notified();
        async move {
            if self.is_waiting() {
                served.await;
            }
        }
    }

    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<Found> {
        let state = unpoisoned(&self.state);
        if let State::Waiting(Some(waker)) = &*state
            && waker.will_wake(cx.waker())
        {
            return Poll::Pending;
        }
        drop(state);
        // Cloned before the lock, and what it replaces dropped after it: a waker is foreign code.
        let mut ours = Some(cx.waker().clone());
        let mut state = unpoisoned(&self.state);
        if let State::Waiting(waker) = &mut *state {
            std::mem::swap(waker, &mut ours);
            drop(state);
            return Poll::Pending;
        }
        Poll::Ready(match std::mem::replace(&mut *state, State::Over) {
            State::Offered(hold) => Found::Granted(hold),
            State::Withdrawn => {
                *state = State::Waiting(ours);
                Found::Withdrawn
            }
            State::Answered(answer) => Found::Answered(answer),
            State::Waiting(_) | State::Over => {
                Found::Answered(Answer::Failed(Error::closed("polled after its end")))
            }
        })
    }
}
