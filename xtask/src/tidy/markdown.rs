//! What a Markdown file links to, and what can be linked to in it.

/// A link, as written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) line: usize,
    pub(super) target: String,
}

/// `[text](target)` and `[label]: target`, outside of code.
pub(super) fn links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, text) in prose(text) {
        let text = without_code(text);
        links.extend(text.match_indices("](").filter_map(|(at, found)| {
            let rest = text.get(at + found.len()..)?;
            let (inside, _) = rest.split_once(')')?;
            target(line, inside)
        }));
        if let Some((_, rest)) = text
            .strip_prefix('[')
            .and_then(|label| label.split_once("]:"))
        {
            links.extend(target(line, rest));
        }
    }
    links
}

/// The first word, without angle brackets; what follows it is a title.
fn target(line: usize, inside: &str) -> Option<Link> {
    let first = inside.split_whitespace().next()?;
    let target = first.trim_matches(['<', '>']).to_owned();
    Some(Link { line, target })
}

/// The anchors of its headings, as forges make them.
pub(super) fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor(title.trim());
        let repeated = anchors.iter().filter(|other| **other == anchor).count();
        if repeated > 0 {
            anchors.push(format!("{anchor}-{repeated}"));
        }
        anchors.push(anchor);
    }
    anchors
}

fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// The lines outside of fenced code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return false;
        }
        !fenced
    })
}

/// The line without what stands between backticks; the backticks stay.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let kept: Vec<&str> = parts
        .iter()
        .enumerate()
        // A backtick that nothing closes is one itself.
        .map(|(at, part)| {
            if at % 2 == 1 && at + 1 < parts.len() {
                ""
            } else {
                part
            }
        })
        .collect();
    kept.join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_prose_are_found_and_those_in_code_are_not() {
        let text = "see [a](x.md) and [b](<y.md> \"title\")\n```\n[c](z.md)\n```\nnot `[d](w.md)`\n[e]: v.md";

        let targets: Vec<(usize, String)> = links(text)
            .into_iter()
            .map(|link| (link.line, link.target))
            .collect();

        assert_eq!(
            targets,
            [
                (1, "x.md".to_owned()),
                (1, "y.md".to_owned()),
                (6, "v.md".to_owned())
            ]
        );
    }

    #[test]
    fn a_heading_becomes_an_anchor_and_a_repeated_one_is_numbered() {
        let text = "# What it is, `exactly`\n## Keys\n#### Keys\n```\n# not\n```\n#hash";

        assert_eq!(
            anchors(text),
            ["what-it-is-exactly", "keys", "keys-1", "keys"]
        );
    }
}
