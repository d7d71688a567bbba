//! Source text from tokens, spaced as people write it.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use quote::ToTokens;

pub(super) fn text(tokens: impl ToTokens) -> String {
    let mut pieces = Vec::new();
    flatten(tokens.to_token_stream(), &mut pieces);
    let mut text = String::new();
    let mut last = "";
    for piece in &pieces {
        if !last.is_empty() && has_space(last, piece) {
            text.push(' ');
        }
        text.push_str(piece);
        last = piece;
    }
    text
}

/// Words, literals, brackets and signs; signs that belong together are one piece.
fn flatten(tokens: TokenStream, into: &mut Vec<String>) {
    let mut joint = false;
    for token in tokens {
        let joined = std::mem::take(&mut joint);
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::None => ("", ""),
                };
                into.push(open.to_owned());
                flatten(group.stream(), into);
                into.push(close.to_owned());
            }
            TokenTree::Punct(sign) => {
                joint = sign.spacing() == Spacing::Joint;
                match into.last_mut() {
                    Some(last) if joined && is_one_sign(last, sign.as_char()) => {
                        last.push(sign.as_char());
                    }
                    _ => into.push(sign.to_string()),
                }
            }
            // A lifetime is a quote and a word.
            TokenTree::Ident(word) if joined => match into.last_mut() {
                Some(last) if last == "'" => last.push_str(&word.to_string()),
                _ => into.push(word.to_string()),
            },
            other => into.push(other.to_string()),
        }
    }
}

fn is_one_sign(before: &str, sign: char) -> bool {
    matches!(
        (before, sign),
        (":", ':') | ("-" | "=", '>') | ("." | "..", '.') | ("..", '=') | ("=" | "!", '=')
    )
}

fn has_space(before: &str, piece: &str) -> bool {
    if piece.is_empty() || before == "{" && piece == "}" {
        return false;
    }
    if piece == "{" {
        return true;
    }
    let never_after = ["(", "[", "<", "&", "::", "!", ".", "?", "*", "#", "$"];
    let never_before = [",", ";", ":", ")", "]", ">", ".", "::"];
    if never_after.contains(&before) || never_before.contains(&piece) {
        return false;
    }
    match piece {
        "(" | "[" | "<" => !sticks(before),
        "!" => !is_word(before),
        _ => true,
    }
}

/// Whether a bracket follows it without space: `f(`, `Vec<`, `Fn<A>(`.
fn sticks(before: &str) -> bool {
    let apart = ["mut", "dyn", "as", "where", "const", "in", "return"];
    before == ">" || is_word(before) && !apart.contains(&before)
}

fn is_word(piece: &str) -> bool {
    let first = piece.trim_start_matches('\'').chars().next();
    first.is_some_and(|c| c.is_alphanumeric() || c == '_') && !piece.starts_with('\'')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_signatures_come_out_as_people_write_them() {
        for source in [
            "pub async fn f<'a, T: ?Sized + 'a>(&'a mut self, x: &mut [T; 4]) -> Result<(), E>",
            "impl<K> Deref for Guard<K> where K: Kind<Item = u8>",
            "Box<dyn for<'a> Fn(&'a str, *const u8) -> Vec<Vec<T>> + Send>",
            "<T as Kind>::Grant",
            "fn() -> !",
            "const N: usize = 4",
            "{ why: u8, .. }",
        ] {
            let tokens: TokenStream = source.parse().unwrap();
            assert_eq!(text(tokens), source);
        }
    }
}
