//! The multi lock: commands of a pair that is not contended, and attempts of those that are.

use super::plain_row;
use crate::lock::bare;
use crate::reference::one_thread;
use crate::report::{Must, Row};
use crate::seen::count_calls;
use crate::stage::Stage;
use ferrolock::{Client, MultiLock};
use sha1_smol::Sha1;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::Server;
use tokio::task::JoinSet;

const MEMBERS: usize = 4;
const PAIRS: u64 = 1000;

/// Of these names each task takes four at random.
const NAMES: usize = 6;
const CLIENTS: usize = 4;
const TASKS_EACH: usize = 2;
const ACQUISITIONS_EACH: u64 = 100;

const ACQUIRE: &str = concat!(
    include_str!("../../../crates/ferrolock/src/protocol/lock/take.lua"),
    "\n",
    include_str!("../../../crates/ferrolock/src/protocol/fenced_lock/grant.lua"),
    "\n",
    include_str!("../../../crates/ferrolock/src/protocol/multi_lock/acquire.lua"),
);

pub(crate) fn commands(stage: &Stage) -> Vec<Row> {
    let pairs = stage.count(PAIRS);
    let runtime = one_thread();
    let client = runtime
        .block_on(Client::connect(stage.server.url()))
        .unwrap();
    let lock = MultiLock::new((0..MEMBERS).map(|member| client.lock(format!("multi/{member}"))));
    let work = |pairs| {
        runtime.block_on(async {
            for _ in 0..pairs {
                lock.lock().await.unwrap().unlock().await.unwrap();
            }
        });
    };
    work(1);
    // The keeper connects at the first hold, in the background.
    std::thread::sleep(Duration::from_millis(200));
    let (calls, ()) = count_calls(&stage.server, || work(pairs));
    vec![plain_row(
        format!("multi lock of {MEMBERS} on one server: commands per uncontended lock+unlock pair"),
        "",
        calls.values().sum::<u64>() as f64 / pairs as f64,
        stage.must(Must::AtMost(5.0)),
    )]
}

pub(crate) fn attempts(stage: &Stage) -> Vec<Row> {
    let each = stage.count(ACQUISITIONS_EACH);
    let runtime = one_thread();
    let clients = runtime.block_on(connect_all(&stage.server));
    let contend = || runtime.block_on(contend(&clients, each));
    let (calls, ()) = count_calls(&stage.server, contend);
    let acquisitions = ((CLIENTS * TASKS_EACH) as u64 * each) as f64;
    let shape = format!(
        "{CLIENTS} clients with {TASKS_EACH} tasks each, {MEMBERS} of {NAMES} names at random"
    );
    let all = calls.values().sum::<u64>() as f64 / acquisitions;
    vec![
        plain_row(
            format!("multi lock, {shape}: attempts per acquisition"),
            "",
            attempts_in(&calls) as f64 / acquisitions,
            Must::Stated,
        ),
        plain_row(
            "the same: commands per acquisition and release".to_owned(),
            "",
            all,
            Must::Stated,
        ),
    ]
}

async fn connect_all(server: &Server) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Client::connect(server.url()).await.unwrap());
    }
    clients
}

async fn contend(clients: &[Client], each: u64) {
    let mut tasks = JoinSet::new();
    let contenders = clients.iter().cycle().take(CLIENTS * TASKS_EACH);
    for (task, client) in contenders.enumerate() {
        let client = client.clone();
        tasks.spawn(async move {
            let mut random = fastrand::Rng::with_seed(task as u64);
            for _ in 0..each {
                let members = random.choose_multiple(0..NAMES, MEMBERS);
                let members = members
                    .iter()
                    .map(|name| client.lock(format!("multi/{name}")));
                let lock = MultiLock::new(members);
                lock.lock().await.unwrap().unlock().await.unwrap();
            }
        });
    }
    tasks.join_all().await;
}

/// Calls of the scripts that take one lock, or several.
fn attempts_in(calls: &BTreeMap<String, u64>) -> u64 {
    [bare::ACQUIRE, ACQUIRE]
        .iter()
        .filter_map(|script| calls.get(&format!("EVALSHA {}", Sha1::from(script).digest())))
        .sum()
}
