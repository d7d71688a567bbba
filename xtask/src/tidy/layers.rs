//! Dependencies in the library point downward only, siblings in `coordination` import one way, and the client crate of the
//! server stays in its corner.

use proc_macro2::{TokenStream, TokenTree};

use super::Finding;
use crate::tree::Tree;

const LIBRARY: &str = "crates/ferrolock/src/";

/// A layer, and the layers above it.
const ABOVE: [(&str, &[&str]); 3] = [
    (
        "protocol",
        &["engine", "coordination", "sync", "client", "guard"],
    ),
    ("engine", &["coordination", "sync", "client", "guard"]),
    ("coordination", &["sync", "client"]),
];

/// A part of `coordination`, and the parts that use it: it knows them by its own traits only.
const USERS: [(&str, &[&str]); 2] = [
    ("coordination/holding", &["waiting"]),
    ("coordination/keeper", &["waiting", "holding"]),
];

/// The one place of `coordination` that calls the engine.
const SEND: &str = "coordination/send.rs";

/// Where one kind of lock may be named: in its protocol and its public face. All other code uses its scheme.
const KIND_PLACES: [&str; 2] = ["protocol", "sync"];

/// Where the `redis` crate may be named: its engine, the client that builds it, and the re-export.
const REDIS_PLACES: [&str; 3] = ["engine/redis", "client", "lib.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.ending(".rs")
        .filter_map(|(path, text)| Some((path, path.strip_prefix(LIBRARY)?, text)))
        .flat_map(|(path, inside, text)| check_file(path, inside, text))
        .collect()
}

fn check_file(path: &str, inside: &str, text: &str) -> Vec<Finding> {
    // Another rule reports text that cannot be parsed.
    let Ok(stream) = text.parse::<TokenStream>() else {
        return Vec::new();
    };
    let mut tokens = Vec::new();
    flatten(stream, &mut tokens);
    let words: Vec<&str> = tokens.iter().map(|(word, _)| word.as_str()).collect();
    let mut findings = Vec::new();
    for (at, (_, line)) in tokens.iter().enumerate() {
        let ahead = words.get(at..).unwrap_or_default();
        let before = words.get(..at).unwrap_or_default();
        for above in upward(inside, before, ahead) {
            let what = format!("`{above}` is a layer above this file");
            findings.push(Finding::new(path, *line, what));
        }
        for user in against_the_way(inside, before, ahead) {
            let what = format!("`{user}` uses this part, and is known to it by a trait only");
            findings.push(Finding::new(path, *line, what));
        }
        if calls_engine(inside, ahead) {
            let what = format!("a call goes out by `Core::send`, in {SEND}");
            findings.push(Finding::new(path, *line, what));
        }
        if names_kind(inside, ahead) {
            let what = "`protocol::lock` is known to `protocol` and `sync` only: ask the scheme";
            findings.push(Finding::new(path, *line, what));
        }
        if names_redis(inside, before, ahead)
            && !words.windows(2).any(|two| two == ["mod", "redis"])
        {
            let what = "the `redis` crate is known to `engine/redis` and the client only";
            findings.push(Finding::new(path, *line, what));
        }
    }
    findings
}

/// Whether a path that starts here leads to one kind of lock from a file where it may not. Tests may name a kind.
fn names_kind(inside: &str, ahead: &[&str]) -> bool {
    let top = inside.split(['/', '.']).next().unwrap_or_default();
    let is_allowed = KIND_PLACES.contains(&top) || inside.contains("tests");
    !is_allowed && matches!(ahead, ["protocol", ":", ":", "lock", ..])
}

/// The users of this part of `coordination` that a path which starts here leads to. Tests may name all.
fn against_the_way<'a>(inside: &str, before: &[&str], ahead: &[&'a str]) -> Vec<&'a str> {
    let part = USERS
        .iter()
        .find(|(part, _)| inside.strip_prefix(part).is_some_and(is_in_part));
    let Some((_, users)) = part.filter(|_| !inside.contains("tests")) else {
        return Vec::new();
    };
    let rest = match ahead {
        ["coordination", ":", ":", rest @ ..] => rest,
        ["super", ":", ":", rest @ ..] if !before.ends_with(&[":", ":"]) => rest,
        _ => return Vec::new(),
    };
    first_segments(rest)
        .into_iter()
        .filter(|segment| users.contains(segment))
        .collect()
}

/// What follows the name of a part in the path of one of its files.
fn is_in_part(rest: &str) -> bool {
    rest.starts_with(['/', '.'])
}

fn calls_engine(inside: &str, ahead: &[&str]) -> bool {
    let is_asked = inside.starts_with("coordination") && inside != SEND;
    is_asked && !inside.contains("tests") && matches!(ahead, ["engine", ".", "call", ..])
}

/// The higher layers that a path that starts here leads to.
fn upward<'a>(inside: &str, before: &[&str], ahead: &[&'a str]) -> Vec<&'a str> {
    let top = inside.split(['/', '.']).next().unwrap_or_default();
    let Some((_, forbidden)) = ABOVE.iter().find(|(layer, _)| *layer == top) else {
        return Vec::new();
    };
    // This is the middle of a path, which was checked from its start.
    if before.ends_with(&[":", ":"]) {
        return Vec::new();
    }
    let Some(rest) = from_crate_root(inside, ahead) else {
        return Vec::new();
    };
    first_segments(rest)
        .into_iter()
        .filter(|segment| forbidden.contains(segment))
        .collect()
}

/// What follows `crate::`, or as many `super::` as lead there from this file.
fn from_crate_root<'t, 'a>(inside: &str, ahead: &'t [&'a str]) -> Option<&'t [&'a str]> {
    if let ["crate", ":", ":", rest @ ..] = ahead {
        return Some(rest);
    }
    let depth = inside.trim_end_matches("/mod.rs").split('/').count();
    let mut rest = ahead;
    let mut climbed = 0;
    while let ["super", ":", ":", next @ ..] = rest {
        rest = next;
        climbed += 1;
    }
    (climbed >= depth).then_some(rest)
}

/// `a` of `a::b`; `a` and `b` of `{a::x, b}`.
fn first_segments<'a>(rest: &[&'a str]) -> Vec<&'a str> {
    let ["{", inner @ ..] = rest else {
        return rest.first().copied().into_iter().collect();
    };
    let mut segments = Vec::new();
    let (mut depth, mut starts) = (0, true);
    for word in inner {
        match *word {
            "}" if depth == 0 => break,
            "{" => depth += 1,
            "}" => depth -= 1,
            "," if depth == 0 => {
                starts = true;
                continue;
            }
            word if starts => segments.push(word),
            _ => {}
        }
        starts = false;
    }
    segments
}

fn names_redis(inside: &str, before: &[&str], ahead: &[&str]) -> bool {
    if REDIS_PLACES.iter().any(|place| inside.starts_with(place)) {
        return false;
    }
    let is_path = matches!(ahead, ["redis", ":", ":", ..]);
    let is_import = matches!(ahead, ["redis", ";" | "as", ..]) && before.ends_with(&["use"]);
    // `engine::redis::x` is our own; `::redis::x` is not.
    let is_ours = matches!(before, [.., owner, ":", ":"] if is_word(owner));
    (is_path || is_import) && !is_ours
}

fn is_word(token: &str) -> bool {
    token.chars().all(|c| c.is_alphanumeric() || c == '_') && token != "use"
}

/// Words, single signs and braces, with their lines; also those inside macro calls. Comments are not tokens.
fn flatten(stream: TokenStream, into: &mut Vec<(String, usize)>) {
    for token in stream {
        let line = token.span().start().line;
        match token {
            TokenTree::Group(group) => {
                into.push(("{".to_owned(), line));
                flatten(group.stream(), into);
                into.push(("}".to_owned(), group.span_close().start().line));
            }
            TokenTree::Literal(_) => into.push(("\"".to_owned(), line)),
            other => into.push((other.to_string(), line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn lines(inside: &str, text: &str) -> Vec<usize> {
        let path = format!("{LIBRARY}{inside}");
        check(&Tree::of(&[(&path, text)]))
            .into_iter()
            .map(|found| found.line)
            .collect()
    }

    #[test]
    fn a_lower_layer_that_names_a_higher_one_is_found() {
        assert_eq!(lines("protocol/lock.rs", "\nuse crate::engine::Lane;"), [2]);
        assert_eq!(lines("protocol.rs", "use super::engine::Lane;"), [1]);
        assert_eq!(
            lines("engine/redis/x.rs", "fn f() { crate::guard::f() }"),
            [1]
        );
        assert_eq!(
            lines("engine.rs", "use crate::{protocol::Call, sync::Lock};"),
            [1]
        );
        assert_eq!(
            lines("coordination/tenure.rs", "log!(crate::client::X);"),
            [1]
        );
        assert_eq!(
            lines("protocol/lock.rs", "use super::super::sync::Lock;"),
            [1]
        );
    }

    #[test]
    fn one_kind_of_lock_is_named_by_its_own_files_and_tests_only() {
        let text = "use crate::protocol::lock::PlainLock;";

        assert_eq!(lines("coordination/names.rs", text), [1]);
        assert_eq!(lines("engine/embedded/file.rs", text), [1]);
        for own in ["sync/lock.rs", "coordination/several_tests.rs"] {
            assert_eq!(lines(own, text), NONE, "{own}");
        }
    }

    #[test]
    fn a_part_that_names_its_users_is_found() {
        let keeper = "coordination/keeper/pay.rs";
        let text = "use crate::coordination::holding::hold::Hold;";
        assert_eq!(lines(keeper, text), [1]);
        let text = "use crate::coordination::{Core, waiting::Request};";
        assert_eq!(lines(keeper, text), [1]);
        assert_eq!(lines("coordination/holding/hold.rs", text), [1]);
        assert_eq!(
            lines("coordination/keeper.rs", "fn f() { super::waiting::f() }"),
            [1]
        );
    }

    #[test]
    fn a_part_may_name_what_it_uses_and_its_tests_may_name_all() {
        let text = "use crate::coordination::holding::hold::Hold;";
        for file in ["waiting/first.rs", "holding/tenure.rs", "keeper/tests.rs"] {
            assert_eq!(lines(&format!("coordination/{file}"), text), NONE, "{file}");
        }
        let text = "use crate::coordination::keeper::kept::Kept;";
        assert_eq!(lines("coordination/holding/kept.rs", text), NONE);
    }

    #[test]
    fn the_engine_is_called_in_one_place_of_the_machinery() {
        let text = "fn f() { core.engine.call(lane, call) }";

        assert_eq!(lines("coordination/keeper/pay.rs", text), [1]);
        for file in [SEND, "coordination/late_tests.rs", "client.rs"] {
            assert_eq!(lines(file, text), NONE, "{file}");
        }
    }

    #[test]
    fn a_layer_may_name_itself_and_what_is_below() {
        assert_eq!(
            lines("engine/redis.rs", "use crate::protocol::script::Call;"),
            NONE
        );
        assert_eq!(
            lines(
                "coordination/acquire.rs",
                "use crate::{engine::Lane, guard::X};"
            ),
            NONE
        );
        assert_eq!(
            lines(
                "protocol/lock.rs",
                "use super::keys; use tokio::sync::watch;"
            ),
            NONE
        );
        assert_eq!(
            lines("protocol/lock.rs", "/// Not crate::engine.\nfn f() {}"),
            NONE
        );
        assert_eq!(lines("sync/lock.rs", "use crate::client::Client;"), NONE);
    }

    #[test]
    fn the_redis_crate_is_found_where_it_may_not_be_named() {
        assert_eq!(
            lines("sync/lock.rs", "fn f() -> redis::Value { loop {} }"),
            [1]
        );
        assert_eq!(lines("error.rs", "use ::redis::RedisError;"), [1]);
        assert_eq!(lines("error.rs", "use redis as server;"), [1]);
    }

    #[test]
    fn the_redis_crate_is_fine_in_its_places_and_our_module_redis_everywhere() {
        assert_eq!(lines("engine/redis/link.rs", "use redis::Value;"), NONE);
        assert_eq!(lines("client/builder.rs", "use redis::Client;"), NONE);
        assert_eq!(
            lines("engine.rs", "mod redis; fn f() { redis::open() }"),
            NONE
        );
        assert_eq!(
            lines("options.rs", "use crate::engine::redis::Address;"),
            NONE
        );
    }
}
