//! Without a server, or without Java, a test reports that it was left out, or fails where no test may be left out.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::process::{Command, Output};
use testkit::{Redisson, servers};

/// Does what every test does that runs on every server.
#[test]
fn on_every_server() {
    servers();
}

/// Does what every test does that uses Redisson.
#[test]
fn with_every_redisson() {
    for redisson in Redisson::ALL {
        redisson.is_here();
    }
}

/// Runs one of these two tests again, alone, where neither a server nor Java can be found.
fn again(test: &str, required: Option<(&str, &str)>) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--exact"])
        .env_remove("CI")
        .env_remove("FERROLOCK_REQUIRE_SERVERS")
        .env_remove("FERROLOCK_REQUIRE_JAVA")
        .env("FERROLOCK_NO_SERVERS", "1")
        .env("FERROLOCK_NO_JAVA", "1")
        .envs(required)
        .output()
        .unwrap()
}

#[test]
fn a_test_that_was_left_out_is_named_for_each_server() {
    let ended = again("on_every_server", None);

    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    for kind in ["redis", "valkey"] {
        let line = format!("NOT RUN on {kind}: on_every_server");
        assert!(said.lines().any(|said| said == line), "{said}");
    }
}

#[test]
fn a_test_that_was_left_out_is_named_for_each_redisson() {
    let ended = again("with_every_redisson", None);

    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(ended.status.success(), "{said}");
    for redisson in Redisson::ALL {
        let line = format!(
            "NOT RUN with Redisson {}: with_every_redisson",
            redisson.version()
        );
        assert!(said.lines().any(|said| said == line), "{said}");
    }
}

#[test]
fn a_test_that_may_not_be_left_out_fails() {
    let servers = ("on_every_server", "no redis server found");
    let java = ("with_every_redisson", "to talk to: FERROLOCK_NO_JAVA=1");
    for (required, (test, complaint)) in [
        (("CI", "true"), servers),
        (("CI", "true"), java),
        (("FERROLOCK_REQUIRE_SERVERS", "1"), servers),
        (("FERROLOCK_REQUIRE_JAVA", "1"), java),
    ] {
        let ended = again(test, Some(required));

        let said = String::from_utf8(ended.stdout).unwrap();
        assert!(!ended.status.success(), "{required:?}: {said}");
        assert!(said.contains(complaint), "{said}");
    }
}

#[test]
fn requiring_servers_does_not_require_java() {
    let ended = again(
        "with_every_redisson",
        Some(("FERROLOCK_REQUIRE_SERVERS", "1")),
    );

    assert!(ended.status.success());
}
