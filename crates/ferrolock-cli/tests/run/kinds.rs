//! The kinds of locks that a run can take.

use crate::stage::Stage;

/// Every kind with one holder at a time.
const KINDS: [&str; 5] = ["lock", "fair", "write", "fenced", "spin"];

stories!(
    runs_of_every_kind_take_turns,
    a_fenced_run_has_a_fence_that_grows,
    a_run_of_another_kind_has_no_fence,
    reading_runs_go_side_by_side_and_none_beside_a_writing_one,
    a_run_of_several_names_takes_turns_with_runs_of_each,
    a_run_inside_that_would_wait_for_one_of_several_names_is_refused,
    a_run_of_several_fenced_names_has_a_fence_for_each,
);

/// A command that says so when it runs, and ends when it is told to.
fn until_told(stage: &Stage, words: &[&str], what: &str) -> crate::run::Run {
    let script = format!("echo up > up-{what}; until [ -e go-{what} ]; do sleep 0.02; done");
    let run = stage.start(&[&["--lease", "60s"], words, &["--", "sh", "-c", &script]].concat());
    stage.wait_for(&format!("up-{what}"));
    run
}

fn tell(stage: &Stage, what: &str) {
    std::fs::write(stage.path(&format!("go-{what}")), "").unwrap();
}

fn reading_runs_go_side_by_side_and_none_beside_a_writing_one(stage: &Stage) {
    let first = until_told(stage, &["--kind", "read", "x"], "first");
    let second = until_told(stage, &["--kind", "read", "x"], "second");

    let write = ["--try", "--kind", "write", "x", "--", "true"];
    assert_eq!(stage.run(&write).code, 75);
    tell(stage, "first");
    tell(stage, "second");
    assert_eq!((first.end().code, second.end().code), (0, 0));

    let writes = until_told(stage, &["--kind", "write", "x"], "third");
    let read = ["--try", "--kind", "read", "x", "--", "true"];
    assert_eq!(stage.run(&read).code, 75);
    tell(stage, "third");
    assert_eq!(writes.end().code, 0);
    assert_eq!(stage.run(&read).code, 0);
}

fn a_run_of_several_names_takes_turns_with_runs_of_each(stage: &Stage) {
    let several = until_told(stage, &["a", "--also", "b", "--also", "c"], "several");

    for name in ["a", "b", "c"] {
        assert_eq!(stage.run(&["--try", name, "--", "true"]).code, 75, "{name}");
    }
    tell(stage, "several");
    assert_eq!(several.end().code, 0);

    let one = until_told(stage, &["b"], "one");
    let busy = stage.run(&["--try", "a", "--also", "b", "--", "true"]);
    assert_eq!(busy.code, 75, "{busy:?}");
    assert_eq!(stage.run(&["--try", "a", "--", "true"]).code, 0);
    tell(stage, "one");
    assert_eq!(one.end().code, 0);
}

fn a_run_inside_that_would_wait_for_one_of_several_names_is_refused(stage: &Stage) {
    let inner = "\"$0\" run c --also b -- true";
    let program = env!("CARGO_BIN_EXE_ferrolock");

    let ended = stage.run(&["a", "--also", "b", "--", "sh", "-c", inner, program]);

    assert_eq!(ended.code, 64, "{ended:?}");
    assert!(ended.errors.contains("lock \"b\" is held by"), "{ended:?}");
}

fn a_run_of_several_fenced_names_has_a_fence_for_each(stage: &Stage) {
    let echo = ["--", "sh", "-c", "echo $FERROLOCK_FENCE"];
    let words = ["--kind", "fenced", "b", "--also", "a"];

    let ended = stage.run(&[&words[..], &echo].concat());

    let fences: Vec<ferrolock::Fence> = ended
        .output
        .split_whitespace()
        .map(|fence| fence.parse().unwrap())
        .collect();
    assert_eq!(fences.len(), 2, "{ended:?}");
}

fn runs_of_every_kind_take_turns(stage: &Stage) {
    for kind in KINDS {
        let (up, go) = (format!("up-{kind}"), format!("go-{kind}"));
        let script = format!("echo up > {up}; until [ -e {go} ]; do sleep 0.02; done");
        let of_kind = ["--kind", kind, "--lease", "60s", kind, "--"];
        let holder = stage.start(&[&of_kind[..], &["sh", "-c", &script]].concat());
        stage.wait_for(&up);

        let busy = stage.run(&[&["--try"], &of_kind[..], &["true"]].concat());
        assert_eq!(busy.code, 75, "{kind}: {busy:?}");
        let waiter = stage.start(&[&of_kind[..], &["echo", "mine"]].concat());
        std::fs::write(stage.path(&go), "").unwrap();

        assert_eq!(holder.end().code, 0, "{kind}");
        assert_eq!(waiter.end().output, "mine\n", "{kind}");
    }
}

fn a_fenced_run_has_a_fence_that_grows(stage: &Stage) {
    let fence = || {
        let echo = [
            "--kind",
            "fenced",
            "x",
            "--",
            "sh",
            "-c",
            "echo $FERROLOCK_FENCE",
        ];
        let ended = stage.run(&echo);
        ended.output.trim().parse::<ferrolock::Fence>().unwrap()
    };

    let fences = [fence(), fence(), fence()];

    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
}

fn a_run_of_another_kind_has_no_fence(stage: &Stage) {
    let inner = "\"$0\" run inner -- sh -c 'echo \"[$FERROLOCK_FENCE]\"'";
    let program = env!("CARGO_BIN_EXE_ferrolock");
    let words = [
        "--kind", "fenced", "outer", "--", "sh", "-c", inner, program,
    ];

    assert_eq!(stage.run(&words).output, "[]\n");
}
