//! Finds the command before the lock is taken for it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::exit::{Failure, NOT_EXECUTABLE, NOT_FOUND};

/// The folders that are searched without a `PATH`.
const PATH_DEFAULT: &str = "/usr/local/bin:/usr/bin:/bin";

/// The file that `word` names: by itself if it has a slash, else the first executable one in `path`.
pub(crate) fn find(word: &OsStr, path: Option<OsString>) -> Result<PathBuf, Failure> {
    let shown = word.display();
    if word.as_encoded_bytes().contains(&b'/') {
        return match look(Path::new(word)) {
            Found::Program => Ok(word.into()),
            Found::Folder => Err(unfit(word, "is a folder")),
            Found::Unfit(why) => Err(unfit(word, why)),
            Found::Nothing => {
                let message = format!("{shown} does not exist: check the command's path");
                Err(Failure::new(NOT_FOUND, message))
            }
        };
    }
    let mut first_unfit = None;
    for folder in std::env::split_paths(&path.unwrap_or_else(|| PATH_DEFAULT.into())) {
        let file = folder.join(word);
        match look(&file) {
            Found::Program => return Ok(file),
            Found::Unfit(why) => {
                first_unfit.get_or_insert_with(|| unfit(file.as_os_str(), why));
            }
            Found::Folder | Found::Nothing => {}
        }
    }
    Err(first_unfit.unwrap_or_else(|| {
        let message =
            format!("{shown}: command not found: check its name, the PATH, or give its path");
        Failure::new(NOT_FOUND, message)
    }))
}

enum Found {
    Program,
    Folder,
    Unfit(&'static str),
    Nothing,
}

fn look(file: &Path) -> Found {
    match std::fs::metadata(file) {
        Err(why) if why.kind() == std::io::ErrorKind::PermissionDenied => {
            Found::Unfit("permission denied on the way to it")
        }
        Err(_) => Found::Nothing,
        Ok(found) if found.is_dir() => Found::Folder,
        Ok(_) if access(file, Access::EXEC_OK).is_err() => Found::Unfit("is not executable"),
        Ok(_) => Found::Program,
    }
}

fn unfit(file: &OsStr, why: &str) -> Failure {
    let message = format!("{} cannot be run: {why}", file.display());
    Failure::new(NOT_EXECUTABLE, message).hint("check its rights")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_first_executable_file_of_the_path_is_found() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        file(one.path(), "job", 0o644);
        let job = file(two.path(), "job", 0o755);
        let path = std::env::join_paths([one.path(), two.path()]).unwrap();

        assert_eq!(find("job".as_ref(), Some(path)), Ok(job));
    }

    #[test]
    fn a_file_that_cannot_be_run_is_126_and_no_file_is_127() {
        let folder = tempfile::tempdir().unwrap();
        let plain = file(folder.path(), "job", 0o644);
        let path = Some(folder.path().as_os_str().to_owned());
        let code = |word: &OsStr| find(word, path.clone()).unwrap_err().code;

        assert_eq!(code("job".as_ref()), NOT_EXECUTABLE);
        assert_eq!(code(plain.as_os_str()), NOT_EXECUTABLE);
        assert_eq!(code(folder.path().join(".").as_os_str()), NOT_EXECUTABLE);
        assert_eq!(code("other".as_ref()), NOT_FOUND);
        assert_eq!(code(folder.path().join("other").as_os_str()), NOT_FOUND);
    }
}
