//! Several pieces of work at once, in the task that waits for them.

use std::future::poll_fn;
use std::task::Poll;

use crate::engine::Boxed;
use crate::error::Result;

/// Runs all of the work until `enough` of it was done, or all of it has ended.
///
/// Returns the results in the order of the work; `None`: dropped before its end.
pub(crate) async fn gather<T>(
    work: impl IntoIterator<Item = Boxed<Result<T>>>,
    enough: usize,
) -> Vec<Option<Result<T>>> {
    let mut work: Vec<_> = work.into_iter().map(Running::Under).collect();
    poll_fn(|cx| {
        let (mut done, mut is_any_running) = (0, false);
        for one in &mut work {
            if let Running::Under(future) = one
                && let Poll::Ready(result) = future.as_mut().poll(cx)
            {
                *one = Running::Ended(result);
            }
            match one {
                Running::Under(_) => is_any_running = true,
                Running::Ended(result) => done += usize::from(result.is_ok()),
            }
        }
        match done >= enough || !is_any_running {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    let ended = |one| match one {
        Running::Under(_) => None,
        Running::Ended(result) => Some(result),
    };
    work.into_iter().map(ended).collect()
}

enum Running<T> {
    Under(Boxed<Result<T>>),
    Ended(Result<T>),
}
