//! When Maven is called to build, tested with a program in its place that only records its arguments.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

/// Records its arguments and makes the jar; if the test says so, only in online builds, or it stops after half of the work.
const MAVEN: &str = r#"#!/bin/sh
root=$(cd ../.. && pwd)
echo "$*" >> "$root/asked"
case "$*" in *--offline*) [ ! -e "$root/empty" ] || { echo "no artifacts"; exit 1; };; esac
[ ! -e "$root/broken" ] || { echo "cannot find symbol"; echo "no such JAVA_HOME" >&2; exit 1; }
mkdir -p "$root/target/interop/1.2.3"
touch "$root/target/interop/1.2.3/ferrolock-peer-1.2.3.jar"
[ ! -e "$root/interrupted" ] || exit 130
"#;

const JAVAC: &str = "#!/bin/sh\necho javac 17.0.2";

fn program(path: &Path, script: &str) {
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn project(network: Network) -> (TempDir, Project) {
    let root = tempfile::tempdir().unwrap();
    let project = Project {
        root: root.path().to_owned(),
        maven: root.path().join("mvn"),
        javac: root.path().join("javac"),
        network,
        say: |_| {},
    };
    fs::create_dir_all(project.source().join("src")).unwrap();
    fs::write(project.source().join("src/Main.java"), "").unwrap();
    program(&project.maven, MAVEN);
    program(&project.javac, JAVAC);
    (root, project)
}

/// The arguments of each call of Maven so far.
fn asked(project: &Project) -> Vec<String> {
    let lines = fs::read_to_string(project.root.join("asked")).unwrap_or_default();
    lines.lines().map(str::to_owned).collect()
}

const OFFLINE: &str = "--quiet --batch-mode --offline -Dredisson.version=1.2.3 package";
const ONLINE: &str = "--quiet --batch-mode -Dredisson.version=1.2.3 package";

#[test]
fn a_missing_jar_is_built_once() {
    let (_root, project) = project(Network::No);

    let jar = project.jar("1.2.3").unwrap();
    project.jar("1.2.3").unwrap();

    assert!(jar.is_file());
    assert_eq!(asked(&project), [OFFLINE]);
}

#[test]
fn a_jar_that_is_older_than_a_source_file_is_built_again() {
    let (_root, project) = project(Network::No);
    project.jar("1.2.3").unwrap();
    let source = File::open(project.source().join("src/Main.java")).unwrap();

    let later = SystemTime::now() + Duration::from_secs(60);
    source.set_modified(later).unwrap();
    project.jar("1.2.3").unwrap();

    assert_eq!(asked(&project), [OFFLINE, OFFLINE]);
}

#[test]
fn maven_fetches_what_it_lacks_if_it_may_use_the_network() {
    let (_root, project) = project(Network::Yes);
    fs::write(project.root.join("empty"), "").unwrap();

    let jar = project.jar("1.2.3").unwrap();

    assert!(jar.is_file());
    assert_eq!(asked(&project), [OFFLINE, ONLINE]);
}

#[test]
fn a_build_for_a_test_does_not_use_the_network() {
    let (_root, project) = project(Network::No);
    fs::write(project.root.join("empty"), "").unwrap();

    let error = project.jar("1.2.3").unwrap_err();

    assert!(error.contains("no artifacts"), "{error}");
    assert_eq!(asked(&project), [OFFLINE]);
}

/// Maven makes a jar without Redisson first, under the name of the whole one.
#[test]
fn the_jar_of_an_interrupted_build_is_not_used() {
    let (_root, project) = project(Network::No);
    let interrupted = project.root.join("interrupted");
    fs::write(&interrupted, "").unwrap();
    project.jar("1.2.3").unwrap_err();

    fs::remove_file(interrupted).unwrap();
    project.jar("1.2.3").unwrap();

    assert_eq!(asked(&project), [OFFLINE, OFFLINE]);
}

#[test]
fn a_compiler_that_is_too_old_is_an_error() {
    let (_root, project) = project(Network::No);
    program(&project.javac, "#!/bin/sh\necho javac 11.0.2");

    let error = project.jar("1.2.3").unwrap_err();

    assert!(error.contains("version 11"), "{error}");
    assert!(error.contains("17 or newer"), "{error}");
    assert_eq!(asked(&project), [""; 0]);
}

#[test]
fn the_error_of_a_failed_build_has_the_output_of_both_attempts() {
    let (_root, project) = project(Network::Yes);
    fs::write(project.root.join("broken"), "").unwrap();

    let error = project.jar("1.2.3").unwrap_err();

    assert_eq!(error.matches("cannot find symbol").count(), 2, "{error}");
    assert_eq!(error.matches("no such JAVA_HOME").count(), 2, "{error}");
    assert!(error.contains("--offline"), "{error}");
}

#[test]
fn the_project_names_the_versions() {
    let [newest, oldest] = Redisson::ALL.map(Redisson::version);

    assert!(newest.starts_with("4."), "{newest}");
    assert!(oldest.starts_with("3."), "{oldest}");
    assert_eq!(named("<project></project>", "redisson.version"), None);
}
