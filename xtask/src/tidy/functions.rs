//! No function is longer than a screen.

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, Signature, TraitItemFn};

use super::Finding;
use crate::tree::Tree;

const LINES_MAX: usize = 70;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .flat_map(|(path, text)| check_file(path, text))
        .collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    match syn::parse_file(text) {
        Ok(file) => {
            let mut long = Long {
                path,
                findings: Vec::new(),
            };
            long.visit_file(&file);
            long.findings
        }
        Err(why) => {
            let what = format!("cannot be parsed: {why}");
            vec![Finding::new(path, why.span().start().line, what)]
        }
    }
}

struct Long<'a> {
    path: &'a str,
    findings: Vec<Finding>,
}

impl Long<'_> {
    /// Attributes and docs above the signature do not count.
    fn measure(&mut self, signature: &Signature, block: &Block) {
        let start: Span = signature.fn_token.span;
        let first = start.start().line;
        let last = block.brace_token.span.close().end().line;
        let lines = last + 1 - first;
        if lines > LINES_MAX {
            let name = &signature.ident;
            let what = format!("`{name}` has {lines} lines: at most {LINES_MAX}");
            self.findings.push(Finding::new(self.path, first, what));
        }
    }
}

impl<'ast> Visit<'ast> for Long<'_> {
    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.measure(&function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.measure(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_71_lines_is_too_long_wherever_it_stands() {
        let body = "\n".repeat(70);
        let text = format!(
            "fn free() {{{body}}}\nimpl X {{ fn method() {{{body}}} }}\ntrait T {{ fn given() {{{body}}} }}\nmod m {{ fn inner() {{{body}}} }}"
        );

        let findings = check_file("x.rs", &text);

        assert_eq!(findings.len(), 4);
        assert_eq!(findings[0].line, 1);
        assert_eq!(findings[1].line, 72);
    }

    #[test]
    fn a_function_of_70_lines_is_fine_whatever_stands_above_it() {
        let text = format!("/// Doc.\n#[test]\nfn f() {{{}}}", "\n".repeat(69));

        assert_eq!(check_file("x.rs", &text), []);
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        assert_eq!(check_file("x.rs", "fn (").len(), 1);
    }
}
