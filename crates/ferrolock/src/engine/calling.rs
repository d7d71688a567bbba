//! The future of a call. It is large, and made twice for every lock, so its box is used again.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use tokio_util::sync::ReusableBoxFuture;

use super::{Failure, unpoisoned};
use crate::protocol::script::Value;

type Reply = Result<Value, Failure>;
type Reusable = ReusableBoxFuture<'static, Reply>;

/// How many empty boxes are kept.
const EMPTY_MAX: usize = 1024;

/// A reply to come.
pub(crate) struct Calling {
    /// Taken out when it is answered.
    future: Option<Reusable>,
    home: Option<Arc<Boxes>>,
}

/// Boxes whose futures have ended.
#[derive(Default)]
pub(crate) struct Boxes {
    empty: Mutex<Vec<Reusable>>,
}

impl Boxes {
    /// Puts a future into a box; it comes back when the future has ended.
    pub(crate) fn put(
        self: &Arc<Self>,
        future: impl Future<Output = Reply> + Send + 'static,
    ) -> Calling {
        let boxed = match self.empty().pop() {
            Some(mut boxed) => {
                boxed.set(future);
                boxed
            }
            None => Reusable::new(future),
        };
        Calling {
            future: Some(boxed),
            home: Some(self.clone()),
        }
    }

    fn empty(&self) -> std::sync::MutexGuard<'_, Vec<Reusable>> {
        unpoisoned(&self.empty)
    }
}

impl Calling {
    /// A call in a box of its own.
    pub(crate) fn new(future: impl Future<Output = Reply> + Send + 'static) -> Calling {
        Calling {
            future: Some(Reusable::new(future)),
            home: None,
        }
    }
}

impl Future for Calling {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let this = &mut *self;
        let Some(future) = &mut this.future else {
            return Poll::Pending;
        };
        let reply = std::task::ready!(future.poll(cx));
        if let (Some(boxed), Some(home)) = (this.future.take(), &this.home) {
            let mut empty = home.empty();
            if empty.len() < EMPTY_MAX {
                empty.push(boxed);
            }
        }
        Poll::Ready(reply)
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Calling")
    }
}

impl fmt::Debug for Boxes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Boxes")
    }
}
