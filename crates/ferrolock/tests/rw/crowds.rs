//! A thousand readers of one process.

use std::sync::Arc;

use ferrolock::Client;
use testkit::Server;
use tokio::sync::Barrier;

use crate::stage::attempts;
use crate::support::read_together;

server_stories!(a_thousand_readers_cost_two_commands_each_and_none_waits_for_another);

const READERS: usize = 1000;

async fn a_thousand_readers_cost_two_commands_each_and_none_waits_for_another(server: &Server) {
    let client = Client::connect(server.url()).await.unwrap();
    client
        .rw_lock("warm")
        .read()
        .await
        .unwrap()
        .unlock()
        .await
        .unwrap();
    server.command(&["CONFIG", "RESETSTAT"]);
    let all = Arc::new(Barrier::new(READERS));

    for reader in read_together(&client, "shelf", READERS, &all) {
        reader.await.unwrap();
    }

    assert_eq!(attempts(server), 2 * READERS as u64);
    let stats = server.commandstats();
    let subscribed = stats.get("subscribe").copied().unwrap_or_default();
    assert_eq!((server.keys().len(), subscribed), (0, 0));
}
