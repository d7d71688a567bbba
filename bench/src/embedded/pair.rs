//! How long one uncontended pair takes, in one task: in memory, in a directory, on a server by TCP.

use crate::lock::pairs;
use crate::reference::one_thread;
use crate::report::{Must, Row};
use crate::rounds::Turns;
use ferrolock::Client;
use testkit::Server;

const ROUNDS: usize = 21;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let folder = testkit::store_folder();
    let file = format!("file:{}", folder.path().display());
    let [mut memory, mut directory] = [Turns::default(), Turns::default()];
    one_thread().block_on(async {
        let lock = async |url: &str| Client::connect(url).await.unwrap().lock("pair");
        let [in_memory, in_file, on_server] = [
            lock("memory:").await,
            lock(&file).await,
            lock(&server.url()).await,
        ];
        for round in 0..=ROUNDS {
            let reference = pairs(&on_server).await;
            let (fast, shared) = (pairs(&in_memory).await, pairs(&in_file).await);
            // The first round warms up.
            if round > 0 {
                memory.push(fast, reference);
                directory.push(shared, reference);
            }
        }
    });
    let row = |what: &str, turns: &Turns, must| Row {
        what: format!(
            "p50 of a pair in `{what}`, one task, ÷ on {} by TCP",
            server.kind().name()
        ),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must,
    };
    vec![
        row("memory:", &memory, Must::AtMost(0.2)),
        row("file:", &directory, Must::Stated),
    ]
}
