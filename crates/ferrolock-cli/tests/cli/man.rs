//! `ferrolock man`.

use crate::printed;

#[test]
fn ferrolock_and_its_subcommand_run_have_a_manual_page() {
    let (whole, run) = (printed(&["man"]), printed(&["man", "run"]));

    assert!(whole.contains(".TH ferrolock 1"), "{whole}");
    assert!(run.contains(".TH ferrolock-run 1"), "{run}");
    assert!(
        run.contains("max\\-hold") && run.contains("Exit code"),
        "{run}"
    );
    assert!(
        run.contains(r"ferrolock run [OPTIONS] <NAME> \-\- <COMMAND>..."),
        "{run}"
    );
}
