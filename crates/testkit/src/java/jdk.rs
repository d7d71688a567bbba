//! Which Java is here.

use std::path::Path;
use std::process::Command;

/// The first version that the program is for; `pom.xml` has it too.
const FIRST: u32 = 17;

/// Whether a program of Java, `java` or `javac`, runs here and is new enough.
pub(super) fn check(program: &Path) -> Result<(), String> {
    let name = program.display();
    let output = Command::new(program)
        .arg("-version")
        .output()
        .map_err(|why| format!("{name} does not run: {why}"))?;
    // Whether it prints on the standard output or the error output depends on the program and its version.
    let said = [output.stderr, output.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    if !output.status.success() {
        return Err(format!("`{name} -version`: {}\n{said}", output.status));
    }
    match version(&said) {
        Some(version) if version < FIRST => Err(format!(
            "{name} is of version {version}; it takes a JDK of version {FIRST} or newer"
        )),
        _ => Ok(()),
    }
}

/// The number in `javac 17.0.15`, `openjdk version "21" 2023-09-19` or `java version "1.8.0_412"`.
fn version(said: &str) -> Option<u32> {
    let line = said
        .lines()
        .find(|line| line.contains(" version \"") || line.starts_with("javac "))?;
    let start = line.find(|character: char| character.is_ascii_digit())?;
    let mut numbers = line[start..].split(|character: char| !character.is_ascii_digit());
    match numbers.next()?.parse().ok()? {
        1 => numbers.next()?.parse().ok(),
        version => Some(version),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_found_in_the_output_of_every_java() {
        for (said, number) in [
            ("javac 17.0.15\n", 17),
            ("javac 1.8.0_412\n", 8),
            ("openjdk version \"21\" 2023-09-19\nOpenJDK Runtime", 21),
            (
                "Picked up _JAVA_OPTIONS: -Xmx1g\njava version \"1.8.0_412\"\n",
                8,
            ),
            ("openjdk version \"25-ea\" 2025-09-16\n", 25),
        ] {
            assert_eq!(version(said), Some(number), "{said}");
        }
        assert_eq!(version("something else"), None);
    }

    #[test]
    fn a_missing_java_is_an_error() {
        let told = check(Path::new("/nowhere/java")).unwrap_err();

        assert!(told.contains("/nowhere/java does not run"), "{told}");
    }
}
