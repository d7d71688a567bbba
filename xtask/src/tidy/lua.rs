//! The form of a script: a header with keys, arguments and reply, names for keys and arguments, plain Lua.
//!
//! A part, which several scripts begin with, has functions only: its header says `-- part` and what they take.

use super::Finding;
use super::lua_code::Script;
use crate::tree::Tree;

/// What a script may not contain, and why.
const BANNED: [(&str, &str); 4] = [
    (
        "tostring(",
        "it prints 14 digits; use string.format('%d', n)",
    ),
    ("#!lua", "it makes older servers refuse the script"),
    ("redis.sha1hex", "names come from the caller"),
    ("loadstring", "a script is what its file says"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    super::scripts(tree)
        .flat_map(|(path, text)| check_file(path, text))
        .collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let script = Script::new(text);
    let mut findings = match script.has_header("part") {
        true => check_part(path, &script),
        false => [check_header(path, &script), check_names(path, &script)].concat(),
    };
    findings.extend(check_banned(path, text, &script));
    findings
}

/// A part has local functions and nothing else: it takes what they are given, and does nothing by itself.
fn check_part(path: &str, script: &Script<'_>) -> Vec<Finding> {
    let is_function = |text: &str| text.starts_with("local function ") || text == "end";
    script
        .code
        .iter()
        .filter(|line| {
            let is_outside = line.indent == 0 && !is_function(line.text);
            is_outside || line.has_word("KEYS") || line.has_word("ARGV")
        })
        .map(|line| {
            let what = "a part has local functions only, and KEYS and ARGV are not its own";
            Finding::new(path, line.number, what)
        })
        .collect()
}

/// `KEYS`, `ARGV` (those it uses) and `reply` have a line each.
fn check_header(path: &str, script: &Script<'_>) -> Vec<Finding> {
    if script.header.is_empty() {
        let what = "no header: what it does, KEYS, ARGV, reply, each in lines with `--`";
        return vec![Finding::new(path, 1, what)];
    }
    let uses = |word: &str| script.code.iter().any(|line| line.has_word(word));
    ["KEYS", "ARGV", "reply"]
        .into_iter()
        .filter(|word| *word == "reply" || uses(word))
        .filter(|word| !script.has_header(word))
        .map(|word| Finding::new(path, 1, format!("the header has no line `-- {word} …`")))
        .collect()
}

/// Keys and arguments get their names in the first lines, and are used by name after that.
fn check_names(path: &str, script: &Script<'_>) -> Vec<Finding> {
    let takes = |line: &&super::lua_code::Line<'_>| line.has_word("KEYS") || line.has_word("ARGV");
    script
        .code
        .iter()
        .skip_while(|line| line.text.starts_with("local ") && takes(line))
        .filter(takes)
        .map(|line| {
            let what = "KEYS and ARGV are named by `local` in the first lines, and not used after";
            Finding::new(path, line.number, what)
        })
        .collect()
}

fn check_banned(path: &str, text: &str, script: &Script<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if text.starts_with("#!") {
        findings.push(Finding::new(path, 1, "a script has no `#!` line"));
    }
    for line in &script.code {
        for (banned, why) in BANNED {
            if line.text.contains(banned) {
                let what = format!("`{banned}`: {why}");
                findings.push(Finding::new(path, line.number, what));
            }
        }
        if line.has_word("err")
            && ["find", "match", "gmatch", "sub", "gsub"]
                .iter()
                .any(|f| line.has_word(f))
        {
            let what = "the text of an error is not for programs; servers word it differently";
            findings.push(Finding::new(path, line.number, what));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    const GOOD: &str = "-- Asks.\n-- KEYS  1 lock\n-- ARGV  1 field\n-- reply 1: there; 0: not\nlocal lock = KEYS[1]\nlocal field = ARGV[1]\n\nreturn redis.call('HEXISTS', lock, field)\n";

    fn lines(text: &str) -> Vec<usize> {
        check_file("x.lua", text)
            .into_iter()
            .map(|found| found.line)
            .collect()
    }

    #[test]
    fn a_script_in_good_form_is_fine() {
        assert_eq!(lines(GOOD), NONE);
    }

    #[test]
    fn a_header_that_is_missing_or_not_whole_is_found() {
        let bare = "local lock = KEYS[1]\nreturn redis.call('HLEN', lock)";
        let without_reply = GOOD.replace("-- reply 1: there; 0: not\n", "");
        let without_keys = GOOD.replace("-- KEYS  1 lock\n", "");

        assert_eq!(lines(bare), [1]);
        assert_eq!(lines(&without_reply), [1]);
        assert_eq!(lines(&without_keys), [1]);
    }

    #[test]
    fn a_script_without_arguments_needs_no_line_about_them() {
        let text = "-- Asks.\n-- KEYS  1 lock\n-- reply how many\nlocal lock = KEYS[1]\nreturn redis.call('HLEN', lock)";

        assert_eq!(lines(text), NONE);
    }

    #[test]
    fn a_part_has_functions_only() {
        let part = "-- Part.\n-- part  count(lock)\nlocal function count(lock)\n    return redis.call('HLEN', lock)\nend\n";

        assert_eq!(lines(part), NONE);
        assert_eq!(lines(&format!("{part}count(1)\n")), [6]);
        assert_eq!(lines(&part.replace("'HLEN', lock", "'HLEN', KEYS[1]")), [4]);
    }

    #[test]
    fn a_key_that_is_used_without_a_name_or_named_late_is_found() {
        let unnamed = GOOD.replace("lock, field)", "KEYS[1], field)");
        let late = format!(
            "{}local more = ARGV[2]\n",
            GOOD.replace("return ", "local x = ")
        );

        assert_eq!(lines(&unnamed), [8]);
        assert_eq!(lines(&late), [9]);
    }

    #[test]
    fn banned_calls_and_matching_on_error_text_are_found() {
        for bad in [
            "return tostring(1)",
            "return string.find(reply.err, 'WRONGTYPE')",
            "return reply.err:match('^%u+')",
        ] {
            assert_eq!(
                lines(&GOOD.replace("\n\n", &format!("\n{bad}\n"))),
                [7],
                "{bad}"
            );
        }
        assert_eq!(
            lines(&GOOD.replace("\n\n", "\nlocal v = string.sub(field, 15, 15)\n")),
            NONE
        );
        assert!(!lines(&format!("#!lua flags=no-writes\n{GOOD}")).is_empty());
    }
}
