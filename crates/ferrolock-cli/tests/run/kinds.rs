//! The kinds of locks that a run can take.

use crate::stage::Stage;

/// Every kind that `--kind` offers.
const KINDS: [&str; 3] = ["lock", "fenced", "spin"];

stories!(
    runs_of_every_kind_take_turns,
    a_fenced_run_has_a_fence_that_grows,
    a_run_of_another_kind_has_no_fence,
);

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
