//! The last hold, left to the server: the name stays taken for a while.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::holding::count::{Delay, Op};
use crate::coordination::holding::hold::Hold;
use crate::coordination::holding::release::{Command, RunningCommand, Unfinished, hear};
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Failure, Lane};
use crate::error::{Error, LostReason, Result};
use crate::protocol::call::Value;
use crate::protocol::scheme::read_standing;

impl Tenure {
    /// True: `hold` is the last hold, and is left to the server from now on; commands that had to go before were answered.
    /// False: other holds go on.
    pub(crate) async fn begin_delay(self: &Arc<Self>, hold: &Arc<Hold>) -> Result<bool> {
        self.core
            .check_process()
            .map_err(|error| error.of(self.scheme.name()))?;
        loop {
            match self.delay_or_settle(hold) {
                Ok(Delay::UnderWay) => return Ok(true),
                Ok(Delay::OthersGoOn) => return Ok(false),
                Ok(Delay::Unsettled) => {}
                Err(reason) => return Err(Error::lost(reason).of(self.scheme.name())),
            }
            let limit = self.core.settings.command_limit / 2;
            let alarm = hold.alarm_unlock(self.core.now().after(limit));
            hear(hold, false, alarm, None)
                .await
                .map_err(|error| error.of(self.scheme.name()))?;
            hold.unlock_answer.again();
        }
    }

    fn delay_or_settle(&self, hold: &Arc<Hold>) -> std::result::Result<Delay, LostReason> {
        let mut state = unpoisoned(&self.state);
        let delay = state.count.delay_release();
        if delay == Delay::Unsettled {
            state.count.settles(hold.clone())?;
        }
        Ok(delay)
    }

    /// The server keeps the name for `stay`, after [`begin_delay`](Tenure::begin_delay) said so.
    pub(crate) async fn delay_release(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        stay: Duration,
    ) -> Result<()> {
        let named = |error: Error| error.of(self.scheme.name());
        let work = async {
            // A renewal that ran after the command would make the stay a whole lease.
            hold.renewal_ended(self.core.settings.command_limit).await;
            self.asks_for(self.core.now(), stay);
            let call = self.scheme.delay_release(&self.bearer, stay);
            let reply = self
                .core
                .ask(Lane::Commands, Some(&self.scheme), call)
                .await;
            let standing = reply.and_then(|reply| {
                read_standing(reply).map_err(|bad| Error::from(Failure::from(bad)))
            });
            match standing.map_err(named)?.lost() {
                None => Ok(()),
                Some(reason) => Err(named(Error::lost(reason))),
            }
        };
        self.end_by(hold, work).await
    }

    /// Ends the last hold by that work, after [`begin_delay`](Tenure::begin_delay) said so. If the work fails, or this is
    /// dropped before it is ready, the keeper releases the hold.
    pub(crate) async fn end_by<T>(
        self: &Arc<Self>,
        hold: &Arc<Hold>,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let number = {
            let mut state = unpoisoned(&self.state);
            state.sender = Lane::Commands;
            state.count.number()
        };
        let (sent, limit) = (self.core.now(), self.core.settings.command_limit);
        // For a future that is never polled again. The answer has a limit of its own, which comes before the alarm.
        let alarm = hold.alarm_unlock(sent.after(3 * limit));
        let mut unfinished = Unfinished { tenure: Some(self) };
        let op = Op::Release { left: 0 };
        let running = RunningCommand {
            tenure: self,
            command: Command { op, sent, number },
            lane: Lane::Commands,
            ended: false,
        };
        let was = hold.release(sent);
        self.core.keeper().forget(&**hold);
        unpoisoned(&self.state).members.clear();
        let done = match was.lost() {
            None => work.await,
            Some(reason) => Err(Error::lost(reason).of(self.scheme.name())),
        };
        self.core.keeper().cancel(alarm);
        if done.is_ok() {
            running.end(Ok(Value::Int(0)));
            unfinished.tenure = None;
        }
        done
    }
}
