//! The part of an address behind `file:`.

use std::path::PathBuf;

use crate::engine::percent_decoded;

/// Where a store is, and what it may lie on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StorePlace {
    pub(super) path: PathBuf,
    /// Also allowed on a file system over which machines, or a program in between, share files.
    pub(super) on_any_file_system: bool,
}

impl StorePlace {
    /// Reads `PATH`, `///PATH` or `//localhost/PATH`, with `?filesystem=any` behind it or without.
    pub(crate) fn parse(rest: &str) -> Result<Self, String> {
        let (path, question) = match rest.split_once('?') {
            Some((path, question)) => (path, Some(question)),
            None => (rest, None),
        };
        let on_any_file_system = match question {
            None => false,
            Some("filesystem=any") => true,
            Some(other) => {
                return Err(format!(
                    "a `file:` address takes `?filesystem=any` and nothing else, not {other:?}; a ? in a path is written %3F"
                ));
            }
        };
        let path = decoded(local(path)?)?;
        if path.is_empty() {
            return Err("this address has no path: it must be file:PATH".to_owned());
        }
        if path.starts_with('~') {
            return Err(format!(
                "{path:?} begins with ~, which only a shell expands: give the whole path"
            ));
        }
        if path.contains('\0') {
            return Err("a path has no zero byte".to_owned());
        }
        Ok(Self {
            path: path.into(),
            on_any_file_system,
        })
    }

    /// The address of this place: parsed, it gives the same place.
    pub(super) fn address(&self) -> String {
        let path = self.path.to_string_lossy();
        let path = path.replace('%', "%25").replace('?', "%3F");
        let question = if self.on_any_file_system {
            "?filesystem=any"
        } else {
            ""
        };
        format!("file:{path}{question}")
    }
}

/// The path without the host, which can only be this one.
fn local(path: &str) -> Result<&str, String> {
    let Some(behind) = path.strip_prefix("//") else {
        return Ok(path);
    };
    let host = behind.split('/').next().unwrap_or_default();
    if !matches!(host, "" | "localhost") {
        return Err(format!(
            "a store is a directory of this machine, not of {host:?}: write file:/PATH"
        ));
    }
    Ok(behind.get(host.len()..).unwrap_or_default())
}

fn decoded(text: &str) -> Result<String, String> {
    let bytes =
        percent_decoded(text).ok_or("a % in a path is written %25, and a ? is written %3F")?;
    String::from_utf8(bytes).map_err(|_| "a path must be UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_and_its_address_gives_the_same_path() {
        for (text, path) in [
            ("/var/locks", "/var/locks"),
            ("locks", "locks"),
            ("///var/locks", "/var/locks"),
            ("//localhost/var/locks", "/var/locks"),
            ("/a%20b%3Fc%25", "/a b?c%"),
            ("/größe", "/größe"),
        ] {
            let place = StorePlace::parse(text).unwrap();

            assert_eq!(place.path, PathBuf::from(path));
            let again = place.address();
            assert_eq!(
                StorePlace::parse(again.strip_prefix("file:").unwrap()),
                Ok(place)
            );
        }
    }

    #[test]
    fn an_unsafe_file_system_is_allowed_only_by_the_option() {
        assert!(
            StorePlace::parse("/a?filesystem=any")
                .unwrap()
                .on_any_file_system
        );
        assert!(!StorePlace::parse("/a").unwrap().on_any_file_system);
        assert!(StorePlace::parse("/a?filesystem=none").is_err());
    }

    #[test]
    fn an_address_without_a_valid_path_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "no path"),
            ("//", "no path"),
            ("?filesystem=any", "no path"),
            ("~/locks", "begins with ~"),
            ("//server/locks", "\"server\""),
            ("/a?b", "%3F"),
            ("/100%", "%25"),
            ("/100%+1", "%25"),
            ("/%ff", "UTF-8"),
            ("/a%00", "zero byte"),
        ] {
            let told = StorePlace::parse(text).unwrap_err();
            assert!(told.contains(why), "{text}: {told}");
        }
    }
}
