//! Checks that the packages for the registry are complete: scripts, readme and licences are inside.

use std::collections::BTreeSet;
use std::path::Path;

use crate::shell;
use crate::tree::Tree;
use crate::workspace::{self, text};

const ALWAYS: [&str; 3] = ["README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Checks every package that may be published.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    for package in workspace::members(root)? {
        if workspace::is_published(&package) {
            check_package(root, &tree, &package)?;
        }
    }
    Ok(())
}

fn check_package(root: &Path, tree: &Tree, package: &serde_json::Value) -> Result<(), String> {
    let name = text(package, "name");
    let listing = shell::read(
        shell::cargo(root)
            .args(["package", "--quiet", "--allow-dirty", "--list", "-p"])
            .arg(name),
    )?;
    let packed: BTreeSet<&str> = listing.lines().collect();
    let folder = Path::new(text(package, "manifest_path"))
        .parent()
        .unwrap_or(root);
    let inside = folder.strip_prefix(root).unwrap_or(folder);
    let wanted = wanted(tree, &inside.to_string_lossy());
    let missing: Vec<&String> = wanted
        .iter()
        // A link whose target is gone is listed, but cannot be packed.
        .filter(|path| !packed.contains(path.as_str()) || !folder.join(path).is_file())
        .collect();
    if !missing.is_empty() {
        return Err(format!("the package `{name}` lacks {missing:?}"));
    }
    println!(
        "{name}: {} files, with all of {}",
        packed.len(),
        wanted.len()
    );
    Ok(())
}

/// The paths that must be in the package.
fn wanted(tree: &Tree, folder: &str) -> Vec<String> {
    let start = format!("{folder}/");
    let scripts = tree
        .ending(".lua")
        .filter_map(|(path, _)| path.strip_prefix(&start))
        .filter(|path| path.starts_with("src/"))
        .map(str::to_owned);
    ALWAYS
        .map(str::to_owned)
        .into_iter()
        .chain(scripts)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_of_the_package_are_wanted_and_no_others() {
        let tree = Tree::of(&[
            ("crates/ferrolock/src/protocol/lock/acquire.lua", ""),
            ("crates/ferrolock/tests/peer.lua", ""),
            ("bench/peer.lua", ""),
        ]);

        let wanted = wanted(&tree, "crates/ferrolock");

        assert_eq!(wanted.len(), ALWAYS.len() + 1);
        assert_eq!(wanted.last().unwrap(), "src/protocol/lock/acquire.lua");
    }
}
