//! The workspace as Cargo knows it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shell;

/// The folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> Result<PathBuf, String> {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .ok_or("run this through Cargo: `cargo xtask ...`")?;
    let root = Path::new(&xtask).parent();
    Ok(root.ok_or("xtask has no parent folder")?.to_owned())
}

/// Which packages `cargo metadata` lists.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Those of the workspace; needs no network.
    Members,
    /// And everything they depend on.
    Dependencies,
}

/// The output of `cargo metadata` for the package of that manifest, or for the workspace if it is the root's.
pub(crate) fn metadata(root: &Path, manifest: &Path, depth: Depth) -> Result<Value, String> {
    let mut command = shell::cargo(root);
    command.args(["metadata", "--quiet", "--format-version", "1"]);
    match depth {
        Depth::Members => command.arg("--no-deps"),
        Depth::Dependencies => command.arg("--all-features"),
    };
    let text = shell::read(command.arg("--manifest-path").arg(manifest))?;
    serde_json::from_str(&text).map_err(|why| format!("`cargo metadata` is not JSON: {why}"))
}

/// The packages of the workspace.
pub(crate) fn members(root: &Path) -> Result<Vec<Value>, String> {
    let metadata = metadata(root, &root.join("Cargo.toml"), Depth::Members)?;
    Ok(list(&metadata, "packages").to_vec())
}

/// Whether it may go to a registry: `publish` is absent, or names one.
pub(crate) fn is_published(package: &Value) -> bool {
    package
        .get("publish")
        .and_then(Value::as_array)
        .is_none_or(|registries| !registries.is_empty())
}

pub(crate) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value
        .get(key)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn publish_false_is_an_empty_list_of_registries() {
        assert!(!is_published(&json!({ "publish": [] })));
        assert!(is_published(&json!({ "publish": null })));
        assert!(is_published(&json!({ "publish": ["crates-io"] })));
    }
}
