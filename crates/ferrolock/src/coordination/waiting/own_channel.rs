//! The channel of one waiter, on which another library tells it that it is its turn.
//!
//! Listened to for the front of the line alone, and only while waiters or holders of that library are there.

use crate::coordination::waiting::drive::{DriverTask, pending_or};
use crate::coordination::waiting::listen::NameListener;
use crate::engine::{Boxed, Failure, Subscription};

/// The subscription to one waiter's own channel. Its end is the end of the subscription.
#[derive(Default)]
pub(super) struct OwnChannel {
    asked: Option<(u64, Boxed<Result<Subscription, Failure>>)>,
    subscription: Option<Subscription>,
}

impl OwnChannel {
    /// Ready when the server has answered: the number of the waiter, and the answer.
    pub(super) async fn listened(&mut self) -> (u64, Result<Subscription, Failure>) {
        let answer = pending_or(self.asked.as_mut().map(|(_, asked)| asked)).await;
        let id = self.asked.take().map_or(0, |(id, _)| id);
        (id, answer)
    }
}

impl DriverTask {
    /// Begins to listen for the waiter with that number in the line.
    pub(super) fn listen_to_own(&self, id: Option<u64>) -> OwnChannel {
        let placed = self
            .with_driver(|driver, _| driver.waiter(id?)?.placed())
            .flatten();
        let channel = placed
            .as_ref()
            .and_then(|tenure| self.scheme.own_channel(&tenure.bearer));
        let (Some(id), Some(tenure), Some(channel)) = (id, placed, channel) else {
            return OwnChannel::default();
        };
        let meant = Some(tenure.id.number());
        let listener = NameListener::new(&self.core, self.scheme.clone(), meant);
        OwnChannel {
            asked: Some((id, self.core.engine.listen(channel, listener))),
            subscription: None,
        }
    }

    /// The server has answered. If it refused, the front looks by the clock as before.
    pub(super) fn listened_to_own(
        &self,
        own: &mut OwnChannel,
        (id, answer): (u64, Result<Subscription, Failure>),
    ) {
        match answer {
            Ok(subscription) => {
                own.subscription = Some(subscription);
                self.with_driver(|driver, now| driver.own_confirmed(now, id));
            }
            Err(failure) => self.core.say_blind(&failure),
        }
    }
}
