//! The text of the public API: for each path its item, and the item's implementations.

use std::collections::BTreeMap;

use quote::quote;
use syn::{Attribute, Fields, Generics, Item, TraitItem, Visibility};

use super::impls::Impls;
use super::names::{Id, Names, Target, ident};
use super::surface::{Entry, Surface, conditions, is_hidden};
use super::tokens::text as written;

/// Attributes that change how users may use an item.
const TELLING: [&str; 4] = ["non_exhaustive", "must_use", "deprecated", "repr"];

/// Macros at the place of an item whose calls make nothing public.
const SILENT: [&str; 2] = ["thread_local", "task_local"];

/// A line, and those that belong under it.
pub(super) type Block = (String, Vec<String>);

pub(super) fn text(names: &Names<'_>, surface: &Surface, crate_name: &str) -> String {
    let impls = Impls::new(names, surface);
    let mut text =
        format!("# The public API of `{crate_name}`; made by `cargo xtask api --write`.\n");
    let mut told: BTreeMap<&Id, &str> = BTreeMap::new();
    for (path, entries) in by_length(surface) {
        for entry in entries {
            if let Target::Item(id) = &entry.target {
                told.entry(id).or_insert(path);
            }
        }
    }
    for (path, entries) in &surface.paths {
        text.push_str(&format!("\n{path}\n"));
        for entry in entries {
            match &entry.target {
                Target::Item(id) if told.get(id) != Some(&path.as_str()) => {
                    let other = told.get(id).unwrap_or(&"");
                    push(
                        &mut text,
                        &entry.cfgs,
                        (format!("pub use {other}"), Vec::new()),
                    );
                }
                _ => entry_text(names, &impls, path, entry, &mut text),
            }
        }
    }
    section(&mut text, "types of others", impls.of_others());
    section(&mut text, "made by macros", macro_calls(names, crate_name));
    text
}

/// Short paths first: an item is described where it is nearest to the root.
fn by_length(surface: &Surface) -> Vec<(&str, Vec<&Entry>)> {
    let mut paths: Vec<(&str, Vec<&Entry>)> = surface
        .paths
        .iter()
        .map(|(path, entries)| (path.as_str(), entries.iter().collect()))
        .collect();
    paths.sort_by_key(|(path, _)| (path.matches("::").count(), *path));
    paths
}

fn entry_text(names: &Names<'_>, impls: &Impls, path: &str, entry: &Entry, text: &mut String) {
    match &entry.target {
        Target::Foreign(origin) => {
            push(text, &entry.cfgs, (format!("pub use {origin}"), Vec::new()));
        }
        Target::Module(_) => {
            let name = path.rsplit("::").next().unwrap_or(path);
            push(text, &entry.cfgs, (format!("pub mod {name}"), Vec::new()));
        }
        Target::Item(id) => {
            for item in names.items(id) {
                if let Some(block) = definition(item) {
                    push(text, &entry.cfgs, block);
                }
            }
            for block in impls.of(id) {
                push(text, &[], block);
            }
        }
    }
}

fn push(text: &mut String, cfgs: &[String], (head, lines): Block) {
    let cfgs: String = cfgs.iter().map(|cfg| format!("{cfg} ")).collect();
    text.push_str(&format!("    {cfgs}{head}\n"));
    for line in lines {
        text.push_str(&format!("        {line}\n"));
    }
}

fn section(text: &mut String, title: &str, blocks: Vec<Block>) {
    if !blocks.is_empty() {
        text.push_str(&format!("\n{title}\n"));
    }
    for block in blocks {
        push(text, &[], block);
    }
}

fn definition(item: &Item) -> Option<Block> {
    let alone = |attrs: &[Attribute], line: String| (marks(attrs) + &line, Vec::new());
    Some(match item {
        Item::Struct(item) => {
            let (shape, fields) = fields(&item.fields);
            let (head, where_) = head(&item.generics);
            let line = format!("pub struct {}{head}{shape}{where_}", item.ident);
            (marks(&item.attrs) + &line, fields)
        }
        Item::Enum(item) => {
            let (head, where_) = head(&item.generics);
            let mut lines: Vec<String> = item
                .variants
                .iter()
                .filter(|variant| !is_hidden(&variant.attrs))
                .map(variant)
                .collect();
            lines.sort();
            let line = format!("pub enum {}{head}{where_}", item.ident);
            (marks(&item.attrs) + &line, lines)
        }
        Item::Trait(item) => {
            let (head, where_) = head(&item.generics);
            let (colon, above) = (&item.colon_token, &item.supertraits);
            let unsafety = item.unsafety.map_or("", |_| "unsafe ");
            let above = written(quote!(#colon #above));
            let line = format!("pub {unsafety}trait {}{head}{above}{where_}", item.ident);
            let mut lines: Vec<String> = item.items.iter().filter_map(trait_item).collect();
            lines.sort();
            (marks(&item.attrs) + &line, lines)
        }
        Item::Fn(item) => alone(&item.attrs, format!("pub {}", written(&item.sig))),
        Item::Const(item) => {
            let line = format!("pub const {}: {}", item.ident, written(&item.ty));
            alone(&item.attrs, line)
        }
        Item::Static(item) => {
            let line = format!("pub static {}: {}", item.ident, written(&item.ty));
            alone(&item.attrs, line)
        }
        Item::Type(item) => {
            let (head, where_) = head(&item.generics);
            let line = format!(
                "pub type {}{head} = {}{where_}",
                item.ident,
                written(&item.ty)
            );
            alone(&item.attrs, line)
        }
        Item::Macro(item) => {
            let (name, body) = (item.ident.as_ref()?, written(&item.mac.tokens));
            alone(&[], format!("macro_rules! {name} {{ {body} }}"))
        }
        other => {
            ident(other)?;
            alone(&[], written(other))
        }
    })
}

/// The generics, and the `where` clause with a space before it.
fn head(generics: &Generics) -> (String, String) {
    let clause = generics
        .where_clause
        .as_ref()
        .map(|clause| format!(" {}", written(clause)));
    let mut bare = generics.clone();
    bare.where_clause = None;
    (written(bare), clause.unwrap_or_default())
}

/// What the head of a struct shows of its fields, and the public ones with names.
fn fields(fields: &Fields) -> (String, Vec<String>) {
    let is_public = |vis: &Visibility| matches!(vis, Visibility::Public(_));
    match fields {
        Fields::Unit => (String::new(), Vec::new()),
        Fields::Unnamed(fields) => {
            let parts: Vec<String> = fields
                .unnamed
                .iter()
                .map(|field| match is_public(&field.vis) {
                    true => format!("pub {}", written(&field.ty)),
                    false => "_".to_owned(),
                })
                .collect();
            (format!("({})", parts.join(", ")), Vec::new())
        }
        Fields::Named(fields) => {
            let public: Vec<String> = fields
                .named
                .iter()
                .filter(|field| is_public(&field.vis))
                .map(|field| {
                    let name = field.ident.as_ref().map(ToString::to_string);
                    let name = name.unwrap_or_default();
                    format!("{}pub {name}: {}", marks(&field.attrs), written(&field.ty))
                })
                .collect();
            let whole = public.len() == fields.named.len();
            let shape = if whole { " {}" } else { " { .. }" };
            (shape.to_owned(), public)
        }
    }
}

fn variant(variant: &syn::Variant) -> String {
    let mut bare = variant.clone();
    bare.attrs.clear();
    for field in &mut bare.fields {
        field.attrs.clear();
    }
    marks(&variant.attrs) + &written(bare)
}

fn trait_item(item: &TraitItem) -> Option<String> {
    let (attrs, line) = match item {
        TraitItem::Fn(item) => {
            let given = item.default.as_ref().map_or("", |_| " { .. }");
            (&item.attrs, written(&item.sig) + given)
        }
        TraitItem::Type(item) => {
            let mut bare = item.clone();
            bare.attrs.clear();
            (&item.attrs, written(bare))
        }
        TraitItem::Const(item) => {
            let given = item.default.as_ref().map_or("", |_| " = ..");
            let line = format!("const {}: {}{given}", item.ident, written(&item.ty));
            (&item.attrs, line)
        }
        TraitItem::Macro(item) => (&item.attrs, written(&item.mac)),
        _ => return None,
    };
    let line = line.trim_end_matches(';');
    (!is_hidden(attrs)).then(|| marks(attrs) + line)
}

/// The attributes that users notice, each with a space after it; without the reasons some of them give.
pub(super) fn marks(attrs: &[Attribute]) -> String {
    let mut marks: Vec<String> = conditions(attrs);
    for attr in attrs {
        for name in TELLING {
            if attr.path().is_ident("repr") && name == "repr" {
                marks.push(written(attr));
            } else if attr.path().is_ident(name) {
                marks.push(format!("#[{name}]"));
            }
        }
    }
    marks.into_iter().map(|mark| mark + " ").collect()
}

/// Items that a macro makes cannot be seen: the text has the call instead, and the macro if it is ours.
fn macro_calls(names: &Names<'_>, crate_name: &str) -> Vec<Block> {
    let mut calls = Vec::new();
    let mut called = Vec::new();
    for (path, item) in macros(names, crate_name) {
        let name = item
            .mac
            .path
            .segments
            .last()
            .map(|last| last.ident.to_string());
        let name = name.unwrap_or_default();
        if item.ident.is_none() && !SILENT.contains(&name.as_str()) {
            calls.push((format!("{path}: {}", written(&item.mac)), Vec::new()));
            called.push(name);
        }
    }
    for (path, item) in macros(names, crate_name) {
        if let Some(name) = &item.ident
            && called.iter().any(|called| name == called)
        {
            let body = &item.mac.tokens;
            let line = format!("{path}: macro_rules! {name} {{ {} }}", written(body));
            calls.push((line, Vec::new()));
        }
    }
    calls.sort();
    calls
}

fn macros<'a>(names: &Names<'a>, crate_name: &str) -> Vec<(String, &'a syn::ItemMacro)> {
    let mut found = Vec::new();
    for (_, module) in names.modules() {
        let mut path = vec![crate_name];
        path.extend(module.path.iter().map(String::as_str));
        let path = path.join("::");
        for item in &module.items {
            if let Item::Macro(item) = item
                && !crate::source::is_test(&item.attrs)
            {
                found.push((path.clone(), item));
            }
        }
    }
    found
}
