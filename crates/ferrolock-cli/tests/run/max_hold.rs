//! `--max-hold`: the longest time a command may run.

use crate::run::{assert_term_before_kill, living_in_group};
use crate::stage::Stage;

stories!(
    a_command_gets_term_the_grace_before_its_time_is_over,
    a_command_that_ignores_term_gets_kill,
    term_comes_first_also_with_on_lost_kill,
    a_command_that_ends_sooner_is_not_disturbed,
);

fn a_command_gets_term_the_grace_before_its_time_is_over(stage: &Stage) {
    let script = "trap 'echo term > term; exit 0' TERM; while :; do sleep 0.02; done";

    let ended = stage.run(&[
        "--json",
        "--max-hold",
        "4s",
        "--grace",
        "2s",
        "x",
        "--",
        "sh",
        "-c",
        script,
    ]);

    assert_eq!(ended.code, 76);
    assert_eq!(stage.read("term"), "term\n");
    assert!(ended.errors.contains("--max-hold"), "{ended:?}");
    assert!(ended.errors.contains("\"signal\":\"TERM\""), "{ended:?}");
    // The lock was still ours, and its release is confirmed.
    assert!(ended.errors.contains("\"released\""), "{ended:?}");
    assert!(stage.is_free("x"));
}

fn a_command_that_ignores_term_gets_kill(stage: &Stage) {
    term_comes_before_kill(stage, "term");
}

fn term_comes_first_also_with_on_lost_kill(stage: &Stage) {
    term_comes_before_kill(stage, "kill");
}

fn term_comes_before_kill(stage: &Stage, on_lost: &str) {
    // The lock is renewed meanwhile: the limit is longer than the lease.
    let script = "trap '' TERM; sleep 1000 & echo $$ > leader; wait; sleep 1000";
    let run = stage.start(&[
        "--json",
        "--lease",
        "1s",
        "--max-hold",
        "2s",
        "--on-lost",
        on_lost,
        "x",
        "--",
        "sh",
        "-c",
        script,
    ]);
    let group = stage.wait_for("leader").trim().parse().unwrap();

    let ended = run.end();

    assert_eq!(ended.code, 76);
    assert_term_before_kill(&ended);
    assert!(ended.errors.contains("--max-hold"), "{ended:?}");
    assert!(living_in_group(group).is_empty());
}

fn a_command_that_ends_sooner_is_not_disturbed(stage: &Stage) {
    let ended = stage.run(&["--max-hold", "1h", "x", "--", "sh", "-c", "exit 3"]);

    assert_eq!((ended.code, ended.errors.as_str()), (3, ""));
}
