//! Inside the library a type name means one thing, but for `State`, which is a file's own, and for the marker of a kind, which
//! may have the name of what makes its handles.

use std::collections::BTreeMap;

use proc_macro2::Ident;
use syn::visit::{self, Visit};
use syn::{ItemEnum, ItemMod, ItemStruct, ItemTrait};

use super::Finding;
use crate::tree::Tree;

const LIBRARY: &str = "crates/ferrolock/src/";
const OWN_OF_A_FILE: &str = "State";
const MARKERS: &str = "crates/ferrolock/src/kind.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut places: BTreeMap<String, Vec<(&str, usize)>> = BTreeMap::new();
    for (path, text) in tree.ending(".rs").filter(|(path, _)| is_shipped(path)) {
        // What cannot be parsed is reported by another rule.
        let Ok(file) = syn::parse_file(text) else {
            continue;
        };
        let mut types = Types::default();
        types.visit_file(&file);
        for (name, line) in types.0 {
            places.entry(name).or_default().push((path, line));
        }
    }
    let is_repeated = |(name, places): &(String, Vec<_>)| places.len() > 1 && name != OWN_OF_A_FILE;
    places
        .into_iter()
        .filter(is_repeated)
        .flat_map(|(name, places)| places.into_iter().map(move |place| (name.clone(), place)))
        .map(|(name, (path, line))| {
            let what = format!("`{name}` is the name of another type too");
            Finding::new(path, line, what)
        })
        .collect()
}

fn is_shipped(path: &str) -> bool {
    let inside = path.strip_prefix(LIBRARY);
    let is_code = |inside: &str| !inside.contains("tests") && !inside.starts_with("testing");
    path != MARKERS && inside.is_some_and(is_code)
}

/// Names and lines of the types that a file defines, but for those of its inline tests.
#[derive(Default)]
struct Types(Vec<(String, usize)>);

impl Types {
    fn add(&mut self, name: &Ident) {
        self.0.push((name.to_string(), name.span().start().line));
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if item.ident != "tests" {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast ItemStruct) {
        self.add(&item.ident);
    }

    fn visit_item_enum(&mut self, item: &'ast ItemEnum) {
        self.add(&item.ident);
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        self.add(&item.ident);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("{LIBRARY}{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
        check(&Tree::of(&files))
            .into_iter()
            .map(|found| (found.path.replace(LIBRARY, ""), found.line))
            .collect()
    }

    #[test]
    fn two_types_of_one_name_are_found() {
        let found = places(&[
            ("guard.rs", "\nstruct Entry;"),
            ("engine/redis.rs", "mod a { enum Entry { A } }"),
            ("name.rs", "trait Other {}"),
        ]);

        let wanted = [("guard.rs", 2), ("engine/redis.rs", 1)];
        assert_eq!(found.len(), wanted.len(), "{found:?}");
        for (path, line) in wanted {
            assert!(found.contains(&(path.to_owned(), line)), "{found:?}");
        }
    }

    #[test]
    fn tests_and_the_state_of_a_file_may_repeat_a_name() {
        let found = places(&[
            ("guard.rs", "struct Entry; struct State;"),
            (
                "engine/redis.rs",
                "enum State { A } mod tests { struct Entry; }",
            ),
            ("engine/redis/tests/live.rs", "struct Entry;"),
            ("testing/lying.rs", "struct Entry;"),
            ("kind.rs", "struct Entry;"),
        ]);

        assert_eq!(found, []);
    }
}
