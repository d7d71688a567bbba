//! Relative links in Markdown lead somewhere.

use super::Finding;
use super::markdown;
use crate::tree::{Tree, folder, join};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.ending(".md") {
        for link in markdown::links(text) {
            if let Some(why) = broken(tree, path, &link.target) {
                let what = format!("the link `{}` {why}", link.target);
                findings.push(Finding::new(path, link.line, what));
            }
        }
    }
    findings
}

fn broken(tree: &Tree, from: &str, link: &str) -> Option<&'static str> {
    if is_elsewhere(link) {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(to) = target(from, file) else {
        return Some("leaves the repository");
    };
    if !tree.has(&to) {
        return Some("leads nowhere");
    }
    let has_anchor = anchor.is_empty()
        || !to.ends_with(".md")
        || tree
            .text(&to)
            .is_none_or(|text| markdown::anchors(text).iter().any(|known| known == anchor));
    (!has_anchor).then_some("names a heading that is not there")
}

/// The path in the tree that a link of the file `from` names; without a file, `from` itself.
pub(super) fn target(from: &str, file: &str) -> Option<String> {
    match file {
        "" => Some(from.to_owned()),
        file => join(folder(from), file),
    }
}

/// Whether it has a scheme, such as `https:`.
fn is_elsewhere(link: &str) -> bool {
    link.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty()
            && scheme
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(link: &str) -> Vec<Finding> {
        let text = format!("# Here\n[x]({link})");
        check(&Tree::of(&[
            ("docs/a.md", &text),
            ("docs/keys.md", "# All keys"),
            ("README.md", ""),
            ("crates/ferrolock/src/lib.rs", ""),
        ]))
    }

    #[test]
    fn links_to_files_folders_headings_and_other_places_are_fine() {
        for link in [
            "keys.md",
            "keys.md#all-keys",
            "#here",
            "../README.md",
            "../crates/ferrolock",
            "https://example.org/x.md",
            "mailto:someone",
        ] {
            assert_eq!(found(link), [], "{link}");
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_found_with_their_line() {
        for link in [
            "key.md",
            "keys.md#some-keys",
            "#there",
            "../../x.md",
            "README.md",
        ] {
            let found = found(link);
            assert_eq!(found.len(), 1, "{link}");
            assert_eq!(found[0].line, 2);
        }
    }
}
