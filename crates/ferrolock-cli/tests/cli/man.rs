//! `ferrolock man`.

use crate::printed;

#[test]
fn there_is_a_page_for_the_whole_and_for_each_subcommand() {
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
