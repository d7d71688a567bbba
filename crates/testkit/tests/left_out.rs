//! Without a server a test says that it was left out, or fails where nothing may be.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::process::{Command, Output};
use testkit::servers;

/// What a test does that runs on every server.
#[test]
fn on_every_server() {
    servers();
}

/// Runs that test again, alone, where no server can be found.
fn again(required: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["on_every_server", "--exact"])
        .env_remove("CI")
        .env_remove("FERROLOCK_REQUIRE_SERVERS")
        .env("FERROLOCK_NO_SERVERS", "1")
        .envs(required)
        .output()
        .unwrap()
}

#[test]
fn a_test_that_was_left_out_is_named_for_each_server() {
    let ended = again(None);

    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    for kind in ["redis", "valkey"] {
        let line = format!("NOT RUN on {kind}: on_every_server");
        assert!(said.lines().any(|said| said == line), "{said}");
    }
}

#[test]
fn where_nothing_may_be_left_out_it_fails() {
    for required in [("CI", "true"), ("FERROLOCK_REQUIRE_SERVERS", "1")] {
        let ended = again(Some(required));

        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(!ended.status.success(), "{required:?}: {said}");
        assert!(said.contains("no redis server found"), "{said}");
    }
}
