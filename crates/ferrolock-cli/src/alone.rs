//! A test in a process of its own: for what is the whole process's, as signals and open handles are.

use std::fs::File;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use testkit::{LIMIT, eventually};

/// Names the test that the process was started for.
const ALONE: &str = "FERROLOCK_TEST_ALONE";

/// Runs `body` in this test binary started again for nothing but the test with that full name, which is the one that
/// calls this. The test fails as the body does there, and says what was said there.
#[track_caller]
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if std::env::var(ALONE).is_ok_and(|name| name == test) {
        return body();
    }
    let (said, complained) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    let mut process = Again(
        Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(ALONE, test)
            .stdin(Stdio::null())
            .stdout(said.try_clone().unwrap())
            .stderr(complained.try_clone().unwrap())
            .spawn()
            .unwrap(),
    );
    let mut status = None;
    eventually(LIMIT, test, || {
        status = process.0.try_wait().unwrap();
        status.is_some()
    });
    let (said, complained) = (text(said), text(complained));
    print!("{said}");
    eprint!("{complained}");
    // A name that fits no test is a success of none.
    let has_passed = status.is_some_and(|status| status.success()) && said.contains(" 1 passed;");
    assert!(has_passed, "{test}, alone in a process: {status:?}");
}

/// Killed when dropped.
struct Again(Child);

impl Drop for Again {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// All of it: both processes share one place in the file.
fn text(mut file: File) -> String {
    use std::io::Seek;
    let mut text = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut text).unwrap();
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn what_does_not_pass_alone_does_not_pass() {
        const THIS: &str = "alone::tests::what_does_not_pass_alone_does_not_pass";

        assert!(catch_unwind(|| alone(THIS, || std::process::exit(3))).is_err());
        assert!(catch_unwind(|| alone("no such test", || {})).is_err());
    }
}
