//! `docs/cli.md` is made of the help texts.

use std::path::Path;

use crate::printed;

/// Set to 1, the test writes the page before it compares.
const WRITE: &str = "FERROLOCK_WRITE_DOCS";

const HEAD: &str = "\
# The command line

Generated from `ferrolock --help` by `FERROLOCK_WRITE_DOCS=1 cargo test -p ferrolock-cli --test cli`; do not edit it by hand.
";

#[test]
fn the_page_says_what_the_help_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = page();
    if std::env::var(WRITE).is_ok_and(|value| value == "1") {
        std::fs::write(&path, &page).unwrap();
    }

    let written = std::fs::read_to_string(&path).unwrap_or_default();

    assert!(
        written == page,
        "docs/cli.md is out of date: run this test with {WRITE}=1"
    );
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (title, words) in [
        ("ferrolock", &["--help"][..]),
        ("ferrolock run", &["run", "--help"]),
        ("ferrolock completions", &["completions", "--help"]),
        ("ferrolock man", &["man", "--help"]),
    ] {
        let help = printed(words);
        let lines: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
        page += &format!("\n## `{title}`\n\n```text\n{}\n```\n", lines.join("\n"));
    }
    page
}
