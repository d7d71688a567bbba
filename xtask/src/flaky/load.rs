//! Processes that only compute, to make the machine busy.

use std::hint::black_box;
use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio, exit};

/// With this argument this program only computes.
pub(crate) const WORD: &str = "--busy";

/// Computes until its standard input ends, which happens when the process that holds the other end has ended.
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

/// Busy processes. They end when this is dropped, and when its process ends, in whatever way.
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
