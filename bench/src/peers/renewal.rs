//! What ten thousand held locks cost while they are only renewed.

use super::duel::{Better, Limits, Plan, Record, Row, Side, WarmUp, Work};
use super::meter::{Commands, count_commands, spend};
use super::party::{Party, Whose};
use crate::stage::Stage;
use serde_json::json;
use std::time::Duration;
use testkit::{Server, eventually};

/// Two periods of renewal by the default lease of 30 s; commands are counted, and the first period warms up.
const COUNTED: Duration = Duration::from_secs(20);
/// Three periods, without `MONITOR`: only the processor time is read, before and after.
const WATCHED: Duration = Duration::from_secs(30);

pub(crate) fn measure(stage: &Stage) -> Row {
    let locks = stage.count(10_000);
    let [mut ours, mut rivals] = [0; 2].map(|_| Record {
        commands: Commands::default(),
        rounds: Vec::new(),
    });
    let rounds = stage.rounds(2);
    for round in 0..rounds {
        let sides = [(Whose::Ours, &mut ours), (Whose::Redisson, &mut rivals)];
        let mut sides = Vec::from(sides);
        // Neither is always the first.
        sides.rotate_left(round % 2);
        for (whose, record) in sides {
            hold(stage, whose, locks, record);
        }
    }
    let plan = Plan {
        what: format!("commands/s that renew {locks} holds, lease 30 s"),
        rival: Whose::Redisson.name(),
        unit: "/s",
        operation: "second",
        better: Better::Lower,
        rounds,
        round: stage.round(WATCHED),
        warm_up: Limits {
            least: stage.round(COUNTED),
            most: stage.round(COUNTED),
            step: stage.round(COUNTED),
        },
    };
    Row {
        plan,
        warm_up: WarmUp::default(),
        ours,
        rivals,
        exact: Vec::new(),
    }
}

/// A round of one side: a new process, which ends with the round.
fn hold(stage: &Stage, whose: Whose, locks: u64, record: &mut Record) {
    let server = &stage.server;
    server.command(&["FLUSHALL"]);
    let mut holder = Holder {
        party: Party::start(whose, 1, server),
    };
    let for_ms = Duration::from_secs(3600).as_millis() as u64;
    let asked = json!({"prefix": "held/", "names": locks, "for_ms": for_ms});
    // We do not wait for the answer: Redisson's driver answers when it has released them.
    let _begun = holder.party.begin_one(0, "holds", asked);
    let limit = Duration::from_secs(120);
    eventually(limit, "all locks are held", || held(server) == locks);

    let counted = stage.round(COUNTED);
    record.commands = count_commands(server, || holder.work(counted).operations);
    let mut spent = spend(server, &mut holder, stage.round(WATCHED));
    assert_eq!(held(server), locks, "a lock of {} was lost", whose.name());
    spent.work.value = record.commands.total();
    eprintln!("  {}: {spent:?}, {:?}", whose.name(), record.commands);
    record.rounds.push(spent);
}

fn held(server: &Server) -> u64 {
    server.command(&["DBSIZE"]).int().try_into().unwrap()
}

/// A process that holds locks and does nothing else.
struct Holder {
    party: Party,
}

impl Side for Holder {
    fn work(&mut self, time: Duration) -> Work {
        std::thread::sleep(time);
        Work {
            value: 0.0,
            operations: time.as_secs_f64(),
        }
    }

    fn cpu(&self) -> Duration {
        self.party.cpu()
    }
}
