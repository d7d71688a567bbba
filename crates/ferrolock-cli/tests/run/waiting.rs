//! What a waiting `ferrolock` shows on the terminal.

use testkit::{LIMIT, eventually};

use crate::pty::Pty;
use crate::stage::Stage;

stories!(the_holder_is_shown_on_one_line_that_is_cleared_later);

fn the_holder_is_shown_on_one_line_that_is_cleared_later(stage: &Stage) {
    let _holder = stage.start(&[
        "--label",
        "the report",
        "x",
        "--",
        "sh",
        "-c",
        "echo up > up; until [ -e go ]; do sleep 0.02; done",
    ]);
    stage.wait_for("up");
    let mut terminal = Pty::open();
    let mut command = stage.command(&["run", "x", "--", "echo", "mine"]);
    let mut waiter = command
        .stdout(terminal.stream())
        .stderr(terminal.stream())
        .spawn()
        .unwrap();
    terminal.wait_for("waiting for \"x\": held by the report on");

    std::fs::write(stage.path("go"), "").unwrap();

    terminal.wait_for("mine");
    eventually(LIMIT, "its end", || waiter.try_wait().unwrap().is_some());
    let text = terminal.text();
    let (before, after) = text.split_at(text.rfind("\r\x1b[K").unwrap());
    assert!(!before.contains('\n'), "one line only: {text:?}");
    assert_eq!(after, "\r\x1b[Kmine\r\n");
}
