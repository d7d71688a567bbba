//! No function is longer than a screen, and none with the name of a question acts.

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Block, FnArg, ImplItemFn, ItemFn, ReceiverKind, ReturnType, Signature, TraitItemFn};

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

impl Long<'_> {
    /// `is_…` and `has_…` ask: they answer, and change nothing.
    fn question(&mut self, signature: &Signature) {
        let name = signature.ident.to_string();
        // Tests may be sentences.
        let is_shipped =
            self.path.starts_with("crates/ferrolock/src/") && !self.path.contains("tests");
        let asks = is_shipped && ["is_", "has_"].iter().any(|start| name.starts_with(start));
        let acts = signature.inputs.iter().any(|input| {
            let FnArg::Receiver(own) = input else {
                return false;
            };
            matches!(own.kind, ReceiverKind::Reference(_, _, Some(_)))
        });
        let answers = !matches!(signature.output, ReturnType::Default);
        if asks && (acts || !answers) {
            let line = signature.fn_token.span.start().line;
            let what = format!("`{name}` is named like a question, and acts");
            self.findings.push(Finding::new(self.path, line, what));
        }
    }
}

impl<'ast> Visit<'ast> for Long<'_> {
    fn visit_signature(&mut self, signature: &'ast Signature) {
        self.question(signature);
        visit::visit_signature(self, signature);
    }

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
    fn a_question_that_acts_or_answers_nothing_is_found() {
        let text = "impl X {\nfn is_new(&mut self) -> bool { true }\nfn has_gone(&self) {}\nfn is_old(&self) -> bool { true }\n}";

        let lines: Vec<usize> = check_file("crates/ferrolock/src/x.rs", text)
            .iter()
            .map(|found| found.line)
            .collect();

        assert_eq!(lines, [2, 3]);
    }

    #[test]
    fn a_file_that_is_not_rust_is_found() {
        assert_eq!(check_file("x.rs", "fn (").len(), 1);
    }
}
