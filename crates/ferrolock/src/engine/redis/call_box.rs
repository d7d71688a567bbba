//! The box of a call's future, used again.
//!
//! The future is that of the `redis` crate with ours around it: more than a kilobyte, which an allocator does not have at hand,
//! and each lock and unlock needs one. A thread keeps those that it saw end, the last one first: its memory is still in the
//! processor's cache.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio_util::sync::ReusableBoxFuture;

use crate::engine::{Calling, Failure};
use crate::protocol::call::Value;

type Reply = Result<Value, Failure>;
type Reusable = ReusableBoxFuture<'static, Reply>;

/// How many boxes a thread keeps: a task that has a reply mostly begins the next call, with the same box.
const KEPT_MAX: usize = 16;

thread_local! {
    static KEPT: RefCell<Vec<Reusable>> = const { RefCell::new(Vec::new()) };
}

/// A call under way; its box is taken out when it is answered.
struct Boxed(Option<Reusable>);

/// Puts the future of a call into a box.
pub(super) fn boxed(call: impl Future<Output = Reply> + Send + 'static) -> Calling {
    let kept = KEPT.try_with(|kept| kept.borrow_mut().pop());
    Box::pin(Boxed(Some(match kept.ok().flatten() {
        Some(mut kept) => {
            kept.set(call);
            kept
        }
        None => Reusable::new(call),
    })))
}

impl Future for Boxed {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Reply> {
        let Some(call) = &mut self.0 else {
            return Poll::Pending;
        };
        let reply = ready!(call.poll(cx));
        if let Some(ended) = self.0.take() {
            // A thread that ends keeps none.
            let _ = KEPT.try_with(|kept| {
                let mut kept = kept.borrow_mut();
                if kept.len() < KEPT_MAX {
                    kept.push(ended);
                }
            });
        }
        Poll::Ready(reply)
    }
}
