//! From a release in one process to running in another: through a directory, and through a server's messages.

use crate::lock::handover::Pair;
use crate::reference::one_thread;
use crate::report::{Must, Row};
use crate::rounds::Turns;
use testkit::Server;

const ROUNDS: usize = 15;

pub(crate) fn measure(server: &Server) -> Vec<Row> {
    let folder = testkit::store_folder();
    let file = format!("file:{}", folder.path().display());
    let mut turns = Turns::default();
    one_thread().block_on(async {
        let mut ours = Pair::at(&file, None).await;
        let mut reference = Pair::at(&server.url(), None).await;
        for round in 0..=ROUNDS {
            let (ours, _) = ours.round().await;
            let (reference, _) = reference.round().await;
            // The first round warms up.
            if round > 0 {
                turns.push(ours, reference);
            }
        }
    });
    vec![Row {
        what: format!(
            "p50 from release in one process to running in another, `file:` ÷ {} by TCP",
            server.kind().name()
        ),
        unit: " µs",
        ours: turns.ours(),
        reference: Some(turns.reference()),
        ratio: Some(turns.ratio()),
        must: Must::AtMost(1.5),
    }]
}
