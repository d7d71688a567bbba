//! When Maven is asked to build, with a Maven that only notes how it was asked.

use super::*;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;
use tempfile::TempDir;

/// Notes its arguments, and makes the jar: of online builds only, if the test says so.
const MAVEN: &str = r#"#!/bin/sh
root=$(cd ../.. && pwd)
echo "$*" >> "$root/asked"
case "$*" in *--offline*) [ ! -e "$root/empty" ] || { echo "no artifacts"; exit 1; };; esac
[ ! -e "$root/broken" ] || { echo "cannot find symbol"; exit 1; }
mkdir -p "$root/target/interop/1.2.3"
touch "$root/target/interop/1.2.3/ferrolock-peer-1.2.3.jar"
"#;

fn project() -> (TempDir, Project) {
    let root = tempfile::tempdir().unwrap();
    let project = Project {
        root: root.path().to_owned(),
        maven: root.path().join("mvn"),
    };
    fs::create_dir_all(project.source().join("src")).unwrap();
    fs::write(project.source().join("src/Main.java"), "").unwrap();
    fs::write(&project.maven, MAVEN).unwrap();
    fs::set_permissions(&project.maven, fs::Permissions::from_mode(0o755)).unwrap();
    (root, project)
}

/// How Maven was asked so far.
fn asked(project: &Project) -> Vec<String> {
    let lines = fs::read_to_string(project.root.join("asked")).unwrap_or_default();
    lines.lines().map(str::to_owned).collect()
}

const OFFLINE: &str = "--quiet --batch-mode --offline -Dredisson.version=1.2.3 package";
const ONLINE: &str = "--quiet --batch-mode -Dredisson.version=1.2.3 package";

#[test]
fn a_missing_jar_is_built_once() {
    let (_root, project) = project();

    let jar = project.jar("1.2.3").unwrap();
    project.jar("1.2.3").unwrap();

    assert!(jar.is_file());
    assert_eq!(asked(&project), [OFFLINE]);
}

#[test]
fn a_jar_that_is_older_than_a_source_file_is_built_again() {
    let (_root, project) = project();
    project.jar("1.2.3").unwrap();
    let source = File::open(project.source().join("src/Main.java")).unwrap();

    let later = SystemTime::now() + Duration::from_secs(60);
    source.set_modified(later).unwrap();
    project.jar("1.2.3").unwrap();

    assert_eq!(asked(&project), [OFFLINE, OFFLINE]);
}

#[test]
fn what_maven_lacks_it_may_fetch() {
    let (_root, project) = project();
    fs::write(project.root.join("empty"), "").unwrap();

    let jar = project.jar("1.2.3").unwrap();

    assert!(jar.is_file());
    assert_eq!(asked(&project), [OFFLINE, ONLINE]);
}

#[test]
fn a_build_that_fails_is_told_with_mavens_words() {
    let (_root, project) = project();
    fs::write(project.root.join("broken"), "").unwrap();

    let told = project.jar("1.2.3").unwrap_err();

    assert!(told.contains("cannot find symbol"), "{told}");
}

#[test]
fn the_project_names_a_version() {
    let version = Redisson::Newest.version();

    assert!(version.starts_with("4."), "{version}");
    assert_eq!(newest("<project></project>"), None);
}
