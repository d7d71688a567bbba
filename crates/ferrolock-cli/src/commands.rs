//! The subcommands, one file each.

pub(crate) mod completions;
pub(crate) mod man;
pub(crate) mod run;

use std::io::Write;
use std::process::ExitCode;

/// Prints the text. A reader that closes the pipe early is no failure.
fn print(text: &[u8]) -> ExitCode {
    let mut output = std::io::stdout().lock();
    match output.write_all(text).and_then(|()| output.flush()) {
        Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
            crate::report::complain(&format!("cannot write: {why}"));
            ExitCode::from(crate::exit::SYSTEM)
        }
        _ => ExitCode::SUCCESS,
    }
}
