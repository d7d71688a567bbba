//! `cargo xtask mutants`: changes the code that decides, one thing at a time, and names each change that no unit test notices.
//!
//! `.cargo/mutants.toml` names the files, and the changes that do not matter, with the reasons. `cargo-mutants` does the work,
//! on a copy of the tree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::servers::Servers;
use crate::{java::Java, shell, suite, workspace};

/// The tool, fetched and built when it is missing. Another version makes other changes, and the reasons go stale.
const TOOL: &str = "cargo-mutants";
const VERSION: &str = "27.1.0";

/// A change that makes the tests take longer than this counts as noticed; they take some seconds.
const LIMIT_SECONDS: &str = "60";

/// A package, and the tests that judge a change of it.
struct Judge {
    package: &'static str,
    /// Which of its tests are built.
    build: &'static [&'static str],
    /// Which of those run first, by a part of their path, because they are quick and notice most.
    first: &'static [&'static str],
    /// Which of those are not run: they take long, and do not test the files that are changed.
    skip: &'static [&'static str],
}

const JUDGES: [Judge; 2] = [
    Judge {
        package: "ferrolock",
        build: &["--lib", "--no-default-features", "--features=embedded"],
        first: &["driver::", "count::", "watch::", "debts::", "protocol::"],
        skip: &[
            "a_gap_of_ten_thousand_names",
            "engine::embedded::file",
            "engine::embedded::emulator::keyspace",
            "engine::embedded::tests::differential",
            "engine::embedded::tests::sandbox",
        ],
    },
    Judge {
        package: "ferrolock-cli",
        build: &["--bins"],
        first: &[],
        skip: &[],
    },
];

/// With this argument this program is the runner that Cargo starts for the tests of a changed package.
pub(crate) const WORD: &str = "--first";

/// Runs the tests of `filters` before those of `args`: they notice at once a change that makes others hang.
pub(crate) fn run_first(filters: &str, binary: &str, args: &[&str]) -> Result<(), String> {
    shell::run(Command::new(binary).args(filters.split(',')))?;
    shell::run(Command::new(binary).args(args))
}

/// Judges all packages; `args` go to the tool. With `--re` it changes less.
pub(crate) fn run(args: &[&str]) -> Result<(), String> {
    let (root, program) = (workspace::root()?, suite::this_program()?);
    let tool = tool(&root)?;
    let folder = suite::folder(&root, "mutants")?;
    let mut survivors = String::new();
    for judge in &JUDGES {
        let output = folder.join(judge.package);
        fs::create_dir_all(&output).map_err(|why| format!("{}: {why}", output.display()))?;
        let mut command = judge.command(&root, &tool, &output, args);
        judge.first(&program, &mut command)?;
        judge.last(&mut command);
        command.env("CARGO_TARGET_DIR", folder.join("build"));
        survivors += &survivors_of(&mut command, &output)?;
    }
    match survivors.as_str() {
        "" => {
            println!("every change was noticed");
            Ok(())
        }
        _ => Err(format!(
            "\nno unit test noticed:\n{survivors}Write a test for each, or in .cargo/mutants.toml why it does not matter"
        )),
    }
}

/// The tool, in a folder of ours.
fn tool(root: &Path) -> Result<PathBuf, String> {
    let folder = suite::folder(root, "tools")?.join(format!("{TOOL}-{VERSION}"));
    let program = folder.join("bin").join(TOOL);
    if !shell::is_program(&program) {
        shell::run(
            shell::cargo(root)
                .args(["install", "--locked", TOOL, "--version", VERSION, "--root"])
                .arg(&folder),
        )?;
    }
    Ok(program)
}

impl Judge {
    fn command(&self, root: &Path, tool: &Path, output: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(tool);
        command
            .current_dir(root)
            .args(["mutants", "--package", self.package, "--jobs", "1"])
            .args(["--timeout", LIMIT_SECONDS, "--output"])
            .arg(output)
            .args(args);
        for part in self.build {
            command.arg(format!("--cargo-arg={part}"));
        }
        // Each change is built once and run once: quick builds are worth more than quick tests.
        command
            .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0")
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_INCREMENTAL", "1");
        Servers::hide_from(&mut command);
        Java::hide_from(&mut command);
        command
    }

    /// Adds the setting that runs some tests before the others.
    fn first(&self, program: &Path, command: &mut Command) -> Result<(), String> {
        if !self.first.is_empty() {
            let setting = suite::runner_setting(program, &[WORD, &self.first.join(",")])?;
            command.arg(format!("--cargo-arg=--config={setting}"));
        }
        Ok(())
    }

    /// Adds the arguments for the test binaries, which come last.
    fn last(&self, command: &mut Command) {
        command.args(["--", "--"]);
        for test in self.skip {
            command.args(["--skip", test]);
        }
    }
}

/// The tool's exit codes that are no failure of its own: all changes noticed, some not, some by a test that hung.
const WHOLE: [i32; 3] = [0, 2, 3];

/// Runs the tool, and returns a line for each change that no test noticed.
fn survivors_of(command: &mut Command, output: &Path) -> Result<String, String> {
    let line = shell::line(command);
    eprintln!("$ {line}");
    let status = command
        .status()
        .map_err(|why| format!("`{line}` cannot be started: {why}"))?;
    if !status.code().is_some_and(|code| WHOLE.contains(&code)) {
        return Err(format!("`{line}`: {status}"));
    }
    let list = output.join("mutants.out").join("missed.txt");
    fs::read_to_string(&list).map_err(|why| format!("{}: {why}", list.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_judged_by_its_quick_unit_tests_without_servers() {
        let [library, _] = &JUDGES;
        let (root, tool, output) = (Path::new("/r"), Path::new("/t"), Path::new("/o"));

        let mut command = library.command(root, tool, output, &["--re", "x.rs"]);
        library.first(Path::new("/p"), &mut command).unwrap();
        library.last(&mut command);

        let line = shell::line(&command);
        assert!(
            line.starts_with("t mutants --package ferrolock --jobs 1"),
            "{line}"
        );
        assert!(line.contains(" --re x.rs --cargo-arg=--lib "), "{line}");
        assert!(
            line.contains(r#"runner = ["/p","--first","driver::,count::,"#),
            "{line}"
        );
        assert!(line.contains(" -- -- --skip a_gap_of_ten"), "{line}");
        let hidden = command
            .get_envs()
            .any(|(name, _)| name == "FERROLOCK_NO_SERVERS");
        assert!(hidden);
    }

    /// The test binary that is run is this one.
    #[test]
    fn the_first_tests_decide_before_the_others_run() {
        let this = std::env::current_exe().unwrap();
        let this = this.to_str().unwrap();
        let (good, bad) = ("only_what_is_on_the_path", "--no-such-option");

        assert_eq!(run_first(good, this, &[good]), Ok(()));
        assert!(run_first(good, this, &[bad]).is_err());
        assert!(run_first(bad, this, &[good]).is_err());
    }
}
