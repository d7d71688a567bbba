//! How much of the library depends on features: a figure to watch, not a rule.

use crate::tree::Tree;

const LIBRARY: &str = "crates/ferrolock/src/";
const PER_1000_LINES_MAX: f64 = 2.0;

pub(super) fn figure(tree: &Tree) -> String {
    let (mut cfgs, mut lines) = (0, 0);
    for (path, text) in tree.ending(".rs") {
        if path.starts_with(LIBRARY) {
            cfgs += text.matches("#[cfg(feature").count();
            lines += text.lines().count();
        }
    }
    let per_1000_lines = density(cfgs, lines);
    let mark = if per_1000_lines > PER_1000_LINES_MAX {
        format!(
            " (warning: more than {PER_1000_LINES_MAX:.0}; features belong at the borders of modules)"
        )
    } else {
        String::new()
    };
    format!(
        "feature cfgs in the library: {cfgs} in {lines} lines, {per_1000_lines:.1} per 1,000{mark}"
    )
}

fn density(cfgs: usize, lines: usize) -> f64 {
    let exact = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    exact(cfgs) * 1000.0 / exact(lines.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_has_a_warning_only_if_there_are_many_cfgs() {
        let cfg = "#[cfg(feature = \"redis\")]\n";
        let sparse = format!("{cfg}{}", "\n".repeat(999));
        let of = |path, text: &str| figure(&Tree::of(&[(path, text)]));

        assert!(of("crates/ferrolock/src/lib.rs", cfg).contains("warning"));
        assert!(!of("crates/ferrolock/src/lib.rs", &sparse).contains("warning"));
        assert!(!of("crates/testkit/src/lib.rs", cfg).contains("warning"));
    }
}
