//! `--json` and `-v`.

use serde_json::Value;

use crate::stage::Stage;

stories!(
    each_step_of_a_run_is_an_event,
    a_wait_that_gets_no_lock_has_events_with_the_holder,
    a_failure_is_an_event_too,
    logs_have_the_address_and_each_step_of_the_run,
);

fn events(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .map(|event| event["event"].as_str().unwrap())
        .collect()
}

fn each_step_of_a_run_is_an_event(stage: &Stage) {
    let ended = stage.run(&[
        "--json",
        "x",
        "--",
        "sh",
        "-c",
        "echo $$ $FERROLOCK_OWNER; exit 3",
    ]);

    let events = events(&ended.errors);
    assert_eq!(kinds(&events), ["acquired", "started", "ended", "released"]);
    let (pid, owner) = ended.output.trim().split_once(' ').unwrap();
    assert_eq!(events[0]["owner"], owner);
    assert_eq!(events[0]["address"], stage.url());
    assert_eq!(events[1]["pid"].to_string(), pid);
    assert_eq!(events[2]["code"], 3);
    assert!(
        events
            .iter()
            .all(|event| event["name"] == "x" && event["time"].is_f64())
    );
}

fn a_wait_that_gets_no_lock_has_events_with_the_holder(stage: &Stage) {
    let holder = stage.start(&[
        "--label",
        "the report",
        "x",
        "--",
        "sh",
        "-c",
        "echo up > up; sleep 1000",
    ]);
    stage.wait_for("up");

    let ended = stage.run(&["--json", "--wait", "2s", "x", "--", "true"]);

    let events = events(&ended.errors);
    assert_eq!(kinds(&events), ["waiting", "busy"]);
    let seen = &events[0]["holders"][0];
    assert_eq!(seen["label"], "the report");
    assert_eq!(seen["pid"], holder.pid().as_raw_pid());
    assert!(seen["held_seconds"].is_f64() && seen["lease_left_seconds"].is_f64());
}

fn a_failure_is_an_event_too(stage: &Stage) {
    let ended = stage.run(&["--json", "x", "--", "no-such-command"]);

    let events = events(&ended.errors);
    assert_eq!(kinds(&events), ["error"]);
    assert_eq!(events[0]["code"], 127);
    assert!(events[0]["message"].as_str().unwrap().contains("not found"));
}

fn logs_have_the_address_and_each_step_of_the_run(stage: &Stage) {
    let ended = stage.run(&["-v", "x", "--", "true"]);

    assert_eq!(ended.code, 0);
    for text in [stage.url(), "acquired", "started", "released"] {
        assert!(ended.errors.contains(text), "{text}: {ended:?}");
    }
    assert!(
        !ended.errors.contains('\x1b'),
        "no colours for a file: {ended:?}"
    );
}
