//! Files that nothing uses.

use std::collections::BTreeSet;

use super::Finding;
use super::{links, markdown};
use crate::source;
use crate::tree::{Tree, folder, join};

/// Rust files that no crate root reaches by `mod` or `include!`.
pub(super) fn modules(tree: &Tree, roots: &[String]) -> Result<Vec<Finding>, String> {
    let mut reached: BTreeSet<String> = included(tree, "include!(");
    for root in roots.iter().filter(|root| tree.text(root).is_some()) {
        let modules = source::modules(tree, root)?;
        reached.extend(modules.into_iter().map(|module| module.file));
    }
    Ok(unreached(
        tree,
        ".rs",
        &reached,
        "no `mod` leads to this file",
    ))
}

/// Lua files that are neither a `script!` nor an `include_str!`.
pub(super) fn scripts(tree: &Tree) -> Vec<Finding> {
    let named = included(tree, "script!(").into_iter();
    let mut reached: BTreeSet<String> = named.map(|path| format!("{path}.lua")).collect();
    reached.extend(included(tree, "include_str!("));
    unreached(tree, ".lua", &reached, "no `script!` names this file")
}

/// Pages under `docs/` that no other page links to.
pub(super) fn documents(tree: &Tree) -> Vec<Finding> {
    let mut reached = BTreeSet::new();
    for (path, text) in tree.ending(".md") {
        for link in markdown::links(text) {
            let file = link.target.split('#').next().unwrap_or_default();
            reached.extend(links::target(path, file).filter(|to| to != path));
        }
    }
    let mut findings = unreached(tree, ".md", &reached, "no page links to this one");
    findings.retain(|finding| finding.path.starts_with("docs/"));
    findings
}

fn unreached(
    tree: &Tree,
    end: &'static str,
    reached: &BTreeSet<String>,
    what: &str,
) -> Vec<Finding> {
    tree.ending(end)
        .filter(|(path, _)| !reached.contains(*path))
        .map(|(path, _)| Finding::new(path, 1, what))
        .collect()
}

/// The paths that Rust files name as literal arguments of this macro: a script, and the parts before it.
fn included(tree: &Tree, opening: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for (file, text) in tree.ending(".rs") {
        for (at, found) in text.match_indices(opening) {
            let call = text.get(at + found.len()..).unwrap_or_default();
            let arguments = call.split(')').next().unwrap_or_default();
            let literals = arguments.split('"').skip(1).step_by(2);
            paths.extend(literals.filter_map(|literal| join(folder(file), literal)));
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(findings: Vec<Finding>) -> Vec<String> {
        findings.into_iter().map(|found| found.path).collect()
    }

    #[test]
    fn a_rust_file_without_a_mod_is_found() {
        let tree = Tree::of(&[
            ("src/lib.rs", "mod used; include!(\"table.rs\");"),
            ("src/used.rs", ""),
            ("src/table.rs", ""),
            ("src/lost.rs", ""),
            ("tests/run.rs", ""),
        ]);
        let roots = ["src/lib.rs".to_owned(), "tests/run.rs".to_owned()];

        assert_eq!(paths(modules(&tree, &roots).unwrap()), ["src/lost.rs"]);
    }

    #[test]
    fn a_script_that_is_not_named_beside_its_folder_is_found() {
        let tree = Tree::of(&[
            (
                "src/protocol/lock.rs",
                "static A: Script = script!(\"lock/acquire\", Acquire, \"lock/part\");",
            ),
            ("src/protocol/lock/acquire.lua", ""),
            ("src/protocol/lock/part.lua", ""),
            ("src/protocol/lock/lost.lua", ""),
            ("src/protocol/fair/acquire.lua", ""),
            (
                "tests/peer.rs",
                "const P: &str = include_str!(\n    \"peer.lua\");",
            ),
            ("tests/peer.lua", ""),
        ]);

        assert_eq!(
            paths(scripts(&tree)),
            [
                "src/protocol/fair/acquire.lua",
                "src/protocol/lock/lost.lua"
            ]
        );
    }

    #[test]
    fn a_page_that_only_links_to_itself_is_found() {
        let tree = Tree::of(&[
            ("README.md", "[keys](docs/keys.md#x)"),
            ("docs/keys.md", ""),
            ("docs/lost.md", "[here](lost.md)"),
            ("crates/a/README.md", ""),
        ]);

        assert_eq!(paths(documents(&tree)), ["docs/lost.md"]);
    }
}
