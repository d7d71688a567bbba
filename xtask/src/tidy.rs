//! `cargo xtask tidy`: the rules of the tree that no compiler knows.

mod cfgs;
mod forgotten;
mod functions;
mod layers;
mod links;
mod lua;
mod lua_code;
mod lua_writes;
mod markdown;
mod sizes;
mod types;
mod words;

use std::fmt;
use std::path::Path;

use crate::tree::Tree;
use crate::workspace::{self, Depth, list, text};

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl Finding {
    fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            what: what.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// Each checks one thing and returns everything it finds.
const RULES: [fn(&Tree) -> Vec<Finding>; 9] = [
    sizes::check,
    functions::check,
    types::check,
    lua::check,
    lua_writes::check,
    words::check,
    layers::check,
    links::check,
    forgotten::documents,
];

pub(crate) fn run() -> Result<(), String> {
    let root = workspace::root()?;
    let tree = Tree::read(&root)?;
    let mut findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.extend(forgotten::scripts(&tree));
    findings.extend(forgotten::modules(&tree, &crate_roots(&root, &tree)?)?);
    findings.sort();
    findings.dedup();
    println!("{}", cfgs::figure(&tree));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => {
            println!("{} files are tidy", tree.len());
            Ok(())
        }
        n => Err(format!("findings of `cargo xtask tidy`: {n}")),
    }
}

/// The root files of all crates in the tree, also of packages outside the workspace.
fn crate_roots(root: &Path, tree: &Tree) -> Result<Vec<String>, String> {
    let mut known: Vec<String> = Vec::new();
    let mut roots = Vec::new();
    let manifests = std::iter::once("Cargo.toml").chain(
        tree.ending("/Cargo.toml")
            .filter(|(_, text)| text.contains("[package]"))
            .map(|(path, _)| path),
    );
    for manifest in manifests {
        if known.iter().any(|path| path == manifest) {
            continue;
        }
        let metadata = workspace::metadata(root, &root.join(manifest), Depth::Members)?;
        for package in list(&metadata, "packages") {
            known.extend(relative(root, text(package, "manifest_path")));
            for target in list(package, "targets") {
                roots.extend(relative(root, text(target, "src_path")));
            }
        }
    }
    Ok(roots)
}

fn relative(root: &Path, path: &str) -> Option<String> {
    let path = Path::new(path).strip_prefix(root).ok()?;
    Some(path.to_str()?.replace('\\', "/"))
}

/// The scripts that servers run. These rules are not for those of the embedded engine and the benchmarks.
fn scripts(tree: &Tree) -> impl Iterator<Item = (&str, &str)> {
    tree.ending(".lua")
        .filter(|(path, _)| path.contains("/protocol/"))
}
