//! A script in its parts: the header, and the lines of code with the commands they call.

/// One Lua file.
pub(super) struct Script<'a> {
    /// The comment lines at its top, without their dashes.
    pub(super) header: Vec<&'a str>,
    pub(super) code: Vec<Line<'a>>,
}

/// A line of code, without its comment.
pub(super) struct Line<'a> {
    pub(super) number: usize,
    pub(super) indent: usize,
    /// Trimmed, never empty.
    pub(super) text: &'a str,
}

impl<'a> Script<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let header = text
            .lines()
            .map_while(|line| line.strip_prefix("--"))
            .map(str::trim)
            .collect();
        let code = (1..)
            .zip(text.lines())
            .map(|(number, line)| (number, line, without_comment(line)))
            .filter(|(_, _, text)| !text.is_empty())
            .map(|(number, line, text)| Line {
                number,
                indent: line.len() - line.trim_start().len(),
                text,
            })
            .collect();
        Self { header, code }
    }

    /// Whether the header has a line that begins with this word.
    pub(super) fn has_header(&self, word: &str) -> bool {
        self.header
            .iter()
            .any(|line| line.split_whitespace().next() == Some(word))
    }
}

impl Line<'_> {
    /// The server commands that the line calls, in capitals; `None` for one that is not a literal.
    pub(super) fn commands(&self) -> Vec<Option<String>> {
        ["redis.call", "redis.pcall"]
            .into_iter()
            .flat_map(|function| self.text.match_indices(function))
            .map(|(at, function)| {
                let rest = self.text.get(at + function.len()..)?.strip_prefix('(')?;
                let quote = rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
                let (command, _) = rest.strip_prefix(quote)?.split_once(quote)?;
                Some(command.to_ascii_uppercase())
            })
            .collect()
    }

    pub(super) fn calls(&self, commands: &[&str]) -> bool {
        self.commands()
            .into_iter()
            .flatten()
            .any(|command| commands.contains(&command.as_str()))
    }

    /// Whether the line contains the word as a whole word.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.text
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|part| part == word)
    }
}

fn without_comment(line: &str) -> &str {
    let mut quote = None;
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            None if c == '-' && previous == '-' => {
                return line.get(..at - 1).unwrap_or_default().trim();
            }
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(open) if c == open && previous != '\\' => quote = None,
            _ => {}
        }
        previous = c;
    }
    line.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_no_code_and_dashes_in_text_are_no_comment() {
        let script = Script::new("-- Head.\n--\nlocal a = '--' -- why\n  -- more\n  return -1");

        assert_eq!(script.header, ["Head.", ""]);
        let code: Vec<(usize, usize, &str)> = script
            .code
            .iter()
            .map(|line| (line.number, line.indent, line.text))
            .collect();
        assert_eq!(code, [(3, 0, "local a = '--'"), (5, 2, "return -1")]);
    }

    #[test]
    fn commands_are_read_in_any_case_and_only_from_literals() {
        let script = Script::new("return { redis.call('pttl', a), redis.pcall(command) }");

        assert_eq!(script.code[0].commands(), [Some("PTTL".to_owned()), None]);
    }
}
