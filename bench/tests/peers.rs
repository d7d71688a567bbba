//! Checks that the benchmark beside Redisson runs, and reports what it should.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code"
)]

use serde_json::Value;
use std::process::Command;
use testkit::{Kind, Redisson};

fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(args);
    command
}

#[test]
fn a_quick_run_compares_both_and_counts_exactly() {
    if !Redisson::Newest.is_here() || !Kind::Redis.is_here() {
        return;
    }
    let rows = "pair,processes-2";

    let output = bench(&["peers", "--quick", "--json", "--only", rows])
        .output()
        .unwrap();

    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["quick"], true);
    assert_eq!(told["redisson"], Redisson::Newest.version());
    let [pair, contended] = told["rows"].as_array().unwrap().as_slice() else {
        panic!("not two rows: {told}");
    };
    assert_eq!(pair["ours"]["commands"], 2.0);
    // At times Redisson renews a lock that was just released.
    assert!(pair["rivals"]["commands"].as_f64() >= Some(3.0), "{pair}");
    assert!(pair["ratio"].as_f64().unwrap() > 0.0);
    let counts = contended["counted_exactly"].as_array().unwrap();
    let who: Vec<_> = counts.iter().map(|count| &count["who"]).collect();
    assert_eq!(who, ["ours", "Redisson", "ours and Redisson"]);
    assert!(counts.iter().all(|count| count["count"].as_u64() > Some(0)));
}

#[test]
fn without_java_it_fails_and_says_why() {
    let output = bench(&["peers", "--quick"])
        .env("FERROLOCK_NO_JAVA", "1")
        .env_remove("CI")
        .env_remove("FERROLOCK_REQUIRE_JAVA")
        .output()
        .unwrap();

    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("Java"), "{errors}");
}
