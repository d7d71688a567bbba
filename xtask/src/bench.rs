//! `cargo xtask bench`: runs the `bench` package, with servers, and with Redisson for the benchmark that compares with it.

use crate::java::Java;
use crate::servers::Servers;
use crate::{shell, workspace};

/// The benchmark that runs Redisson.
const PEERS: &str = "peers";

pub(crate) fn run(name: &str, rest: &[&str]) -> Result<(), String> {
    let root = workspace::root()?;
    let there = workspace::members(&root)?
        .iter()
        .any(|package| workspace::text(package, "name") == "bench");
    if !there {
        return Err("this workspace has no package `bench`, so there is nothing to run".to_owned());
    }
    let servers = Servers::get(&root);
    for line in &servers.missing {
        eprintln!("MISSING {line}");
    }
    if name == PEERS
        && let Some(why) = Java::get(&root).missing
    {
        return Err(format!("MISSING {why}"));
    }
    let mut command = shell::cargo(&root);
    command
        .args(["run", "--quiet", "--release", "-p", "bench", "--", name])
        .args(rest);
    servers.hand_to(&mut command);
    shell::run(&mut command)
}
