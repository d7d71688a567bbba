//! Words, white space and paths that do not belong into the tree.

use super::Finding;
use crate::tree::Tree;

/// Where a word is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Where {
    /// In everything written by hand.
    Text,
    /// Not in prose, which may have to name it.
    Source,
}

/// Put together from halves, so that this file does not hold them.
const WORDS: [(&str, Where, &str); 8] = [
    (concat!("TO", "DO"), Where::Source, "do it, or leave it out"),
    (
        concat!("FIX", "ME"),
        Where::Source,
        "do it, or leave it out",
    ),
    (concat!("X", "XX"), Where::Source, "do it, or leave it out"),
    (concat!("dbg", "!"), Where::Source, "left over"),
    (
        concat!("#[ign", "ore"),
        Where::Source,
        "a test runs, or goes",
    ),
    (
        concat!("no_", "run"),
        Where::Source,
        "examples run, on the embedded engine",
    ),
    (
        concat!("```ign", "ore"),
        Where::Text,
        "examples run, on the embedded engine",
    ),
    (
        concat!("sim", "ply"),
        Where::Text,
        "if it were, it would not need saying",
    ),
];

/// Folders that exist on one machine only.
const PATHS: [&str; 3] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
];

const SOURCES: [&str; 6] = [".rs", ".lua", ".toml", ".sh", ".java", ".ci/run"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts() {
        let is_source = SOURCES.iter().any(|end| path.ends_with(end));
        if is_source || path.ends_with(".md") {
            for (line, text) in (1..).zip(text.lines()) {
                check_line(path, line, text, is_source, &mut findings);
            }
        }
    }
    findings
}

fn check_line(path: &str, line: usize, text: &str, is_source: bool, into: &mut Vec<Finding>) {
    for (word, place, instead) in WORDS {
        if (is_source || place == Where::Text) && has_word(text, word) {
            into.push(Finding::new(path, line, format!("`{word}`: {instead}")));
        }
    }
    for folder in PATHS {
        if has_path(text, folder) {
            let what = format!("`{folder}`: a path of one machine");
            into.push(Finding::new(path, line, what));
        }
    }
    if text.ends_with([' ', '\t']) {
        into.push(Finding::new(path, line, "white space at the end"));
    }
    if path.ends_with(".rs") && text.contains('\t') {
        into.push(Finding::new(path, line, "a tab"));
    }
}

/// Whether `word` stands in `text` and is not part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    let joins = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|rest| rest.chars().next_back());
        let after = text
            .get(at + word.len()..)
            .and_then(|rest| rest.chars().next());
        let starts_bare = !(joins(word.chars().next()) && joins(before));
        let ends_bare = !(joins(word.chars().next_back()) && joins(after));
        starts_bare && ends_bare
    })
}

/// Whether `folder` stands in `text` as the start of a path.
fn has_path(text: &str, folder: &str) -> bool {
    text.match_indices(folder).any(|(at, _)| {
        let before = text.get(..at).and_then(|rest| rest.chars().next_back());
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-~/}*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&Tree::of(&[(path, text)])).len()
    }

    #[test]
    fn every_banned_word_is_found_in_source() {
        for (word, ..) in WORDS {
            assert_eq!(found("x.rs", &format!("// {word} later")), 1, "{word}");
        }
    }

    #[test]
    fn a_word_inside_a_longer_one_is_another_word() {
        let word = concat!("TO", "DO");

        assert_eq!(found("x.rs", &format!("{word}S and A{word}")), 0);
    }

    #[test]
    fn prose_may_name_words_that_are_banned_from_source() {
        assert_eq!(found("x.md", concat!("no `TO", "DO` in source")), 0);
        assert_eq!(found("x.md", concat!("it is sim", "ply so")), 1);
    }

    #[test]
    fn paths_of_a_machine_are_found_and_parts_of_other_paths_are_not() {
        let folder = concat!("/ho", "me/");

        assert_eq!(found("x.toml", &format!("path = \"{folder}me/x\"")), 1);
        assert_eq!(found("x.md", &format!("https://example.org{folder}x")), 0);
    }

    #[test]
    fn white_space_at_the_end_and_tabs_are_found() {
        assert_eq!(found("x.lua", "local a = 1 \nlocal b"), 1);
        assert_eq!(found("x.rs", "\tfn f() {}"), 1);
        assert_eq!(found("x.rs", "    fn f() {}"), 0);
    }
}
