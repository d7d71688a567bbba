//! One call that renews holds of a client, from the question to what follows from the answers.
//!
//! Each row has its own hold, deadline and answer; the rows share the call, and the time at which it was sent. A problem with
//! one row (a key of another type, a waker that panics) does not affect the others.

use std::sync::Arc;
use std::time::Duration;

use crate::coordination::keeper::batch::{self, Batch};
use crate::coordination::keeper::kept::Kept;
use crate::coordination::keeper::watch::Renewal;
use crate::coordination::keeper::{Keeper, Watched};
use crate::coordination::{Core, safely, unpoisoned};
use crate::engine::{Failure, Lane, Tick};
use crate::protocol::renewal::{self, Row, Shape};
use crate::protocol::scheme::Standing;

/// A hold to renew, and its number in the watch.
type Numbered = (u64, Arc<dyn Kept>);

/// A hold whose renewal goes out, and the lease that is asked for.
#[derive(Debug)]
struct Asked {
    id: u64,
    hold: Arc<dyn Kept>,
    lease: Duration,
}

/// The outcome of a renewal for one hold.
#[derive(Debug)]
enum News {
    /// Confirmed until then.
    Until(Tick),
    /// It is lost; nothing is left to do.
    Lost,
    Failed,
    /// To be tried alone.
    Parted,
}

impl Keeper {
    /// Sends what is due: one task per call.
    pub(super) fn renew_all(self: &Arc<Self>, due: Vec<Renewal<Watched>>) {
        for batch in batch::collect(due, |watched| group_of(&*watched.hold)) {
            drop(tokio::spawn(self.clone().renew(batch)));
        }
    }

    /// One call. Its answers count whenever they come; the watch decides when to try again. Without a connection (the spare
    /// lane mostly has none when it is needed) it also goes out as soon as there is one: the watch's next try may come too
    /// late.
    pub(super) async fn renew(self: Arc<Self>, batch: Batch<Watched>) {
        let lane = batch.lane;
        for row in batch.rows.iter().filter(|row| row.troubles > 0) {
            safely(|| doubt(&*row.hold.hold));
        }
        let rows = batch.rows.into_iter();
        let holds: Vec<Numbered> = rows.map(|row| (row.id, row.hold.hold)).collect();
        let deadlines: Vec<Tick> = holds.iter().map(|(_, hold)| hold.deadline()).collect();
        let Some(core) = holds.first().map(|(_, hold)| hold.core().clone()) else {
            return;
        };
        let Err(Failure::NotSent(_)) = self.send(&core, lane, &holds).await else {
            return;
        };
        let waiting: Vec<(Box<dyn Send + '_>, &Numbered, Tick)> = holds
            .iter()
            .zip(deadlines)
            .filter_map(|(kept, deadline)| {
                Some((kept.1.wait_for_connection(lane)?, kept, deadline))
            })
            .collect();
        if waiting.is_empty() {
            return;
        }
        core.engine.ready(lane).await;
        let unconfirmed: Vec<Numbered> = waiting
            .into_iter()
            .filter(|(_, (_, hold), deadline)| hold.deadline() == *deadline)
            .map(|(_, kept, _)| kept.clone())
            .collect();
        let _ = self.send(&core, lane, &unconfirmed).await;
    }

    /// Asks the server to keep the holds, except those that are over. `Err`: there is no answer, or no good one.
    async fn send(&self, core: &Core, lane: Lane, holds: &[Numbered]) -> Result<(), Failure> {
        let sent = self.clock.now();
        let (asked, rows) = self.begin(core, lane, holds, sent);
        let Some(call) = renewal::batch(&rows) else {
            return Ok(());
        };
        let reply = core.send(lane, call).await;
        for Asked { hold, .. } in &asked {
            safely(|| hold.renewal_ends());
        }
        let answers = reply.and_then(|reply| Ok(renewal::read(reply, asked.len())?));
        let outcome = answers.as_ref().map(drop).map_err(Failure::clone);
        let news = match answers {
            Ok(answers) => hear(
                asked,
                sent,
                answers.into_iter().map(|row| row.map_err(Failure::from)),
            ),
            Err(failure) if asked.len() > 1 && may_be_for_one_row(&failure) => {
                part(&asked, &failure)
            }
            Err(failure) => {
                let answers = asked
                    .iter()
                    .map(|_| Err(failure.clone()))
                    .collect::<Vec<_>>();
                hear(asked, sent, answers)
            }
        };
        self.note(sent, news);
        outcome
    }

    /// The holds whose renewal goes out now, and their rows.
    fn begin(
        &self,
        core: &Core,
        lane: Lane,
        holds: &[Numbered],
        now: Tick,
    ) -> (Vec<Asked>, Vec<Row>) {
        // Begun before the watch is asked: an unlock that comes after that waits for the end of this renewal.
        for (_, hold) in holds {
            hold.renewal_begins();
        }
        let limit = core.settings.command_limit;
        let mut state = unpoisoned(&self.state);
        let watched: Vec<bool> = holds
            .iter()
            .map(|(id, _)| state.watch.start_renewal(*id, now, limit))
            .collect();
        self.wake_for(&state);
        drop(state);
        let mut asked = Vec::with_capacity(holds.len());
        let mut rows = Vec::with_capacity(holds.len());
        for ((id, hold), is_watched) in holds.iter().zip(watched) {
            let row = is_watched.then(|| hold.row(now));
            let Some(Some((row, lease))) = row else {
                // A guard may have found it over by the clock while the renewal before was being confirmed.
                if row.is_some() {
                    self.forget(&**hold);
                }
                hold.renewal_ends();
                continue;
            };
            safely(|| tracing::trace!(lock = %hold.name(), ?lane, "renew"));
            let (id, hold) = (*id, hold.clone());
            asked.push(Asked { id, hold, lease });
            rows.push(row);
        }
        (asked, rows)
    }

    /// Notes the outcomes in the watch.
    fn note(&self, sent: Tick, news: Vec<(u64, News)>) {
        let now = self.clock.now();
        let mut state = unpoisoned(&self.state);
        for (id, news) in news {
            match news {
                News::Until(deadline) => state.watch.renewed(id, sent, deadline),
                News::Lost => {}
                News::Failed => state.watch.failed(id, now),
                News::Parted => state.watch.part(id, now),
            }
        }
        self.wake_for(&state);
    }
}

impl Asked {
    fn hear(&self, sent: Tick, answer: Result<Standing, Failure>) -> News {
        let answered = answer.map(|answer| self.hold.answered(sent, self.lease, answer));
        match answered {
            Ok(Some(deadline)) => News::Until(deadline),
            Ok(None) => News::Lost,
            Err(failure) => {
                tracing::debug!(lock = %self.hold.name(), %failure, "renewal failed");
                News::Failed
            }
        }
    }
}

/// Gives each hold its answer. A row that was cut short by a panic in foreign code is tried again after its limit.
fn hear(
    asked: Vec<Asked>,
    sent: Tick,
    answers: impl IntoIterator<Item = Result<Standing, Failure>>,
) -> Vec<(u64, News)> {
    let mut news = Vec::with_capacity(asked.len());
    for (asked, answer) in asked.iter().zip(answers) {
        safely(|| news.push((asked.id, asked.hear(sent, answer))));
    }
    news
}

/// Each hold is tried alone: one row was perhaps the reason for the refusal of all.
fn part(asked: &[Asked], failure: &Failure) -> Vec<(u64, News)> {
    safely(
        || tracing::debug!(rows = asked.len(), %failure, "renewal refused as a whole: each hold is tried alone"),
    );
    asked.iter().map(|asked| (asked.id, News::Parted)).collect()
}

/// Whether a server that refused a call may take another one with fewer rows: a right may be missing for one key, or
/// a proxy may have a limit. Not if it takes no writes for now, or is busy: many calls would only make that worse.
fn may_be_for_one_row(failure: &Failure) -> bool {
    const OF_THE_SERVER: [&str; 7] = [
        "READONLY",
        "LOADING",
        "BUSY",
        "MISCONF",
        "NOREPLICAS",
        "MASTERDOWN",
        "CLUSTERDOWN",
    ];
    matches!(failure, Failure::Refused { code, .. } if !OF_THE_SERVER.contains(&code.as_str()))
}

/// Which holds may share a call: those of one client whose rows have the same shape.
fn group_of(hold: &dyn Kept) -> (usize, Shape) {
    (Arc::as_ptr(hold.core()).addr(), hold.shape())
}

fn doubt(hold: &dyn Kept) {
    if hold.doubt() {
        tracing::warn!(lock = %hold.name(), "renewal failed or hangs; the hold is uncertain until its deadline");
    }
}
