//! What a path in a module means: an item of the crate, a module of it, or something of another crate.

use std::collections::HashMap;

use syn::{Ident, Item, ItemUse, UseTree};

use crate::source::{self, Module};

/// More steps than any chain of re-exports has; ends the search in those that go in circles.
const STEPS_MAX: usize = 32;

/// An item by where it is defined. Items of one name (for other platforms, say) are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) module: usize,
    pub(super) name: String,
}

/// What a path leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Target {
    Module(usize),
    Item(Id),
    /// Not of this crate, as written.
    Foreign(String),
}

/// One name that a `use` imports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// `None`: all names there.
    pub(super) name: Option<String>,
    pub(super) path: Vec<String>,
}

/// The modules of a crate without those of its tests, and the names in them.
pub(super) struct Names<'a> {
    modules: Vec<&'a Module>,
    by_path: HashMap<&'a [String], usize>,
}

impl<'a> Names<'a> {
    pub(super) fn new(all: &'a [Module]) -> Self {
        let tests: Vec<&[String]> = all
            .iter()
            .filter(|module| source::is_test(&module.attrs))
            .map(|module| module.path.as_slice())
            .collect();
        let modules: Vec<&Module> = all
            .iter()
            .filter(|module| !tests.iter().any(|test| module.path.starts_with(test)))
            .collect();
        let by_path = (0..)
            .zip(&modules)
            .map(|(at, module)| (module.path.as_slice(), at))
            .collect();
        Self { modules, by_path }
    }

    pub(super) fn modules(&self) -> impl Iterator<Item = (usize, &'a Module)> {
        (0..).zip(self.modules.iter().copied())
    }

    pub(super) fn module(&self, at: usize) -> Option<&'a Module> {
        self.modules.get(at).copied()
    }

    /// The crate's root.
    pub(super) fn root(&self) -> Option<usize> {
        self.by_path.get(&[] as &[String]).copied()
    }

    /// The module of that name in another.
    pub(super) fn child(&self, module: usize, name: &str) -> Option<usize> {
        let mut path = self.module(module)?.path.clone();
        path.push(name.to_owned());
        self.by_path.get(path.as_slice()).copied()
    }

    /// The items with that id.
    pub(super) fn items(&self, id: &Id) -> Vec<&'a Item> {
        let items = self.module(id.module).map(|module| module.items.as_slice());
        items
            .unwrap_or_default()
            .iter()
            .filter(|item| ident(item).is_some_and(|ident| *ident == id.name))
            .collect()
    }

    pub(super) fn resolve(&self, module: usize, path: &[String]) -> Target {
        self.resolve_within(module, path, STEPS_MAX)
            .unwrap_or_else(|| Target::Foreign(path.join("::")))
    }

    fn resolve_within(&self, module: usize, path: &[String], steps: usize) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let (first, mut rest) = path.split_first()?;
        let mut target = match first.as_str() {
            "crate" => Target::Module(self.root()?),
            "self" => Target::Module(module),
            "super" => Target::Module(self.parent(module)?),
            name => self.lookup(module, name, rest.is_empty(), steps)?,
        };
        while let Some((name, next)) = rest.split_first() {
            target = match target {
                Target::Module(at) if name == "super" => Target::Module(self.parent(at)?),
                Target::Module(at) => self.lookup(at, name, next.is_empty(), steps)?,
                Target::Foreign(path) => Target::Foreign(format!("{path}::{name}")),
                Target::Item(_) => return None,
            };
            rest = next;
        }
        Some(target)
    }

    /// `last`: the path ends here, so an item is meant before a module of the same name.
    fn lookup(&self, module: usize, name: &str, last: bool, steps: usize) -> Option<Target> {
        let id = Id {
            module,
            name: name.to_owned(),
        };
        let item = || (!self.items(&id).is_empty()).then_some(Target::Item(id.clone()));
        let child = || self.child(module, name).map(Target::Module);
        let defined = if last {
            item().or_else(child)
        } else {
            child().or_else(item)
        };
        defined.or_else(|| self.lookup_imports(module, name, steps))
    }

    fn lookup_imports(&self, module: usize, name: &str, steps: usize) -> Option<Target> {
        let steps = steps.checked_sub(1)?;
        let imports: Vec<Import> = self
            .module(module)?
            .items
            .iter()
            .filter_map(|item| match item {
                Item::Use(used) => Some(imports(used)),
                _ => None,
            })
            .flatten()
            .collect();
        if let Some(import) = imports
            .iter()
            .find(|import| import.name.as_deref() == Some(name))
        {
            // `use name::name`: the first `name` is not the one that this `use` imports.
            let target = match import.path.first() {
                Some(first) if first == name => None,
                _ => self.resolve_within(module, &import.path, steps),
            };
            return Some(target.unwrap_or_else(|| Target::Foreign(import.path.join("::"))));
        }
        imports
            .iter()
            .filter(|import| import.name.is_none())
            .filter_map(|glob| self.resolve_within(module, &glob.path, steps))
            .find_map(|target| match target {
                Target::Module(at) if at != module => self.lookup(at, name, true, steps),
                _ => None,
            })
    }

    fn parent(&self, module: usize) -> Option<usize> {
        let (_, path) = self.module(module)?.path.split_last()?;
        self.by_path.get(path).copied()
    }
}

/// The name that an item defines.
pub(super) fn ident(item: &Item) -> Option<&Ident> {
    match item {
        Item::Const(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        Item::Macro(item) => item.ident.as_ref(),
        Item::Static(item) => Some(&item.ident),
        Item::Struct(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::TraitAlias(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        _ => None,
    }
}

/// Every name that a `use` imports.
pub(super) fn imports(used: &ItemUse) -> Vec<Import> {
    let mut found = Vec::new();
    imports_of(&used.tree, Vec::new(), &mut found);
    found
}

fn imports_of(tree: &UseTree, mut path: Vec<String>, into: &mut Vec<Import>) {
    match tree {
        UseTree::Path(step) => {
            path.push(step.ident.to_string());
            imports_of(&step.tree, path, into);
        }
        UseTree::Name(leaf) => {
            if leaf.ident != "self" {
                path.push(leaf.ident.to_string());
            }
            let name = path.last().cloned();
            into.push(Import { name, path });
        }
        UseTree::Rename(leaf) => {
            if leaf.ident != "self" {
                path.push(leaf.ident.to_string());
            }
            let name = Some(leaf.rename.to_string());
            into.push(Import { name, path });
        }
        UseTree::Glob(_) => into.push(Import { name: None, path }),
        UseTree::Group(group) => {
            for tree in &group.items {
                imports_of(tree, path.clone(), into);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Tree;

    fn resolve(from: &[&str], path: &str) -> Target {
        let tree = Tree::of(&[
            (
                "src/lib.rs",
                "mod a; mod b; pub use a::Thing as Other; use circle::circle;",
            ),
            (
                "src/a.rs",
                "pub struct Thing; pub mod deep { pub fn f() {} }",
            ),
            ("src/b.rs", "use super::a::{self, deep::*}; use std::fmt;"),
        ]);
        let modules = source::modules(&tree, "src/lib.rs").unwrap();
        let names = Names::new(&modules);
        let at = names.modules().find(|(_, module)| module.path == from);
        let path: Vec<String> = path.split("::").map(str::to_owned).collect();
        match names.resolve(at.unwrap().0, &path) {
            Target::Item(id) => {
                Target::Foreign(format!("{}:{}", names.modules[id.module].file, id.name))
            }
            other => other,
        }
    }

    fn text(text: &str) -> Target {
        Target::Foreign(text.to_owned())
    }

    #[test]
    fn a_name_is_followed_through_renames_groups_and_globs() {
        assert_eq!(resolve(&[], "Other"), text("src/a.rs:Thing"));
        assert_eq!(resolve(&["b"], "a::Thing"), text("src/a.rs:Thing"));
        assert_eq!(resolve(&["b"], "f"), text("src/a.rs:f"));
        assert_eq!(resolve(&["b"], "super::Other"), text("src/a.rs:Thing"));
        assert_eq!(
            resolve(&["a", "deep"], "crate::Other"),
            text("src/a.rs:Thing")
        );
    }

    #[test]
    fn a_path_that_leads_out_of_the_crate_is_foreign() {
        assert_eq!(resolve(&["b"], "fmt::Debug"), text("std::fmt::Debug"));
        assert_eq!(resolve(&["b"], "Unknown"), text("Unknown"));
        assert_eq!(resolve(&[], "circle"), text("circle::circle"));
    }
}
