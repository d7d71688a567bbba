//! `--help` and `--version`.

use crate::{ferrolock, printed};

#[test]
fn every_help_has_examples() {
    for words in [
        &["--help"][..],
        &["run", "--help"],
        &["completions", "--help"],
        &["man", "--help"],
    ] {
        let help = printed(words);

        assert!(help.contains("\nExamples:\n"), "{help}");
        assert!(help.contains("Usage: ferrolock"), "{help}");
    }
}

#[test]
fn the_help_of_run_lists_every_exit_code() {
    let help = printed(&["run", "--help"]);

    for code in ["64", "69", "71", "75", "76", "126", "127", "128+N"] {
        assert!(help.contains(&format!("\n  {code} ")), "{code}");
    }
}

#[test]
fn version_prints_name_and_version() {
    let version = format!("ferrolock {}\n", env!("CARGO_PKG_VERSION"));

    assert_eq!(printed(&["--version"]), version);
}

#[test]
fn a_mistake_is_one_line_on_the_error_output() {
    for words in [
        &[][..],
        &["ran"],
        &["--no-such-option"],
        &["completions", "tcl"],
        &["man", "ran"],
    ] {
        let output = ferrolock(words);

        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(64), "{words:?}");
        assert!(output.stdout.is_empty());
        assert!(
            errors.starts_with("ferrolock: ") && errors.lines().count() == 1,
            "{errors}"
        );
        assert!(errors.contains("--help"), "{errors}");
    }
}
