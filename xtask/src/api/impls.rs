//! The implementations for public types, and of public traits for the types of other crates.

use std::collections::{BTreeMap, BTreeSet};

use quote::quote;
use syn::{Attribute, Generics, Ident, ImplItem, Item, ItemImpl, Path, Type, Visibility};

use super::describe::{Block, marks};
use super::names::{Id, Names, Target};
use super::surface::{Surface, is_hidden};
use super::tokens::text as written;
use crate::source;

/// Blocks by the item they belong to; `None`: types of other crates. Blocks with the same head are one.
pub(super) struct Impls {
    blocks: BTreeMap<Option<Id>, BTreeMap<String, BTreeSet<String>>>,
}

impl Impls {
    pub(super) fn new(names: &Names<'_>, surface: &Surface) -> Self {
        let mut impls = Self {
            blocks: BTreeMap::new(),
        };
        for (at, module) in names.modules() {
            for item in &module.items {
                match item {
                    Item::Impl(block) => impls.add(names, surface, at, block),
                    Item::Struct(item) => {
                        impls.derive(at, &item.ident, &item.attrs, &item.generics)
                    }
                    Item::Enum(item) => impls.derive(at, &item.ident, &item.attrs, &item.generics),
                    _ => {}
                }
            }
        }
        impls
    }

    pub(super) fn of(&self, id: &Id) -> Vec<Block> {
        self.get(&Some(id.clone()))
    }

    pub(super) fn of_others(&self) -> Vec<Block> {
        self.get(&None)
    }

    fn get(&self, owner: &Option<Id>) -> Vec<Block> {
        let blocks = self.blocks.get(owner).into_iter().flatten();
        blocks
            .map(|(head, lines)| (head.clone(), lines.iter().cloned().collect()))
            .collect()
    }

    fn add(&mut self, names: &Names<'_>, surface: &Surface, module: usize, block: &ItemImpl) {
        if is_hidden(&block.attrs) || source::is_test(&block.attrs) {
            return;
        }
        let Some(owner) = owner(names, surface, module, block) else {
            return;
        };
        let lines: BTreeSet<String> = block
            .items
            .iter()
            .filter_map(|item| line(item, block.trait_.is_some()))
            .collect();
        // An inherent block without public items is not part of the API.
        if block.trait_.is_some() || !lines.is_empty() {
            let head = marks(&block.attrs) + &head(block);
            let owned = self.blocks.entry(owner).or_default();
            owned.entry(head).or_default().extend(lines);
        }
    }

    /// A derived implementation reads as a written one: for users there is no difference.
    fn derive(&mut self, module: usize, name: &Ident, attrs: &[Attribute], generics: &Generics) {
        let id = Id {
            module,
            name: name.to_string(),
        };
        let owned = self.blocks.entry(Some(id)).or_default();
        let (_, arguments, _) = generics.split_for_impl();
        let arguments = written(arguments);
        let mut bare = generics.clone();
        bare.where_clause = None;
        let generics = written(bare);
        for attr in attrs.iter().filter(|attr| attr.path().is_ident("derive")) {
            let _ = attr.parse_nested_meta(|derived| {
                let of = written(&derived.path);
                let head = format!("impl{generics} {of} for {name}{arguments}");
                owned.entry(head).or_default();
                Ok(())
            });
        }
    }
}

/// `None`: users cannot see it.
fn owner(
    names: &Names<'_>,
    surface: &Surface,
    module: usize,
    block: &ItemImpl,
) -> Option<Option<Id>> {
    let resolve = |path: &Path| names.resolve(module, &segments(path));
    let of_trait = block.trait_.as_ref().map(|(path, _)| resolve(path));
    if let Some(Target::Item(id)) = &of_trait
        && !surface.has(id)
    {
        return None;
    }
    match self_path(&block.self_ty).map(resolve) {
        Some(Target::Item(id)) => surface.has(&id).then_some(Some(id)),
        _ => match of_trait {
            Some(Target::Item(id)) => Some(Some(id)),
            Some(_) => Some(None),
            None => None,
        },
    }
}

fn self_path(of: &Type) -> Option<&Path> {
    match of {
        Type::Path(path) if path.qself.is_none() => Some(&path.path),
        Type::Reference(reference) => self_path(&reference.elem),
        Type::Paren(inner) => self_path(&inner.elem),
        _ => None,
    }
}

fn segments(path: &Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|segment| segment.ident.to_string())
        .collect()
}

fn head(block: &ItemImpl) -> String {
    let mut generics = block.generics.clone();
    let clause = generics.where_clause.take();
    let (unsafety, self_ty) = (&block.unsafety, &block.self_ty);
    let head = match &block.trait_ {
        Some((path, _)) => {
            let not = &block.modifiers.polarity;
            quote!(#unsafety impl #generics #not #path for #self_ty #clause)
        }
        None => quote!(impl #generics #self_ty #clause),
    };
    written(head)
}

/// A public part of a block; of an implemented trait only what the trait leaves open.
fn line(item: &ImplItem, of_trait: bool) -> Option<String> {
    let is_seen = |attrs: &[Attribute], vis: &Visibility| {
        !is_hidden(attrs) && matches!(vis, Visibility::Public(_)) && !source::is_test(attrs)
    };
    match item {
        ImplItem::Fn(item) if !of_trait && is_seen(&item.attrs, &item.vis) => {
            Some(format!("{}pub {}", marks(&item.attrs), written(&item.sig)))
        }
        ImplItem::Const(item) if of_trait || is_seen(&item.attrs, &item.vis) => {
            let vis = if of_trait { "" } else { "pub " };
            let (name, of) = (&item.ident, written(&item.ty));
            Some(format!("{}{vis}const {name}: {of}", marks(&item.attrs)))
        }
        ImplItem::Type(item) => {
            let (name, generics, of) = (&item.ident, &item.generics, written(&item.ty));
            Some(format!("type {name}{} = {of}", written(generics)))
        }
        ImplItem::Macro(item) => Some(written(&item.mac)),
        _ => None,
    }
}
