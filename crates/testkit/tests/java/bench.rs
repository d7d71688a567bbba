//! The commands of the benchmarks: their figures are there and consistent.

use super::{Stage, stage};
use std::collections::BTreeMap;
use testkit::Counter;
use testkit::java::json;

type Figures = BTreeMap<String, u64>;

#[test]
fn pairs_are_counted_and_timed_again_and_again() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    for _ in 0..2 {
        let ask = json!({"workers": 3, "prefix": "p", "names": 4, "per_worker": 20});
        let figures: Figures = client.begin("pairs", ask).wait().unwrap();

        assert_eq!(figures["pairs"], 60);
        assert!(figures["p50_ns"] > 0);
        assert!(figures["p50_ns"] <= figures["p99_ns"]);
        assert!(figures["p99_ns"] <= figures["max_ns"]);
        assert!(figures["max_ns"] <= figures["elapsed_ns"]);
        assert!(figures["cpu_ns"] > 0);
    }
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn contenders_count_what_they_did_under_the_lock() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let ask = json!({
        "workers": 3,
        "object": {"kind": "lock", "name": "orders"},
        "counter": {"key": "count"},
        "for_ms": 500,
    });

    let figures: Figures = client.begin("contend", ask).wait().unwrap();

    assert!(figures["acquisitions"] > 0);
    assert_eq!(
        figures["acquisitions"],
        Counter::key(&server, "count").read()
    );
    assert!(figures["in_time"] > 0);
    assert!(figures["in_time"] <= figures["acquisitions"]);
    assert!(figures["least"] <= figures["most"]);
    assert!(3 * figures["most"] >= figures["acquisitions"]);
    assert!(figures["longest_wait_ns"] > 0);
    assert!(figures["elapsed_ns"] >= 500_000_000);
}

#[test]
fn holds_are_kept_for_their_time_and_released() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let ask = json!({"prefix": "h", "names": 10, "for_ms": 300});

    let figures: Figures = client.begin("holds", ask).wait().unwrap();

    assert_eq!(figures["lost"], 0);
    assert!(figures["until"] - figures["from"] >= 300_000_000);
    assert_eq!(server.keys(), [""; 0]);
}

#[test]
fn a_thread_takes_a_lock_and_releases_it_on_command() {
    let Some(Stage { client, server }) = stage() else {
        return;
    };
    let ask = json!({"thread": "a", "object": {"kind": "lock", "name": "orders"}});

    let taken: Figures = client.begin("take", ask.clone()).wait().unwrap();
    let held = server.keys();
    let left: Figures = client.begin("leave", ask).wait().unwrap();

    assert_eq!(held, ["orders"]);
    assert!(taken["at_ns"] <= left["at_ns"]);
    assert_eq!(server.keys(), [""; 0]);
}
