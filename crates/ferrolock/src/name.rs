//! Names of locks: what is allowed, and why the rest is not.

use std::fmt;
use std::sync::Arc;

use crate::error::{Error, Result};

/// The longest name, with the client's key prefix, in bytes.
const BYTES_MAX: usize = 512;

/// A name that may be given to a lock, checked.
///
/// Handles take any text, and their first call fails if it is no name; this type is for checking one early, for
/// example where it is configured.
///
/// Allowed is any text of 1 to 512 bytes without control characters, with at most one `{tag}` in it. The tag is what
/// a cluster places keys by; names that break it would work on one server and fail on a cluster.
///
/// # Examples
/// ```
/// use ferrolock::LockName;
///
/// assert!(LockName::new("orders/42").is_ok());
/// assert!(LockName::new("{eu}:orders").is_ok());
/// assert!(LockName::new("orders{42").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockName(Arc<str>);

impl LockName {
    /// Checks a name.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) with the reason.
    pub fn new(name: impl AsRef<str>) -> Result<LockName> {
        let name = name.as_ref();
        match refusal(name) {
            None => Ok(LockName(name.into())),
            Some(why) => Err(Error::invalid(format!("the name {:?} {why}", shown(name)))),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn as_arc(&self) -> &Arc<str> {
        &self.0
    }
}

impl AsRef<str> for LockName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for LockName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Checks a text that stands in front of names.
pub(crate) fn check_prefix(prefix: &str) -> Result<()> {
    // A prefix that fits in front of the shortest name is good for some names.
    let why = match refusal(&format!("{prefix}x")) {
        None => return Ok(()),
        Some(_) if prefix.len() >= BYTES_MAX => "leaves no room for a name in 512 bytes",
        Some(why) => why,
    };
    let prefix = shown(prefix);
    Err(Error::invalid(format!("the key prefix {prefix:?} {why}")))
}

/// Why a text is no name.
fn refusal(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        return Some("is empty");
    }
    if name.len() > BYTES_MAX {
        return Some("is longer than 512 bytes");
    }
    if name.chars().any(char::is_control) {
        return Some("contains a control character");
    }
    refusal_of_tag(name)
}

fn refusal_of_tag(name: &str) -> Option<&'static str> {
    let opening = name.matches('{').count();
    if opening != name.matches('}').count() {
        return Some("has braces that do not match: a {tag} decides the cluster slot");
    }
    if opening == 0 {
        return None;
    }
    if opening > 1 {
        return Some("has more than one {tag}: only the first would decide the cluster slot");
    }
    match (name.find('{'), name.find('}')) {
        (Some(open), Some(close)) if close < open => Some("closes a brace before it opens one"),
        (Some(open), Some(close)) if close == open + 1 => {
            Some("has an empty {tag}, which decides no cluster slot")
        }
        (Some(0), Some(close)) if close + 1 == name.len() => Some(
            "is nothing but a {tag}: its helper keys would collide with those of the name in it",
        ),
        _ => None,
    }
}

/// The beginning of a name, for a message.
fn shown(name: &str) -> String {
    if name.len() <= 80 {
        name.to_owned()
    } else {
        name.chars().take(60).chain("…".chars()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_names_and_one_tag_are_allowed() {
        for name in [
            "a",
            "orders/42",
            "a b:c",
            "{eu}:orders",
            "orders:{eu}",
            "a{b}c",
            "größe",
            &"x".repeat(512),
        ] {
            assert!(LockName::new(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn names_that_break_slots_or_helper_keys_are_refused_with_the_reason() {
        let cases = [
            ("", "empty"),
            ("a\nb", "control"),
            ("a{b", "do not match"),
            ("a}b", "do not match"),
            ("a{}b", "empty {tag}"),
            ("}a{", "before it opens"),
            ("{a}", "nothing but"),
            ("{a}{b}", "more than one"),
            ("{a{b}}", "more than one"),
        ];
        for (name, why) in cases {
            let text = LockName::new(name).unwrap_err().to_string();
            assert!(text.contains(why), "{name}: {text}");
        }
        assert!(LockName::new("x".repeat(513)).is_err());
    }
}
