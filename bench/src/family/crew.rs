//! Workers that want one name: most of the time to read, at times to write.

use super::redisson::Side;
use crate::rounds::now;
use std::time::Duration;
use tokio::task::JoinSet;

pub(crate) const WORKERS: u64 = 16;
/// Of a hundred operations so many write.
pub(crate) const WRITES: u32 = 5;

/// One that takes the lock and gives it back at once.
pub(crate) trait Worker: Send + 'static {
    fn visit(&mut self, side: Side) -> impl Future<Output = ()> + Send;
}

/// How long the operations took that were done in time, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Done {
    reads: Vec<u64>,
    writes: Vec<u64>,
}

impl Done {
    pub(crate) fn per_second(&self, time: Duration) -> f64 {
        (self.reads.len() + self.writes.len()) as f64 / time.as_secs_f64()
    }

    /// The p99 of an operation of that side, in microseconds.
    pub(crate) fn p99(&mut self, side: Side) -> f64 {
        let took = match side {
            Side::Read => &mut self.reads,
            Side::Write => &mut self.writes,
        };
        took.sort_unstable();
        took[took.len() * 99 / 100] as f64 / 1e3
    }
}

/// Lets all of them work for that time.
pub(crate) async fn work<W: Worker>(workers: Vec<W>, time: Duration) -> (Vec<W>, Done) {
    let end = now() + u64::try_from(time.as_nanos()).unwrap();
    let mut tasks = JoinSet::new();
    for (number, mut worker) in workers.into_iter().enumerate() {
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let mut done = Done::default();
            loop {
                let side = match random.u32(..100) < WRITES {
                    true => Side::Write,
                    false => Side::Read,
                };
                let begun = now();
                worker.visit(side).await;
                let ended = now();
                if ended >= end {
                    return (worker, done);
                }
                match side {
                    Side::Read => done.reads.push(ended - begun),
                    Side::Write => done.writes.push(ended - begun),
                }
            }
        });
    }
    let (mut workers, mut all) = (Vec::new(), Done::default());
    for (worker, done) in tasks.join_all().await {
        workers.push(worker);
        all.reads.extend(done.reads);
        all.writes.extend(done.writes);
    }
    (workers, all)
}
