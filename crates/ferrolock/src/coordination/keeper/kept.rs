//! What the keeper asks of holds, callers and tenures. It does not use their types.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::coordination::Core;
use crate::engine::{Boxed, Calling, Lane, Tick};
use crate::error::LostReason;
use crate::options::Terms;
use crate::primitives::AtomicU64;
use crate::protocol::renewal::{Row, Shape};
use crate::protocol::scheme::Standing;

/// A hold that is kept: renewed, and lost at its deadline.
pub(crate) trait Kept: fmt::Debug + Send + Sync {
    fn core(&self) -> &Arc<Core>;
    fn name(&self) -> &Arc<str>;
    /// As it was taken; renewed more often where its kind needs that, also with a fixed lease.
    fn terms(&self) -> Terms;
    /// When its grant was asked for.
    fn since(&self) -> Tick;
    fn deadline(&self) -> Tick;
    /// Where the keeper stores its number for it; zero: it is not kept.
    fn number(&self) -> &AtomicU64;
    /// Its deadline has passed.
    fn end_at_deadline(&self);
    fn lose(&self, reason: LostReason) -> bool;
    /// A renewal failed or hangs. True: it was certain until now.
    fn doubt(&self) -> bool;
    /// A renewal of it waits for a connection of that lane until the value is dropped. `None`: another one waits already.
    fn wait_for_connection(&self, lane: Lane) -> Option<Box<dyn Send + '_>>;
    fn renewal_begins(&self);
    fn renewal_ends(&self);
    /// What its renewal looks like on the wire; rows of one shape share a call.
    fn shape(&self) -> Shape;
    /// Its row of a renewal that is sent at `sent`, and the lease that the row asks for. `None`: it is over.
    fn row(&self, sent: Tick) -> Option<(Row, Duration)>;
    /// Takes the server's answer to that row. Returns the deadline now; `None`: it is lost.
    fn answered(&self, sent: Tick, lease: Duration, answer: Standing) -> Option<Tick>;
}

/// A caller that a hold was offered to.
pub(crate) trait Offered: fmt::Debug + Send + Sync {
    /// Takes the offer back and releases the hold. False: the caller has taken it, or there is no offer.
    fn withdraw_offer(&self) -> bool;
}

/// A tenure whose release is owed.
pub(crate) trait Owes: fmt::Debug + Send + Sync {
    fn core(&self) -> &Arc<Core>;
    /// Sends what it has to send, one command after the other, until it is quiet or one had no answer.
    fn settle(self: Arc<Self>, lane: Lane) -> Boxed<Settled>;
    /// Releases whatever its first acquire may have taken.
    fn release_field(&self) -> Calling;
    /// Gives up a command that a caller's task has sent and may no longer poll; it is to be sent again. False: there is none.
    fn take_over(self: Arc<Self>) -> bool;
    /// Attempts of this client no longer wait for its release.
    fn give_barrier_up(&self);
    /// No command is sent for it from now on: the server ends its lease.
    fn leave_to_lease(self: Arc<Self>);
    /// The end of the longest lease that the server was asked for.
    fn server_until(&self) -> Tick;
    fn command_number(&self) -> u64;
    /// Whether the command with that number is all that is left to do, and another task waits for its reply.
    fn is_waiting_for(&self, number: u64) -> bool;
}

/// Whether a tenure still owes the server something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    Quiet,
    Again,
}
