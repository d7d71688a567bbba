//! Processes that compute and do nothing else, to make the machine a busy one.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};

/// The word that makes this program a busy one.
pub(crate) const WORD: &str = "--busy";

/// Computes until its standard input ends, which it does with the process that holds the other end.
pub(crate) fn be_busy() -> ! {
    std::thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        exit(0);
    });
    let mut number = 1_u64;
    loop {
        number = black_box(
            number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        );
    }
}

/// Busy processes, which end with this, and with the process that has it, however that ends.
#[derive(Debug)]
pub(super) struct Load {
    busy: Vec<Child>,
}

impl Load {
    pub(super) fn start(program: &Path, count: u32) -> Result<Self, String> {
        let mut load = Self { busy: Vec::new() };
        for _ in 0..count {
            let child = Command::new(program)
                .arg(WORD)
                .stdin(Stdio::piped())
                .spawn()
                .map_err(|why| format!("{}: {why}", program.display()))?;
            load.busy.push(child);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.busy {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
