//! Other programs: finding them and running them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// `cargo`, the one that runs this program, in the workspace root.
///
/// The variables that Cargo sets about the package of this program are removed: build scripts depend on them too, and a
/// build from here and one from a shell would each undo the other.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    for (name, _) in std::env::vars_os() {
        if is_about_us(&name.to_string_lossy()) {
            command.env_remove(name);
        }
    }
    command
}

fn is_about_us(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|beginning| variable.starts_with(beginning))
}

/// The command, started with hang-up, interrupt and quit as they are by default.
///
/// `nohup` and a shell's `&` make a process ignore them, every child inherits that, and tests of signals would test nothing.
pub(crate) fn with_default_signals(command: Command) -> Command {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    unless_ignored(command, &status)
}

/// `status`: `/proc/self/status`, with the mask of the signals that this process ignores.
fn unless_ignored(command: Command, status: &str) -> Command {
    const HUP_INT_QUIT: u64 = 0b111;
    let ignored = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    if ignored.is_none_or(|mask| mask & HUP_INT_QUIT == 0) {
        return command;
    }
    let mut wrapped = Command::new("env");
    wrapped
        .arg("--default-signal=HUP,INT,QUIT")
        .arg(command.get_program())
        .args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => wrapped.env(name, value),
            None => wrapped.env_remove(name),
        };
    }
    wrapped
}

/// Runs it with our own output; fails if it fails.
pub(crate) fn run(command: &mut Command) -> Result<(), String> {
    let line = line(command);
    eprintln!("$ {line}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("`{line}`: {status}")),
        Err(why) => Err(format!("`{line}` cannot be started: {why}")),
    }
}

/// Runs it and returns its output; its error output is ours.
pub(crate) fn read(command: &mut Command) -> Result<String, String> {
    let line = line(command);
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|why| format!("`{line}` cannot be started: {why}"))?;
    if !output.status.success() {
        return Err(format!("`{line}`: {}", output.status));
    }
    String::from_utf8(output.stdout).map_err(|_| format!("`{line}` does not print UTF-8"))
}

/// The program of that name on `PATH`.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| is_program(file))
}

#[cfg(unix)]
pub(crate) fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
pub(crate) fn is_program(file: &Path) -> bool {
    file.is_file()
}

/// The command as one would type it.
pub(crate) fn line(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_stem().unwrap_or(program.as_os_str());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|part| part.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_is_an_error_that_names_its_arguments() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();

        assert!(error.contains("sh -c exit 3"), "{error}");
    }

    /// Cargo sets these for tests as it does for the program.
    #[test]
    fn cargo_does_not_get_the_variables_about_our_own_package() {
        assert!(std::env::var_os("CARGO_PKG_NAME").is_some());

        let command = cargo(Path::new("."));

        let removed: Vec<_> = command
            .get_envs()
            .filter(|(_, value)| value.is_none())
            .map(|(name, _)| name.to_owned())
            .collect();
        for name in ["CARGO_PKG_NAME", "CARGO_MANIFEST_DIR"] {
            assert!(removed.iter().any(|other| other == name), "{removed:?}");
        }
        assert!(!removed.iter().any(|other| other == "CARGO"));
    }

    #[test]
    fn a_command_does_not_inherit_ignored_signals() {
        let started = |status: &str| {
            let mut command = Command::new("file-1");
            command.arg("--list").env("A", "1").env_remove("B");
            command.current_dir("/");
            unless_ignored(command, status)
        };

        for status in ["SigIgn:\t0000000000001000\n", ""] {
            assert_eq!(started(status).get_program(), "file-1");
        }
        for mask in ["1", "2", "4"] {
            let command = started(&format!("Name: x\nSigIgn:\t{mask}\n"));
            assert_eq!(command.get_program(), "env");
            let args: Vec<_> = command.get_args().collect();
            assert_eq!(args[1..], ["file-1", "--list"]);
            assert_eq!(command.get_envs().count(), 2);
            assert_eq!(command.get_current_dir(), Some(Path::new("/")));
        }
    }

    #[test]
    fn only_what_is_on_the_path_is_found() {
        assert!(find("sh").is_some());
        assert!(find("no-such-program-anywhere").is_none());
    }
}
