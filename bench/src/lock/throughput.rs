//! Pairs per second of many tasks over one connection, beside ready-made bytes; and the processor time of both ends, which
//! shows what limits them, whatever else the machine is doing.

use super::bare::{self, Bare};
use super::server_cpu;
use crate::reference::{connect, one_thread, two_threads};
use crate::report::{Must, Row};
use crate::rounds::{Turns, micros_since, now, own_cpu};
use ferrolock::{Client, Lock};
use redis::Cmd;
use redis::aio::MultiplexedConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use testkit::Server;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

const ROUNDS: usize = 25;
const NAMES: usize = 10_000;
const TASKS: usize = 512;
/// How often each name is taken in a round.
const TIMES: usize = 1;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let names: Vec<String> = (0..NAMES).map(|name| format!("orders/{name}")).collect();
    let mut bare = Bare::new(server, &names);
    let shapes = [(one_thread(), "one"), (two_threads(), "two")];
    let mut ours = shapes.map(|(runtime, threads)| Ours::new(server, &names, runtime, threads));
    let mut client = Carrier::new(server, &names);
    for round in 0..=ROUNDS {
        let carried = cost(server, || client.run());
        for ours in &mut ours {
            let taken = cost(server, || ours.run());
            let reference = cost(server, || bare.run(TASKS, TIMES));
            // The first round warms up.
            if round > 0 {
                if ours.threads == "one" {
                    client.rate.push(carried.rate, reference.rate);
                    client.cpu.push(carried.client, carried.server);
                }
                ours.rate.push(taken.rate, reference.rate);
                ours.cpu.push(taken.client, taken.server);
            }
        }
    }
    let [one, two] = &ours;
    let (better, other) = if one.rate.ratio() >= two.rate.ratio() {
        (one, two)
    } else {
        (two, one)
    };
    vec![
        better.row(Must::AtLeast(0.8)),
        other.row(Must::Stated),
        one.cpu_row(),
        rate_row(
            "the same script calls through the client crate alone, one runtime thread",
            &client.rate,
            Must::Stated,
        ),
        cpu_row("the client crate alone", &client.cpu),
    ]
}

/// The crate `redis` alone, with the same script calls.
struct Carrier {
    runtime: Runtime,
    connection: MultiplexedConnection,
    pairs: Arc<Vec<[Cmd; 2]>>,
    rate: Turns,
    cpu: Turns,
}

impl Carrier {
    fn new(server: &Server, names: &[String]) -> Self {
        let runtime = one_thread();
        let pairs = names.iter().map(|name| bare::commands(server, name));
        Self {
            connection: runtime.block_on(connect(server)),
            pairs: Arc::new(pairs.collect()),
            runtime,
            rate: Turns::default(),
            cpu: Turns::default(),
        }
    }

    fn run(&mut self) {
        self.runtime.block_on(async {
            let next = Arc::new(AtomicUsize::new(0));
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let (pairs, next) = (self.pairs.clone(), next.clone());
                let mut connection = self.connection.clone();
                tasks.spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= NAMES * TIMES {
                            return;
                        }
                        for command in &pairs[number % NAMES] {
                            connection.send_packed_command(command).await.unwrap();
                        }
                    }
                });
            }
            tasks.join_all().await;
        });
    }
}

/// A client in a runtime of its own.
struct Ours {
    runtime: Runtime,
    threads: &'static str,
    locks: Arc<Vec<Lock>>,
    rate: Turns,
    /// The client's processor time per pair, beside the server's.
    cpu: Turns,
}

impl Ours {
    fn new(server: &Server, names: &[String], runtime: Runtime, threads: &'static str) -> Self {
        let client = runtime.block_on(Client::connect(server.url())).unwrap();
        let locks = names.iter().map(|name| client.lock(name)).collect();
        Self {
            runtime,
            threads,
            locks: Arc::new(locks),
            rate: Turns::default(),
            cpu: Turns::default(),
        }
    }

    /// Every task takes the next name, so as many are in flight as there are tasks, and none is contended.
    fn run(&mut self) {
        self.runtime.block_on(async {
            let next = Arc::new(AtomicUsize::new(0));
            let mut tasks = JoinSet::new();
            for _ in 0..TASKS {
                let (locks, next) = (self.locks.clone(), next.clone());
                tasks.spawn(async move {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= NAMES * TIMES {
                            return;
                        }
                        let guard = locks[number % NAMES].lock().await.unwrap();
                        guard.unlock().await.unwrap();
                    }
                });
            }
            tasks.join_all().await;
        });
    }

    fn row(&self, must: Must) -> Row {
        let threads = self.threads;
        let what = format!(
            "pairs/s of {TASKS} tasks on {NAMES} names, one connection, {threads} runtime thread(s)"
        );
        rate_row(&what, &self.rate, must)
    }

    fn cpu_row(&self) -> Row {
        cpu_row(
            &format!("the same, {} runtime thread(s)", self.threads),
            &self.cpu,
        )
    }
}

fn rate_row(what: &str, rate: &Turns, must: Must) -> Row {
    Row {
        what: format!("{what}, ÷ ready-made bytes"),
        unit: "/s",
        ours: rate.ours(),
        reference: Some(rate.reference()),
        ratio: Some(rate.ratio()),
        must,
    }
}

fn cpu_row(what: &str, cpu: &Turns) -> Row {
    Row {
        what: format!("{what}: client CPU per pair ÷ server CPU per pair"),
        unit: " µs",
        ours: cpu.ours(),
        reference: Some(cpu.reference()),
        ratio: Some(cpu.ratio()),
        must: Must::Stated,
    }
}

/// The figures of a round: pairs per second, and microseconds of processor time per pair.
struct Cost {
    rate: f64,
    client: f64,
    server: f64,
}

fn cost(server: &Server, run: impl FnOnce()) -> Cost {
    let pairs = (NAMES * TIMES) as f64;
    let before = (server_cpu::cpu(server), own_cpu(), now());
    run();
    let (took, client) = (micros_since(before.2), own_cpu() - before.1);
    Cost {
        rate: pairs * 1e6 / took,
        client: client as f64 / 1e3 / pairs,
        server: (server_cpu::cpu(server) - before.0) * 1e6 / pairs,
    }
}
