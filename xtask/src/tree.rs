//! The files of the repository, by their path from its root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::shell;

/// The files that git tracks, or would track.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The texts of the regular files; links and files that are not UTF-8 are left out.
    texts: BTreeMap<String, String>,
    /// The paths of all files.
    paths: BTreeSet<String>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let listing = shell::read(
            Command::new("git")
                .args(["ls-files", "-z", "--cached", "--others"])
                .arg("--exclude-standard")
                .current_dir(root),
        )?;
        let mut tree = Self::default();
        for path in listing.split_terminator('\0') {
            let file = root.join(path);
            // git still lists a file that was removed, but not from the index.
            let Ok(meta) = file.symlink_metadata() else {
                continue;
            };
            if meta.is_file()
                && let Ok(bytes) = std::fs::read(&file)
                && let Ok(text) = String::from_utf8(bytes)
            {
                tree.texts.insert(path.to_owned(), text);
            }
            tree.paths.insert(path.to_owned());
        }
        Ok(tree)
    }

    /// A tree of these files.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            texts: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect(),
            paths: files.iter().map(|(path, _)| (*path).to_owned()).collect(),
        }
    }

    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Path and text of all files whose name ends with `end`.
    pub(crate) fn ending(&self, end: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.texts
            .iter()
            .filter(move |(path, _)| path.ends_with(end))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.ending("")
    }

    /// Whether there is a file, or a folder with files, at that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.paths.contains(path)
            || self
                .paths
                .range(folder.clone()..)
                .next()
                .is_some_and(|next| next.starts_with(&folder))
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }
}

/// The folder that a file is in; empty: the root.
pub(crate) fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// `path` as seen from `folder`, with `.` and `..` worked out; `None`: it leaves the tree.
pub(crate) fn join(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_joined_to_its_folder() {
        assert_eq!(join("docs", "../README.md").as_deref(), Some("README.md"));
        assert_eq!(join("", "./a/b.rs").as_deref(), Some("a/b.rs"));
        assert_eq!(join("docs", "../../README.md"), None);
    }

    #[test]
    fn a_folder_is_there_if_a_file_is_in_it() {
        let tree = Tree::of(&[("docs/keys.md", "")]);

        assert!(tree.has("docs") && tree.has("docs/") && tree.has("docs/keys.md"));
        assert!(!tree.has("doc") && !tree.has("docs/key"));
    }
}
