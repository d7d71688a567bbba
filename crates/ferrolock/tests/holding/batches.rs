//! A hundred holds that are renewed with one call: each gets its own result. On servers only: an embedded engine has no
//! access lists, and only a server shows which commands it received.

use ferrolock::LostReason;
use testkit::{Kind, LIMIT, Server, eventually_async};

use crate::stage::ms;
use crate::support::{Renewals, client, is_release};

on_each_server!(of_a_hundred_holds_four_end_in_different_ways_and_96_stay);

async fn of_a_hundred_holds_four_end_in_different_ways_and_96_stay(kind: Kind) {
    let server = Server::builder(kind)
        .acl("default on nopass ~* &* +@all")
        .start();
    let client = client(&server).await;
    let renewals = Renewals::of(&server);
    let lease = ms(4500);
    let mut holders = tokio::task::JoinSet::new();
    for n in 0..100 {
        let name = match n {
            1 => "secret:1".to_owned(),
            _ => format!("open:{n}"),
        };
        let lock = client.lock(name).watchdog_lease(lease);
        holders.spawn(async move { (n, lock.lock().await.unwrap()) });
    }
    let mut guards = holders.join_all().await;
    guards.sort_by_key(|(n, _)| *n);
    let mut guards: Vec<_> = guards.into_iter().map(|(_, guard)| guard).collect();
    // First, all are renewed once.
    eventually_async(LIMIT, "a renewal", async || renewals.count("open:99") > 0).await;
    server.command(&["SET", "open:0", "not a lock"]);
    let rights = ["resetkeys", "~open:*", "~redisson_lock__channel:{open:*"];
    server.command(&[&["ACL", "SETUSER", "default"], &rights[..]].concat());
    server.command(&["DEL", "open:2"]);
    server.command(&["HSET", "open:2", "another client:1", "1"]);
    guards.remove(3).unlock().await.unwrap();
    let others = guards.split_off(3);
    let [bad, forbidden, taken] = guards.try_into().unwrap();

    assert_eq!(taken.lost().await, LostReason::TakenOver);
    assert_eq!(bad.lost().await, LostReason::Expired);
    assert_eq!(forbidden.lost().await, LostReason::Expired);
    tokio::time::sleep(lease).await;

    assert_eq!(others.len(), 96);
    for guard in &others {
        assert!(guard.is_held(), "{guard:?}");
    }
    let lines = renewals.lines();
    let released = lines.iter().position(|line| is_release(line, "open:3"));
    let after = &lines[released.expect("a release")..];
    assert!(!after.iter().any(|line| renewals.is_renewal(line, "open:3")));
    // At least half of the 96 were in one call: how many are renewed at the same point of the time grid depends on the machine.
    let rows = |line: &String| line.matches("\"open:").count();
    let most = after
        .iter()
        .filter(|line| renewals.is_renewal(line, "open:99"))
        .map(rows)
        .max();
    eprintln!("{kind:?}: {most:?} holds in one call");
    assert!(most > Some(48));
}
