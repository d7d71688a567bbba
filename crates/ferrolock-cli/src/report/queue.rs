//! What is to be said, on its way to the error output.
//!
//! The error output may be a pipe that nobody reads, or a terminal that is held. Who keeps deadlines must not wait for
//! it, so a thread of its own writes, and what does not fit its queue is left out.

use std::io::{self, Write, stderr};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tracing_subscriber::fmt::MakeWriter;

use crate::process::signals;

/// Many times what a run has to say; only logs can be more.
const TEXTS_MAX: usize = 1024;

enum Item {
    Text(Vec<u8>),
    /// Answered when all that came before is written.
    Flush(SyncSender<()>),
}

/// Begun with the first text: most runs have nothing to say. `None`: the system has no thread for it.
static QUEUE: OnceLock<Option<SyncSender<Item>>> = OnceLock::new();

/// Says it in one write, without waiting for whoever reads.
pub(super) fn write(text: Vec<u8>) {
    match QUEUE.get_or_init(start) {
        Some(queue) => {
            let _ = queue.try_send(Item::Text(text));
        }
        None => print(&text),
    }
}

/// Waits until everything is written: for the end of the process, when nothing else is left to do.
pub(crate) fn flush() {
    if let Some(Some(queue)) = QUEUE.get() {
        let (done, is_done) = sync_channel(1);
        if queue.send(Item::Flush(done)).is_ok() {
            let _ = is_done.recv();
        }
    }
}

/// The same way for logs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log;

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        write(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

fn start() -> Option<SyncSender<Item>> {
    let (queue, items) = sync_channel(TEXTS_MAX);
    let writer = std::thread::Builder::new().name("report".into());
    writer.spawn(move || work(&items)).ok()?;
    Some(queue)
}

fn work(items: &Receiver<Item>) {
    // In the background of a terminal that wants silence it would stop us all.
    signals::block_terminal_output_stops();
    for item in items {
        match item {
            Item::Text(text) => print(&text),
            Item::Flush(done) => {
                let _ = done.send(());
            }
        }
    }
}

/// Nobody to tell is no reason to stop.
fn print(text: &[u8]) {
    let _ = stderr().write_all(text);
}
