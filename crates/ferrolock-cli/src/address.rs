//! Where the locks are.

use std::env::{self, VarError};
use std::time::Duration;

use ferrolock::Error;

use crate::exit::{self, Failure, UNAVAILABLE};
use crate::store;

/// The variable that is used without `--url`.
pub(crate) const VARIABLE: &str = "FERROLOCK_URL";

/// Where the locks are, and whether the user chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// From `--url` or the variable.
    Given(String),
    /// Neither is given: the user's own store.
    Default(String),
}

impl Address {
    /// From `--url`, else the variable, else the user's own store.
    pub(crate) fn choose(url: Option<String>) -> Result<Self, Failure> {
        let given = match (url, env::var(VARIABLE)) {
            (Some(url), _) => Some(url),
            (None, Ok(url)) => Some(url).filter(|url| !url.is_empty()),
            (None, Err(VarError::NotPresent)) => None,
            (None, Err(VarError::NotUnicode(_))) => {
                return Err(Failure::usage(format!(
                    "{VARIABLE} is not UTF-8: mend it, or give --url"
                )));
            }
        };
        match given {
            Some(url) if url.starts_with("memory:") => Err(Failure::usage(
                "a lock in memory: is this process's own and keeps nobody out: give --url file:PATH, or a server's address",
            )),
            Some(url) => Ok(Self::Given(whole(url))),
            None => store::default_address().map(Self::Default),
        }
    }

    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Given(url) | Self::Default(url) => url,
        }
    }

    /// The address without credentials.
    pub(crate) fn shown(&self) -> String {
        without_credentials(self.url())
    }

    /// Whether it is a directory on this machine.
    pub(crate) fn is_store(&self) -> bool {
        self.url().starts_with("file:")
    }

    /// The failure that says that the server or the store has not answered within that time.
    pub(crate) fn silent(&self, limit: Duration) -> Failure {
        let (shown, limit) = (self.shown(), humantime::format_duration(limit));
        let message = format!("unreachable: {shown} did not answer within {limit}");
        let failure = Failure::new(UNAVAILABLE, message);
        match self {
            Self::Given(_) => failure.hint(exit::UNREACHABLE_HINT),
            Self::Default(_) => failure.hint(store::REMEDY),
        }
    }

    /// The failure that says what went wrong, and what to do.
    pub(crate) fn explain(&self, error: Error) -> Failure {
        match self {
            Self::Given(_) => error.into(),
            Self::Default(_) => store::explain(error),
        }
    }
}

/// Makes a relative path absolute: a command that changes its directory would find another store at it.
fn whole(url: String) -> String {
    let relative = url
        .strip_prefix("file:")
        .filter(|path| !path.is_empty() && !path.starts_with(['/', '~', '?']));
    let here = relative.and_then(|_| env::current_dir().ok());
    match (relative, here.as_deref().and_then(|here| here.to_str())) {
        (Some(path), Some(here)) => {
            let here = here.replace('%', "%25").replace('?', "%3F");
            format!("file:{here}/{path}")
        }
        _ => url,
    }
}

/// A server's address may have credentials before an `@` and in its query; other addresses have none.
fn without_credentials(url: &str) -> String {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    if matches!(scheme.to_ascii_lowercase().as_str(), "memory" | "file") {
        return url.to_owned();
    }
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = match (place.strip_prefix("//"), scheme.contains("unix")) {
        (Some(network), false) => {
            let (_, server) = network.rsplit_once('@').unwrap_or(("", network));
            format!("//{server}")
        }
        _ => place.to_owned(),
    };
    let database = query.split('&').find(|pair| pair.starts_with("db="));
    match database {
        Some(database) => format!("{scheme}:{place}?{database}"),
        None => format!("{scheme}:{place}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_store_is_the_same_from_everywhere() {
        let here = env::current_dir().unwrap();

        let address = whole("file:locks/a%3Fb?filesystem=any".to_owned());

        let wanted = format!("file:{}/locks/a%3Fb?filesystem=any", here.display());
        assert_eq!(address, wanted);
        for url in ["file:/a", "file:", "file:///a", "redis://h", "unix:a"] {
            assert_eq!(whole(url.to_owned()), url);
        }
    }

    #[test]
    fn a_lock_in_memory_is_refused() {
        let failure = Address::choose(Some("memory:x".to_owned())).unwrap_err();

        assert_eq!(failure.code, exit::USAGE);
    }

    #[test]
    fn no_credentials_are_shown() {
        let cases = [
            ("redis://ann:secret@host:6379/2", "redis://host:6379/2"),
            ("rediss://:secret@host", "rediss://host"),
            ("redis://host/1?pass=secret&user=ann", "redis://host/1"),
            (
                "unix:/run/redis@1?db=2&pass=secret",
                "unix:/run/redis@1?db=2",
            ),
            ("file:/a@b/c", "file:/a@b/c"),
            ("memory:x", "memory:x"),
        ];
        for (url, shown) in cases {
            assert_eq!(without_credentials(url), shown);
        }
    }
}
