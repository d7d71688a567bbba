//! From a release in one process to running in another.
//!
//! Two processes take turns: one holds, the other waits. The holder records the time and unlocks, and the other records the
//! time when it has the lock; then it is the holder. PINGs are measured while a waiter settles, so the server is as awake for
//! them as for the hand-over.

use super::bare;
use crate::reference::{connect, one_thread, pings};
use crate::report::{Must, Row};
use crate::rounds::{Turns, median, now};
use ferrolock::{Client, Guard, Lock};
use redis::aio::MultiplexedConnection;
use std::time::Duration;
use testkit::process::{Child, Role};
use testkit::{Address, Connection, LIMIT, Server};
use tokio::task::JoinHandle;

const ROUNDS: usize = 15;
/// Hand-overs of a round; half of them in each direction.
const PER_ROUND: usize = 20;
const NAME: &str = "handover";
/// A waiter has subscribed, attempted once more and gone to sleep long before this is over: nanoseconds.
const SETTLED: u64 = 10_000_000;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let ours = one_thread().block_on(turns(server));
    let bare = one_thread().block_on(bare_turns(server));
    let row = |what: &str, turns: &Turns, must| Row {
        what: format!(
            "p50 from release in one process to running in another{what} ÷ p50 of a PING"
        ),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must,
    };
    vec![
        row("", &ours, Must::AtMost(5.0)),
        row(", bare blocking sockets,", &bare, Must::Stated),
    ]
}

/// The same with the bare commands: the peer blocks until the message comes, then acquires.
async fn bare_turns(server: &Server) -> Turns {
    let [acquire, release] = bare::words_of(server, NAME).map(|words| words.join(" "));
    let mut connection = connect(server).await;
    let mut own = Connection::open(&Address::Tcp(server.address())).unwrap();
    let port = server.port().to_string();
    let mut peer = Child::again("bare", &[&port, &acquire, &release]);
    assert_eq!(peer.hear(LIMIT), "waiting");
    let mut turns = Turns::default();
    for round in 0..=ROUNDS {
        let (mut took, mut pings) = (Vec::new(), Vec::new());
        for _ in 0..PER_ROUND / 2 {
            own.command(&split(&acquire));
            settle(&mut connection, &mut pings).await;
            let released = now();
            own.command(&split(&release));
            let running: u64 = peer.hear(LIMIT).parse().unwrap();
            took.push((running - released) as f64 / 1e3);
            peer.say("release");
            assert_eq!(peer.hear(LIMIT), "waiting");
        }
        if round > 0 {
            turns.push(median(&took), median(&pings));
        }
    }
    turns
}

fn split(words: &str) -> Vec<&str> {
    words.split(' ').collect()
}

async fn turns(server: &Server) -> Turns {
    let mut pair = Pair::at(&server.url(), Some(connect(server).await)).await;
    let mut turns = Turns::default();
    for round in 0..=ROUNDS {
        let (took, pings) = pair.round().await;
        // The first round warms up.
        if round > 0 {
            turns.push(took, pings);
        }
    }
    turns
}

/// The two processes, and the times of a round, in microseconds.
pub(crate) struct Pair {
    lock: Lock,
    guard: Option<Guard>,
    /// For the PINGs that are measured while a waiter settles.
    connection: Option<MultiplexedConnection>,
    peer: Child,
    pings: Vec<f64>,
    took: Vec<f64>,
}

impl Pair {
    /// Two processes at that address.
    pub(crate) async fn at(url: &str, connection: Option<MultiplexedConnection>) -> Self {
        let lock = Client::connect(url).await.unwrap().lock(NAME);
        Self {
            guard: Some(lock.lock().await.unwrap()),
            lock,
            connection,
            peer: Child::again("handover", &[url]),
            pings: Vec::new(),
            took: Vec::new(),
        }
    }

    /// The p50 of the hand-overs of a round, and of the PINGs meanwhile (0: there were none).
    pub(crate) async fn round(&mut self) -> (f64, f64) {
        self.took.clear();
        self.pings.clear();
        for _ in 0..PER_ROUND / 2 {
            let guard = self.guard.take().unwrap();
            self.guard = Some(self.there_and_back(guard).await);
        }
        let pings = if self.pings.is_empty() {
            0.0
        } else {
            median(&self.pings)
        };
        (median(&self.took), pings)
    }

    /// One hand-over to the peer and one back.
    async fn there_and_back(&mut self, guard: Guard) -> Guard {
        self.peer.say("wait");
        assert_eq!(self.peer.hear(LIMIT), "waiting");
        self.settle().await;
        let released = now();
        guard.unlock().await.unwrap();
        let running: u64 = self.peer.hear(LIMIT).parse().unwrap();
        self.took.push((running - released) as f64 / 1e3);

        let waiting = wait_for(&self.lock);
        self.settle().await;
        self.peer.say("release");
        let (guard, running) = waiting.await.unwrap();
        let released: u64 = self.peer.hear(LIMIT).parse().unwrap();
        self.took.push((running - released) as f64 / 1e3);
        guard
    }

    async fn settle(&mut self) {
        match &mut self.connection {
            Some(connection) => settle(connection, &mut self.pings).await,
            None => tokio::time::sleep(Duration::from_nanos(SETTLED)).await,
        }
    }
}

/// Sends PINGs until the waiter has settled.
async fn settle(connection: &mut MultiplexedConnection, took: &mut Vec<f64>) {
    let begun = now();
    while now() - begun < SETTLED {
        took.extend(pings(connection, 10).await);
    }
}

/// Waits for the lock in a task, which records when it has it.
fn wait_for(lock: &Lock) -> JoinHandle<(Guard, u64)> {
    let waiting = lock.lock();
    tokio::spawn(async move {
        let guard = waiting.await.unwrap();
        (guard, now())
    })
}

/// The second process of the bare turns.
pub(crate) fn help_bare(role: &Role) {
    let [port, acquire, release] = role.args() else {
        panic!("a port and two commands");
    };
    let address = Address::Tcp(([127, 0, 0, 1], port.parse().unwrap()).into());
    let mut ear = Connection::open(&address).unwrap();
    ear.command(&["SUBSCRIBE", &format!("redisson_lock__channel:{{{NAME}}}")]);
    let mut own = Connection::open(&address).unwrap();
    loop {
        role.say("waiting");
        ear.receive().unwrap();
        own.command(&split(acquire));
        role.say(&now().to_string());
        assert_eq!(role.hear(), "release");
        own.command(&split(release));
        // Its own message.
        ear.receive().unwrap();
    }
}

pub(crate) fn help(role: &Role) {
    let url = &role.args()[0];
    one_thread().block_on(async {
        let client = Client::connect(url).await.unwrap();
        let lock = client.lock(NAME);
        loop {
            assert_eq!(hear(role).await, "wait");
            let waiting = wait_for(&lock);
            role.say("waiting");
            let (guard, running) = waiting.await.unwrap();
            role.say(&running.to_string());
            assert_eq!(hear(role).await, "release");
            let released = now();
            guard.unlock().await.unwrap();
            role.say(&released.to_string());
        }
    });
}

/// Does not block the runtime: the connections live there.
pub(crate) async fn hear(role: &Role) -> String {
    let role = role.clone();
    let heard = tokio::task::spawn_blocking(move || role.hear());
    heard.await.unwrap()
}
