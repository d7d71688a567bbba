//! Every program in `examples/` runs, and ends by itself.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use testkit::LIMIT;

/// The programs' sources.
fn sources() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut sources: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    sources.sort();
    sources
}

/// Where Cargo puts the program: beside the folder that this test is in. `None` if it was not built from this source.
fn program(source: &Path) -> Option<PathBuf> {
    let own = std::env::current_exe().unwrap();
    let target = own.ancestors().nth(2).unwrap();
    let program = target.join("examples").join(source.file_stem().unwrap());
    let age = |path: &Path| -> Option<SystemTime> { path.metadata().ok()?.modified().ok() };
    (age(&program)? >= age(source)?).then_some(program)
}

#[test]
fn every_example_runs_and_ends_by_itself() {
    let sources = sources();
    let programs: Option<Vec<PathBuf>> = sources.iter().map(|source| program(source)).collect();
    let Some(programs) = programs else {
        let remedy = "`cargo test` without `--test` builds the examples\n";
        return testkit::left_out("without the built examples", remedy);
    };
    assert!(programs.len() >= 10, "{programs:?}");

    for program in programs {
        let run = {
            let mut command = Command::new(&program);
            move || command.output().unwrap()
        };
        let output = testkit::within(LIMIT, "an example", run);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}", program.display());
        assert!(!output.stdout.is_empty(), "{} is silent", program.display());
    }
}
