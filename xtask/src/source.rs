//! The modules of a crate, as its `mod` declarations reach them.

use syn::{Attribute, Expr, Item, ItemMod, Lit, Meta};

use crate::tree::{Tree, folder, join};

/// One module, in a file or inline.
pub(crate) struct Module {
    /// `["sync", "lock"]`; empty: the crate's root.
    pub(crate) path: Vec<String>,
    /// The file it stands in.
    pub(crate) file: String,
    /// The attributes of its `mod` declaration.
    pub(crate) attrs: Vec<Attribute>,
    pub(crate) items: Vec<Item>,
}

/// Every module that the crate with this root file has. A `mod` whose file is missing is left to the compiler.
pub(crate) fn modules(tree: &Tree, root: &str) -> Result<Vec<Module>, String> {
    let mut found = Vec::new();
    let text = tree.text(root).ok_or(format!("{root} is not there"))?;
    let items = parse(root, text)?;
    let module = Module {
        path: Vec::new(),
        file: root.to_owned(),
        attrs: Vec::new(),
        items,
    };
    descend(tree, module, folder(root).to_owned(), &mut found)?;
    Ok(found)
}

pub(crate) fn parse(path: &str, text: &str) -> Result<Vec<Item>, String> {
    match syn::parse_file(text) {
        Ok(file) => Ok(file.items),
        Err(why) => {
            let line = why.span().start().line;
            Err(format!("{path}:{line}: {why}"))
        }
    }
}

/// Whether it exists only for tests.
pub(crate) fn is_test(attrs: &[Attribute]) -> bool {
    attrs.iter().any(|attr| {
        attr.path().is_ident("cfg")
            && attr
                .parse_args::<syn::Path>()
                .is_ok_and(|path| path.is_ident("test"))
    })
}

/// `inside` is the folder in which the files of its child modules are looked for.
fn descend(
    tree: &Tree,
    module: Module,
    inside: String,
    found: &mut Vec<Module>,
) -> Result<(), String> {
    for item in &module.items {
        let Item::Mod(declared) = item else { continue };
        let name = declared.ident.to_string();
        let Some((file, items, next)) = child(tree, &module, &inside, declared, &name)? else {
            continue;
        };
        let mut path = module.path.clone();
        path.push(name);
        let attrs = declared.attrs.clone();
        let child = Module {
            path,
            file,
            attrs,
            items,
        };
        descend(tree, child, next, found)?;
    }
    found.push(module);
    Ok(())
}

/// Its file, its items, and the folder of its own children.
type Child = Option<(String, Vec<Item>, String)>;

fn child(
    tree: &Tree,
    parent: &Module,
    inside: &str,
    declared: &ItemMod,
    name: &str,
) -> Result<Child, String> {
    let own = join(inside, name).unwrap_or_default();
    if let Some((_, items)) = &declared.content {
        return Ok(Some((parent.file.clone(), items.clone(), own)));
    }
    if let Some(path) = path_attribute(&declared.attrs) {
        let file = join(folder(&parent.file), &path).unwrap_or_default();
        let next = folder(&file).to_owned();
        return load(tree, file, next);
    }
    let flat = format!("{own}.rs");
    if tree.text(&flat).is_some() {
        return load(tree, flat, own);
    }
    load(tree, format!("{own}/mod.rs"), own)
}

fn load(tree: &Tree, file: String, next: String) -> Result<Child, String> {
    match tree.text(&file) {
        Some(text) => {
            let items = parse(&file, text)?;
            Ok(Some((file, items, next)))
        }
        None => Ok(None),
    }
}

fn path_attribute(attrs: &[Attribute]) -> Option<String> {
    attrs.iter().find_map(|attr| match &attr.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_beside_below_inline_and_by_path() {
        let tree = Tree::of(&[
            (
                "src/lib.rs",
                "mod a; mod b; mod c { mod d; } #[path = \"other.rs\"] mod e; mod missing;",
            ),
            ("src/a.rs", "mod inner;"),
            ("src/a/inner.rs", ""),
            ("src/b/mod.rs", "mod leaf;"),
            ("src/b/leaf.rs", ""),
            ("src/c/d.rs", ""),
            ("src/other.rs", ""),
            ("src/forgotten.rs", ""),
        ]);

        let mut files: Vec<String> = modules(&tree, "src/lib.rs")
            .unwrap()
            .into_iter()
            .map(|module| module.file)
            .collect();
        files.sort();
        files.dedup();

        assert_eq!(
            files,
            [
                "src/a.rs",
                "src/a/inner.rs",
                "src/b/leaf.rs",
                "src/b/mod.rs",
                "src/c/d.rs",
                "src/lib.rs",
                "src/other.rs"
            ]
        );
    }

    #[test]
    fn a_file_that_is_not_rust_is_named_with_its_line() {
        let error = parse("src/x.rs", "fn ok() {}\nfn (").err().unwrap();

        assert!(error.starts_with("src/x.rs:2"), "{error}");
    }
}
