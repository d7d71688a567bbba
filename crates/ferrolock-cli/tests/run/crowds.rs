//! Many runs at once.

use testkit::Counter;

use crate::run::Run;
use crate::stage::Stage;

stories!(
    twenty_runs_at_once_lose_no_count,
    a_waiter_gets_the_lock_when_the_holder_ends,
);

const COUNT: usize = 20;

fn twenty_runs_at_once_lose_no_count(stage: &Stage) {
    let script = "n=$(cat count 2>/dev/null || echo 0); sleep 0.01; printf %s $((n + 1)) > count";
    let runs: Vec<Run> = (0..COUNT).map(|_| stage.script("x", script)).collect();

    let codes: Vec<i32> = runs.into_iter().map(|run| run.end().code).collect();

    assert_eq!(codes, [0; COUNT]);
    let counted = Counter::file(stage.path("count")).read();
    assert_eq!(counted, COUNT as u64);
}

fn a_waiter_gets_the_lock_when_the_holder_ends(stage: &Stage) {
    let first = stage.script(
        "x",
        "echo up > up; until [ -e go ]; do sleep 0.02; done; echo 1 >> order",
    );
    stage.wait_for("up");
    let second = stage.start(&["--json", "x", "--", "sh", "-c", "echo 2 >> order"]);
    second.wait_for_error("\"waiting\"");

    std::fs::write(stage.path("go"), "").unwrap();

    assert_eq!((first.end().code, second.end().code), (0, 0));
    assert_eq!(stage.read("order"), "1\n2\n");
}
