//! Checks that the benchmark of the lock family runs, and reports what it should.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code"
)]

use serde_json::Value;
use std::process::Command;
use testkit::Kind;

#[test]
fn a_quick_run_measures_every_row() {
    if !Kind::Redis.is_here() {
        return;
    }

    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["family", "--quick", "--json"])
        .output()
        .unwrap();

    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["quick"], true);
    let rows = told["rows"].as_array().unwrap();
    let ours = |what: &str| {
        let row = rows
            .iter()
            .find(|row| row["what"].as_str().unwrap().contains(what));
        let row = row.unwrap_or_else(|| panic!("no row `{what}` in {told}"));
        row["ours"].as_f64().unwrap()
    };
    for what in [
        "fair lock, 10 waiters",
        "beside 1 readers",
        "÷ plain lock for all",
        "p99 of a write",
        "on a quorum of 5, one stopped",
    ] {
        assert!(ours(what) > 0.0, "{what}");
    }
    // Counts are exact in a quick run too, but for heartbeats and renewals.
    assert!((2.0..2.2).contains(&ours("commands per uncontended")));
    assert!((2.9..3.5).contains(&ours("scripts per acquisition")));
    assert!(ours("attempts per acquisition") >= 1.0);
}
