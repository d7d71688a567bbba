//! The oldest Rust that the published packages promise to build with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::shell;
use crate::workspace::{self, Depth, list, text};

/// Whether the build with the promised toolchain was made.
pub(crate) enum Built {
    Yes,
    /// The toolchain is missing here, and why.
    NoToolchain(String),
}

/// Builds every published library with the toolchain it promises.
pub(crate) fn build(root: &Path) -> Result<Built, String> {
    let metadata = workspace::metadata(root, &root.join("Cargo.toml"), Depth::Members)?;
    let target = Path::new(text(&metadata, "target_directory")).join("older-toolchain");
    for package in list(&metadata, "packages") {
        if !workspace::is_published(package) {
            continue;
        }
        let promised = text(package, "rust_version");
        let toolchain = match toolchain(promised) {
            Ok(name) => name,
            Err(why) => {
                let why = format!("build with Rust {promised}: {why}");
                return Ok(Built::NoToolchain(why));
            }
        };
        shell::run(
            Command::new("rustup")
                .args(["run", &toolchain, "cargo", "check", "--all-features"])
                .args(["-p", text(package, "name"), "--target-dir"])
                .arg(&target)
                .current_dir(root)
                // These variables name the toolchain that this program runs under.
                .env_remove("CARGO")
                .env_remove("RUSTUP_TOOLCHAIN"),
        )?;
    }
    Ok(Built::Yes)
}

/// The installed toolchain of that version, installed if need be.
fn toolchain(version: &str) -> Result<String, String> {
    if shell::find("rustup").is_none() {
        return Err("there is no rustup here to get that toolchain with".to_owned());
    }
    let installed = || {
        let listing = shell::read(Command::new("rustup").args(["toolchain", "list"]))?;
        Ok::<_, String>(installed(&listing, version))
    };
    if let Some(name) = installed()? {
        return Ok(name);
    }
    shell::run(
        Command::new("rustup")
            .args(["toolchain", "install", version])
            .args(["--profile", "minimal", "--no-self-update"]),
    )?;
    installed()?.ok_or(format!("rustup installed {version}, but does not list it"))
}

/// The first toolchain in rustup's list that is of that version.
fn installed(listing: &str, version: &str) -> Option<String> {
    listing
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .find(|name| {
            name.strip_prefix(version)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '.']))
        })
        .map(str::to_owned)
}

/// Fails if a published package depends on one that needs a newer Rust than the package promises.
pub(crate) fn dependencies(root: &Path) -> Result<(), String> {
    let metadata = workspace::metadata(root, &root.join("Cargo.toml"), Depth::Dependencies)?;
    let newer = newer_dependencies(&metadata);
    if newer.is_empty() {
        println!("no dependency wants a newer Rust than we promise");
        return Ok(());
    }
    Err(format!(
        "dependencies want a newer Rust:\n  {}",
        newer.join("\n  ")
    ))
}

fn newer_dependencies(metadata: &Value) -> Vec<String> {
    let packages: BTreeMap<&str, &Value> = list(metadata, "packages")
        .iter()
        .map(|package| (text(package, "id"), package))
        .collect();
    let members: BTreeSet<&str> = list(metadata, "workspace_members")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut newer = Vec::new();
    for member in members {
        let Some(package) = packages.get(member) else {
            continue;
        };
        if !workspace::is_published(package) {
            continue;
        }
        let promised = text(package, "rust_version");
        for id in reached(metadata, member) {
            let Some(dependency) = packages.get(id) else {
                continue;
            };
            let wanted = text(dependency, "rust_version");
            if numbers(wanted) > numbers(promised) {
                newer.push(format!(
                    "{} {} wants {wanted}, {} promises {promised}",
                    text(dependency, "name"),
                    text(dependency, "version"),
                    text(package, "name"),
                ));
            }
        }
    }
    newer
}

/// The ids of everything that a user of `package` builds: its dependencies, not those of its tests.
fn reached<'a>(metadata: &'a Value, package: &'a str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<&str, &Value> = metadata
        .get("resolve")
        .map(|resolve| list(resolve, "nodes"))
        .unwrap_or_default()
        .iter()
        .map(|node| (text(node, "id"), node))
        .collect();
    let mut reached = BTreeSet::new();
    let mut open = vec![package];
    while let Some(id) = open.pop() {
        let Some(node) = nodes.get(id) else { continue };
        for dependency in list(node, "deps") {
            let id = text(dependency, "pkg");
            if list(dependency, "dep_kinds").iter().any(is_built) && reached.insert(id) {
                open.push(id);
            }
        }
    }
    reached
}

fn is_built(kind: &Value) -> bool {
    text(kind, "kind") != "dev"
}

/// `1.88` and `1.88.0` are equal; a missing version is older than any.
fn numbers(version: &str) -> [u32; 3] {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    [(); 3].map(|()| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn metadata(wanted: &str, kind: Option<&str>) -> Value {
        json!({
            "workspace_members": ["ours"],
            "packages": [
                { "id": "ours", "name": "ours", "rust_version": "1.88", "publish": null },
                { "id": "deep", "name": "deep", "version": "2.0.0", "rust_version": wanted },
                { "id": "near", "name": "near", "version": "1.0.0", "rust_version": null },
            ],
            "resolve": { "nodes": [
                { "id": "ours", "deps": [{ "pkg": "near", "dep_kinds": [{ "kind": kind }] }] },
                { "id": "near", "deps": [{ "pkg": "deep", "dep_kinds": [{ "kind": null }] }] },
                { "id": "deep", "deps": [] },
            ] },
        })
    }

    #[test]
    fn a_dependency_of_a_dependency_that_wants_a_newer_rust_is_named() {
        let newer = newer_dependencies(&metadata("1.90", None));

        assert_eq!(newer, ["deep 2.0.0 wants 1.90, ours promises 1.88"]);
    }

    #[test]
    fn the_same_rust_is_fine_and_tests_may_want_a_newer_one() {
        assert!(newer_dependencies(&metadata("1.88.0", None)).is_empty());
        assert!(newer_dependencies(&metadata("1.90", Some("dev"))).is_empty());
    }

    #[test]
    fn a_toolchain_is_known_by_its_whole_version() {
        let listing = "stable-x86_64 (active)\n1.8-x86_64\n1.88.0-x86_64\n";

        assert_eq!(installed(listing, "1.88").as_deref(), Some("1.88.0-x86_64"));
        assert_eq!(installed("1.880-x86_64", "1.88"), None);
    }
}
