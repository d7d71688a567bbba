//! Workers of one process that mostly read: operations per second with the read-write lock, beside the plain lock for all of
//! them and beside Redisson's flow; and how much longer a writer waits than a reader.

use super::client_replay::{self, Thread};
use super::crew::{Done, WORKERS, WRITES, Worker, work};
use super::redisson::Side;
use crate::reference::one_thread;
use crate::report::{Must, Row};
use crate::rounds::Turns;
use crate::stage::Stage;
use ferrolock::{Client, Lock, RwLock};
use std::time::Duration;

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_secs(2);

pub(crate) fn measure(stage: &Stage) -> Vec<Row> {
    let time = stage.round(ROUND);
    let [mut to_plain, mut to_redisson, mut preferring, mut writes] =
        [(); 4].map(|()| Turns::default());
    one_thread().block_on(async {
        let mut sides = Sides::new(stage).await;
        for round in 0..=stage.rounds(ROUNDS) {
            let shared = sides.read_write.round(time).await.per_second(time);
            let plain = sides.plain.round(time).await.per_second(time);
            let redisson = sides.redisson.round(time).await.per_second(time);
            let mut done = sides.preferring.round(time).await;
            // The first round warms up.
            if round > 0 {
                to_plain.push(shared, plain);
                to_redisson.push(shared, redisson);
                preferring.push(done.per_second(time), plain);
                writes.push(done.p99(Side::Write), done.p99(Side::Read));
            }
        }
    });
    let shape = format!("{WORKERS} workers of one process on one name, {WRITES} % write");
    let row = |what: String, unit, turns: &Turns, must| Row {
        what,
        unit,
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must,
    };
    vec![
        row(
            format!("operations/s of {shape}: read-write lock ÷ plain lock for all"),
            "/s",
            &to_plain,
            Must::Stated,
        ),
        row(
            "the same ÷ Redisson's flow".to_owned(),
            "/s",
            &to_redisson,
            stage.must(Must::AtLeast(8.0)),
        ),
        row(
            "the same with `prefer_writers` ÷ plain lock for all".to_owned(),
            "/s",
            &preferring,
            Must::Stated,
        ),
        row(
            "p99 of a write ÷ p99 of a read, with `prefer_writers`".to_owned(),
            " µs",
            &writes,
            stage.must(Must::AtMost(10.0)),
        ),
    ]
}

/// The same workers with each kind of lock.
struct Sides {
    read_write: Crew<RwLock>,
    preferring: Crew<RwLock>,
    plain: Crew<Lock>,
    redisson: Crew<Thread>,
}

impl Sides {
    async fn new(stage: &Stage) -> Self {
        let server = &stage.server;
        let client = Client::connect(server.url()).await.unwrap();
        let read_write = client.rw_lock("read-write");
        let preferring = client.rw_lock("read-write/preferring").prefer_writers();
        let name = "read-write/replay";
        Self {
            read_write: Crew::of(read_write),
            preferring: Crew::of(preferring),
            plain: Crew::of(client.lock("read-write/plain")),
            redisson: Crew(client_replay::threads(server, name, WORKERS).await),
        }
    }
}

/// The workers.
struct Crew<W>(Vec<W>);

impl<W: Worker> Crew<W> {
    async fn round(&mut self, time: Duration) -> Done {
        let (workers, done) = work(std::mem::take(&mut self.0), time).await;
        self.0 = workers;
        done
    }
}

impl<W: Worker + Clone> Crew<W> {
    fn of(worker: W) -> Self {
        Self((0..WORKERS).map(|_| worker.clone()).collect())
    }
}

impl Worker for RwLock {
    async fn visit(&mut self, side: Side) {
        match side {
            Side::Read => drop(self.read().await.unwrap().unlock().await.unwrap()),
            Side::Write => drop(self.write().await.unwrap().unlock().await.unwrap()),
        }
    }
}

impl Worker for Lock {
    async fn visit(&mut self, _: Side) {
        self.lock().await.unwrap().unlock().await.unwrap();
    }
}
