//! Releases of several tenures of one client in one call: those of a guard of several locks.
//!
//! Each unlock goes its own way: its hold leaves, its barrier is raised, it has its alarm and its answer. Only the sending is
//! done together. The unlocks wait for each other, and the first that sees all of them there sends one call for all releases
//! that leave nothing. Each row of the answer ends the release of its own tenure. If the answer stays out, each of them is
//! owed by itself; if the call was refused as a whole, each is tried by itself.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;

use crate::coordination::holding::count::Phase;
use crate::coordination::holding::release::{RunningCommand, settle};
use crate::coordination::keeper::kept::Settled;
use crate::coordination::{Tenure, unpoisoned};
use crate::engine::{Failure, Lane};
use crate::protocol::call::Value;
use crate::protocol::multi_lock::{ReleaseRow, read_release, release};

/// Unlocks that share a call.
#[derive(Debug)]
struct Joint {
    state: Mutex<Meeting>,
    /// Fires when no unlock is waited for.
    all_there: CancellationToken,
    /// Fires when the call was answered, or is not waited for any longer.
    ended: CancellationToken,
}

#[derive(Debug)]
struct Meeting {
    /// Unlocks that have neither come nor gone.
    awaited: usize,
    /// Those that have come, until the first of them takes them along.
    tenures: Option<Vec<Arc<Tenure>>>,
    /// Those whose release has to be tried again later.
    again: Vec<Arc<Tenure>>,
}

/// One unlock's part in it. Dropped before it has come, it is not waited for.
#[derive(Debug)]
pub(crate) struct Seat {
    joint: Arc<Joint>,
    has_come: bool,
}

/// Seats for that many unlocks, which have to be polled in one task.
pub(crate) fn seats(count: usize) -> Vec<Seat> {
    let joint = Arc::new(Joint {
        state: Mutex::new(Meeting {
            awaited: count,
            tenures: Some(Vec::with_capacity(count)),
            again: Vec::new(),
        }),
        all_there: CancellationToken::new(),
        ended: CancellationToken::new(),
    });
    let seat = |joint| Seat {
        joint,
        has_come: false,
    };
    std::iter::repeat_n(joint, count).map(seat).collect()
}

/// Sends what the tenure has to send, with `seat` its release together with others.
pub(super) async fn settle_with(seat: Option<Seat>, tenure: &Arc<Tenure>) -> Settled {
    match seat {
        Some(seat) => seat.settle(tenure).await,
        None => settle(tenure, Lane::Commands).await,
    }
}

/// The release of the tenure's last hold, if that is what it has to send: it is under way from now on.
fn begin_last_release(tenure: &Arc<Tenure>) -> Option<RunningCommand<'_>> {
    let lane = Lane::Commands;
    let is_last = unpoisoned(&tenure.state).count.phase() == Phase::Closed;
    let (command, _) = is_last.then(|| tenure.next_command(lane)).flatten()?;
    Some(RunningCommand {
        tenure,
        command,
        lane,
        ended: false,
    })
}

impl Seat {
    /// Sends the tenure's release together with those of the others, and then what else it has to send.
    pub(super) async fn settle(mut self, tenure: &Arc<Tenure>) -> Settled {
        self.come(Some(tenure));
        let joint = self.joint.clone();
        joint.all_there.cancelled().await;
        match joint.take_tenures() {
            Some(tenures) => {
                let _ended = joint.ended.clone().drop_guard();
                joint.send(&tenures).await;
            }
            None => joint.ended.cancelled().await,
        }
        match joint.is_to_try_again(tenure) {
            true => Settled::Again,
            false => settle(tenure, Lane::Commands).await,
        }
    }

    fn come(&mut self, tenure: Option<&Arc<Tenure>>) {
        if std::mem::replace(&mut self.has_come, true) {
            return;
        }
        let mut state = unpoisoned(&self.joint.state);
        state.awaited = state.awaited.saturating_sub(1);
        let is_last = state.awaited == 0;
        if let Some(tenures) = &mut state.tenures {
            tenures.extend(tenure.cloned());
        }
        // Wakes foreign tasks: not under the lock.
        drop(state);
        if is_last {
            self.joint.all_there.cancel();
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.come(None);
    }
}

impl Joint {
    fn take_tenures(&self) -> Option<Vec<Arc<Tenure>>> {
        unpoisoned(&self.state).tenures.take()
    }

    fn is_to_try_again(&self, tenure: &Arc<Tenure>) -> bool {
        let state = unpoisoned(&self.state);
        state.again.iter().any(|other| Arc::ptr_eq(other, tenure))
    }

    /// One call for the releases that can share it. Dropped before the answer, it leaves each of them to the keeper.
    async fn send(&self, tenures: &[Arc<Tenure>]) {
        let (mut rows, mut running): (Vec<ReleaseRow>, Vec<RunningCommand<'_>>) =
            Default::default();
        for tenure in tenures {
            let row = tenure.scheme.release_row(&tenure.bearer);
            let row = row.filter(|row| rows.first().is_none_or(|first| first.fits(row)));
            if let Some(row) = row
                && let Some(command) = begin_last_release(tenure)
            {
                rows.push(row);
                running.push(command);
            }
        }
        let Some(core) = running.first().map(|command| &command.tenure.core) else {
            return;
        };
        let reply = core.send(Lane::Commands, release(&rows)).await;
        let answers = reply.and_then(|reply| Ok(read_release(reply, rows.len())?));
        let answers = match answers {
            Ok(answers) => answers,
            // Whether one of them ran is not known of any.
            Err(Failure::Unknown(why)) => {
                let unknown = || Failure::Unknown(why.clone());
                return running
                    .into_iter()
                    .for_each(|command| self.end(command, Err(unknown())));
            }
            // None of them ran, perhaps because of one: each goes on by itself.
            Err(_) => return running.into_iter().for_each(RunningCommand::withdraw),
        };
        let mut refused = Vec::new();
        for (command, answer) in running.into_iter().zip(answers) {
            match answer {
                Ok(reply) => self.end(command, Ok(reply)),
                Err(error) => refused.push((command, error.into())),
            }
        }
        for (command, failure) in refused {
            let failure = command
                .tenure
                .core
                .explain(&*command.tenure.scheme, failure)
                .await;
            self.end(command, Err(failure));
        }
    }

    fn end(&self, command: RunningCommand<'_>, reply: Result<Value, Failure>) {
        let tenure = command.tenure.clone();
        if command.end(reply) == Settled::Again {
            unpoisoned(&self.state).again.push(tenure);
        }
    }
}
