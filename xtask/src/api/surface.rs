//! The public paths of the crate, and the items that they lead to.

use std::collections::{BTreeMap, BTreeSet};

use syn::{Attribute, Item, Meta, Visibility};

use super::names::{self, Id, Names, Target};
use super::tokens;

/// Public paths, what they lead to, and the conditions on the way.
pub(super) struct Surface {
    pub(super) paths: BTreeMap<String, BTreeSet<Entry>>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) target: Target,
    /// `#[cfg(…)]` of the modules and re-exports on the way.
    pub(super) cfgs: Vec<String>,
}

impl Surface {
    pub(super) fn new(names: &Names<'_>, crate_name: &str) -> Self {
        let mut surface = Self {
            paths: BTreeMap::new(),
        };
        if let Some(root) = names.root() {
            surface.walk(names, root, crate_name, &[]);
        }
        for (at, module) in names.modules() {
            for item in &module.items {
                if let Item::Macro(call) = item
                    && let Some(name) = &call.ident
                    && call
                        .attrs
                        .iter()
                        .any(|attr| attr.path().is_ident("macro_export"))
                    && !is_hidden(&call.attrs)
                {
                    let name = name.to_string();
                    let path = format!("{crate_name}::{name}");
                    surface.add(path, Target::Item(Id { module: at, name }), &[]);
                }
            }
        }
        surface
    }

    pub(super) fn has(&self, id: &Id) -> bool {
        let target = Target::Item(id.clone());
        self.paths
            .values()
            .flatten()
            .any(|entry| entry.target == target)
    }

    /// Adds the public items of a module, below the path that leads to it.
    fn walk(&mut self, names: &Names<'_>, module: usize, path: &str, cfgs: &[String]) {
        let items = names.module(module).map(|module| module.items.as_slice());
        for item in items.unwrap_or_default() {
            let Some((attrs, vis)) = outside(item) else {
                continue;
            };
            if !matches!(vis, Visibility::Public(_)) || is_hidden(attrs) {
                continue;
            }
            match item {
                Item::Mod(child) => {
                    let name = child.ident.to_string();
                    if let Some(at) = names.child(module, &name) {
                        let cfgs = [cfgs, &conditions(attrs)].concat();
                        self.reach(names, format!("{path}::{name}"), Target::Module(at), &cfgs);
                    }
                }
                Item::Use(used) => {
                    let cfgs = [cfgs, &conditions(attrs)].concat();
                    for import in names::imports(used) {
                        let target = match used.leading_colon {
                            Some(_) => Target::Foreign(import.path.join("::")),
                            None => names.resolve(module, &import.path),
                        };
                        match (import.name, target) {
                            (Some(name), target) => {
                                self.reach(names, format!("{path}::{name}"), target, &cfgs);
                            }
                            (None, Target::Module(at)) if at != module => {
                                self.walk(names, at, path, &cfgs);
                            }
                            (None, target) => self.add(format!("{path}::*"), target, &cfgs),
                        }
                    }
                }
                item => {
                    if let Some(name) = names::ident(item).map(ToString::to_string) {
                        let path = format!("{path}::{name}");
                        self.add(path, Target::Item(Id { module, name }), cfgs);
                    }
                }
            }
        }
    }

    fn reach(&mut self, names: &Names<'_>, path: String, target: Target, cfgs: &[String]) {
        let is_new = !self.paths.contains_key(&path);
        if let Target::Module(at) = target
            && is_new
        {
            self.add(path.clone(), target, cfgs);
            self.walk(names, at, &path, cfgs);
        } else {
            self.add(path, target, cfgs);
        }
    }

    fn add(&mut self, path: String, target: Target, cfgs: &[String]) {
        let mut cfgs = cfgs.to_vec();
        cfgs.dedup();
        self.paths
            .entry(path)
            .or_default()
            .insert(Entry { target, cfgs });
    }
}

fn outside(item: &Item) -> Option<(&[Attribute], &Visibility)> {
    match item {
        Item::Const(item) => Some((&item.attrs, &item.vis)),
        Item::Enum(item) => Some((&item.attrs, &item.vis)),
        Item::Fn(item) => Some((&item.attrs, &item.vis)),
        Item::Mod(item) => Some((&item.attrs, &item.vis)),
        Item::Static(item) => Some((&item.attrs, &item.vis)),
        Item::Struct(item) => Some((&item.attrs, &item.vis)),
        Item::Trait(item) => Some((&item.attrs, &item.vis)),
        Item::TraitAlias(item) => Some((&item.attrs, &item.vis)),
        Item::Type(item) => Some((&item.attrs, &item.vis)),
        Item::Union(item) => Some((&item.attrs, &item.vis)),
        Item::Use(item) => Some((&item.attrs, &item.vis)),
        _ => None,
    }
}

/// Whether it has `#[doc(hidden)]`.
pub(super) fn is_hidden(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| match &attr.meta {
        Meta::List(list) if list.path.is_ident("doc") => tokens::text(&list.tokens) == "hidden",
        _ => false,
    })
}

/// Its `#[cfg(…)]` attributes.
pub(super) fn conditions(attrs: &[Attribute]) -> Vec<String> {
    attrs
        .iter()
        .filter(|attr| attr.path().is_ident("cfg"))
        .map(tokens::text)
        .collect()
}
