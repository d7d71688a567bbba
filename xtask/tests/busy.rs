//! The processes that make a machine busy end by themselves.

use std::process::{Command, Stdio};
use testkit::{LIMIT, eventually};

/// In whatever way the parent ends, its end of the pipe is closed.
#[test]
fn a_busy_process_ends_with_its_parent() {
    let mut busy = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .arg("--busy")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(busy.try_wait().unwrap().is_none());

    drop(busy.stdin.take());

    let mut ended = None;
    eventually(LIMIT, "the busy process ends", || {
        ended = busy.try_wait().unwrap();
        ended.is_some()
    });
    assert!(ended.unwrap().success());
}
