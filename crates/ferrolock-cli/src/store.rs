//! The per-user store: where locks are without `--url` and `FERROLOCK_URL`.
//!
//! It must be the same from a login shell, from `env -i` and from cron. So its path follows from the user's entry in the user
//! database alone: it depends on no variable, and there is no second place to fall back to, which a run in another
//! environment might not use.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use ferrolock::Error;
use nix::unistd::{Uid, User};

use crate::exit::{Failure, UNAVAILABLE};

const BELOW_HOME: [&str; 2] = [".local/state", "ferrolock"];
/// What the user can do if there is no default store.
pub(crate) const REMEDY: &str = "say where the locks shall be with --url file:PATH";

/// The address of the current user's store; the folders above it are made if need be.
pub(crate) fn default_address() -> Result<String, Failure> {
    let user = Uid::effective();
    let entry = User::from_uid(user).map_err(|why| {
        Failure::new(
            UNAVAILABLE,
            format!("the user database cannot be read ({why}): {REMEDY}"),
        )
    })?;
    let home = entry.map(|entry| entry.dir);
    let store = place(user.as_raw(), home.as_deref())?;
    make_parents(&store)?;
    address_of(&store)
}

/// Adds to the engine's error of a store that does not open what the user can do. An error that is no fault of the store
/// stays as it is.
pub(crate) fn explain(error: Error) -> Failure {
    let text = error.to_string();
    let failure = Failure::from(error);
    match failure.code {
        // Its hint is about servers.
        UNAVAILABLE => Failure::new(UNAVAILABLE, text).hint(REMEDY),
        _ => failure,
    }
}

/// The folder of the store of the user with that home.
fn place(user: u32, home: Option<&Path>) -> Result<PathBuf, Failure> {
    let failure = |what: &str| {
        let message =
            format!("user {user} has no {what}, so there is no store by default: {REMEDY}");
        Failure::new(UNAVAILABLE, message)
    };
    match home {
        None => Err(failure("entry in the user database")),
        Some(home) if !home.is_absolute() => Err(failure("home in the user database")),
        Some(home) => Ok(BELOW_HOME
            .iter()
            .fold(home.to_owned(), |at, name| at.join(name))),
    }
}

/// New folders get mode 0700; existing ones stay as they are.
fn make_parents(store: &Path) -> Result<(), Failure> {
    let Some(parent) = store.parent() else {
        return Ok(());
    };
    let made = DirBuilder::new().recursive(true).mode(0o700).create(parent);
    made.map_err(|why| {
        let message = format!("cannot make {}: {why}: {REMEDY}", parent.display());
        Failure::new(UNAVAILABLE, message)
    })
}

/// `file:` and the path, with `%` and `?` escaped, which have a meaning in an address.
fn address_of(store: &Path) -> Result<String, Failure> {
    let path = store.to_str().ok_or_else(|| {
        let message = format!("{} is not UTF-8: {REMEDY}", store.display());
        Failure::new(UNAVAILABLE, message)
    })?;
    Ok(format!(
        "file:{}",
        path.replace('%', "%25").replace('?', "%3F")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[tokio::test]
    async fn another_store_is_suggested_only_if_the_store_is_at_fault() {
        let connect = |url: &str| ferrolock::Client::connect(url.to_owned());
        let file = tempfile::NamedTempFile::new().unwrap();
        let wrong = connect("gopher:x").await.unwrap_err();
        let broken = connect(&format!("file:{}/store", file.path().display()));
        let broken = broken.await.unwrap_err();

        let (wrong, broken) = (explain(wrong), explain(broken));

        assert_eq!(wrong.code, crate::exit::USAGE);
        assert!(!wrong.message.contains("file:PATH"), "{wrong:?}");
        assert_eq!(broken.code, UNAVAILABLE);
        assert!(broken.message.ends_with(REMEDY), "{broken:?}");
        assert!(!broken.message.contains("name another"), "{broken:?}");
    }

    #[test]
    fn two_users_have_two_stores() {
        let of = |user, home| place(user, Some(Path::new(home))).unwrap();

        assert_eq!(
            of(1000, "/users/ann"),
            Path::new("/users/ann/.local/state/ferrolock")
        );
        assert_ne!(of(1000, "/users/ann"), of(1001, "/users/bob"));
    }

    #[test]
    fn the_error_for_a_user_without_entry_or_home_suggests_a_url() {
        for home in [None, Some(Path::new("")), Some(Path::new("somewhere"))] {
            let failure = place(4242, home).unwrap_err();

            assert_eq!(failure.code, UNAVAILABLE);
            assert!(failure.message.contains("4242"), "{failure:?}");
            assert!(failure.message.contains("--url file:PATH"), "{failure:?}");
        }
    }

    #[test]
    fn the_error_for_a_home_that_cannot_be_written_suggests_a_url() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().join("home");
        std::fs::write(&home, "not a folder").unwrap();

        let failure = make_parents(&place(1, Some(&home)).unwrap()).unwrap_err();

        assert_eq!(failure.code, UNAVAILABLE);
        assert!(failure.message.contains("--url file:PATH"), "{failure:?}");
    }

    #[test]
    fn only_the_user_can_read_the_folders_that_are_made() {
        let folder = tempfile::tempdir().unwrap();
        let store = place(1, Some(folder.path())).unwrap();

        make_parents(&store).unwrap();
        make_parents(&store).unwrap();

        let made = folder.path().join(".local");
        let mode = std::fs::metadata(&made).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        assert!(!store.exists(), "the engine makes the store itself");
    }

    #[test]
    fn characters_with_a_meaning_in_an_address_are_escaped() {
        assert_eq!(
            address_of(Path::new("/a b/50%?")).unwrap(),
            "file:/a b/50%25%3F"
        );
    }
}
