//! A lock is not reported lost because connections are killed all the time. On servers only: the embedded engines have no
//! connections.

use std::time::{Duration, Instant};

use ferrolock::{Client, Guard, HoldState, Unlocked};
use testkit::{Kind, Server};

use crate::stage::ms;
use crate::support::LEASE;

const STORM: Duration = Duration::from_secs(30);
const EVERY: Duration = ms(50);

on_each_server!(no_false_alarm_while_all_connections_are_killed_every_50_ms_for_30_s);

async fn no_false_alarm_while_all_connections_are_killed_every_50_ms_for_30_s(kind: Kind) {
    let server = Server::start(kind);
    let client = Client::connect(server.url()).await.unwrap();
    let mut guards: Vec<Guard> = Vec::new();
    for (name, lease) in [
        ("long", ms(30_000)),
        ("middle", ms(10_000)),
        ("short", LEASE),
    ] {
        let lock = client.lock(name).watchdog_lease(lease);
        guards.push(lock.lock().await.unwrap());
    }
    let mut killer = server.connect();
    let (begun, mut killed) = (Instant::now(), 0);
    let mut ticks = tokio::time::interval(EVERY);
    while begun.elapsed() < STORM {
        ticks.tick().await;
        killed += killer
            .command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"])
            .int();
        for guard in &guards {
            assert!(
                guard.is_held(),
                "{kind:?}: {guard:?} after {:?}",
                begun.elapsed()
            );
        }
    }

    eprintln!("{kind:?}: {killed} connections killed in {STORM:?}");
    // A connection is killed as often as the client reconnects: the keeper's pauses grow to a thirtieth of the shortest lease.
    assert!(killed > 100, "the storm blew: {killed}");
    for guard in guards {
        assert!(!matches!(guard.state(), HoldState::Lost(_)), "{guard:?}");
        assert_eq!(guard.unlock().await.unwrap(), Unlocked::Released);
    }
}
