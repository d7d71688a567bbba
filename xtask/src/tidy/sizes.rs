//! No file is longer than can be read in one go.

use super::Finding;
use crate::tree::Tree;

const LIMITS: [(&str, usize); 3] = [(".rs", 500), (".lua", 100), (".java", 500)];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (end, limit) in LIMITS {
        for (path, text) in tree.ending(end) {
            let lines = text.lines().count();
            if lines > limit {
                let what = format!("{lines} lines: at most {limit}; split it along its parts");
                findings.push(Finding::new(path, lines, what));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_the_limit_is_fine_and_one_line_more_is_not() {
        let tree = Tree::of(&[
            ("fits.rs", &"\n".repeat(500)),
            ("long.rs", &"\n".repeat(501)),
            ("fits.lua", &"\n".repeat(100)),
            ("long.lua", &"\n".repeat(101)),
            ("long.java", &"\n".repeat(501)),
            ("long.md", &"\n".repeat(900)),
        ]);

        let found: Vec<String> = check(&tree).into_iter().map(|found| found.path).collect();

        assert_eq!(found, ["long.rs", "long.lua", "long.java"]);
    }
}
