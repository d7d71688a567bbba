//! The queue of texts for the error output.
//!
//! The error output may be a pipe that no process reads, or a terminal that is held (Ctrl-S). The thread that keeps the
//! deadlines must not wait for it, so another thread writes. Texts that do not fit its queue are left out, and a notice in
//! their place says how many they were.

use std::io::{self, Write, stderr};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::oneshot;
use tracing_subscriber::fmt::MakeWriter;

use crate::process::signals;

/// Many more than a run has without logs.
const TEXTS_MAX: usize = 1024;

/// Makes the text that says how many texts were left out.
type Notice = Box<dyn Fn(usize) -> String + Send + Sync>;

enum Item {
    Text(Vec<u8>),
    /// Called when all items before it are written.
    Flush(Box<dyn FnOnce() + Send>),
}

/// Started with the first text: most runs print nothing. `None`: the system refused the thread.
static QUEUE: OnceLock<Option<Queue>> = OnceLock::new();
static NOTICE: OnceLock<Notice> = OnceLock::new();

/// Sets the text that says that texts were left out; only the first call counts.
pub(super) fn say_omissions_so(notice: impl Fn(usize) -> String + Send + Sync + 'static) {
    let _ = NOTICE.set(Box::new(notice));
}

/// Writes the text in one write, without waiting for the reader of the error output.
pub(super) fn write(text: Vec<u8>) {
    match QUEUE.get_or_init(|| Queue::start(stderr(), notice)) {
        Some(queue) => queue.write(text),
        None => print(&mut stderr(), &text),
    }
}

/// Waits until everything is written: for the end of the process, when nothing else is left to do.
pub(crate) fn flush() {
    if let Some(Some(queue)) = QUEUE.get() {
        queue.flush();
    }
}

/// Waits until everything is written, but at most that long, without blocking this thread.
pub(super) async fn flush_within(limit: Duration) {
    if let Some(Some(queue)) = QUEUE.get() {
        queue.flush_within(limit).await;
    }
}

/// Writes logs through the same queue.
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

struct Queue {
    items: SyncSender<Item>,
    notice: fn(usize) -> String,
    /// How many texts found no room since the last that did.
    left_out: AtomicUsize,
}

impl Queue {
    fn start(mut into: impl Write + Send + 'static, notice: fn(usize) -> String) -> Option<Self> {
        let (items, queued) = sync_channel(TEXTS_MAX);
        let writer = std::thread::Builder::new().name("report".into());
        writer.spawn(move || work(&queued, &mut into)).ok()?;
        Some(Self {
            items,
            notice,
            left_out: AtomicUsize::new(0),
        })
    }

    fn write(&self, text: Vec<u8>) {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        let is_noted = left_out == 0 || self.items.try_send(self.notice(left_out)).is_ok();
        let again = if is_noted { 0 } else { left_out };
        if !is_noted || self.items.try_send(Item::Text(text)).is_err() {
            self.left_out.fetch_add(again + 1, Ordering::Relaxed);
        }
    }

    fn flush(&self) {
        let left_out = self.left_out.swap(0, Ordering::Relaxed);
        if left_out > 0 {
            let _ = self.items.send(self.notice(left_out));
        }
        let (done, is_done) = sync_channel(1);
        let tell = Box::new(move || {
            let _ = done.send(());
        });
        if self.items.send(Item::Flush(tell)).is_ok() {
            let _ = is_done.recv();
        }
    }

    /// Waits at most that long; returns whether everything is written.
    async fn flush_within(&self, limit: Duration) -> bool {
        let (done, is_done) = oneshot::channel();
        let tell = Box::new(move || {
            let _ = done.send(());
        });
        let is_queued = self.items.try_send(Item::Flush(tell)).is_ok();
        is_queued && matches!(tokio::time::timeout(limit, is_done).await, Ok(Ok(())))
    }

    fn notice(&self, left_out: usize) -> Item {
        Item::Text((self.notice)(left_out).into_bytes())
    }
}

fn notice(left_out: usize) -> String {
    let text = NOTICE.get().map(|notice| notice(left_out));
    text.unwrap_or_default()
}

fn work(items: &Receiver<Item>, into: &mut impl Write) {
    // With `stty tostop`, a write from the terminal's background would stop our whole group.
    signals::block_terminal_output_stops();
    for item in items {
        match item {
            Item::Text(text) => print(into, &text),
            Item::Flush(tell) => tell(),
        }
    }
}

/// An error output that is gone is no reason to stop.
fn print(into: &mut impl Write, text: &[u8]) {
    let _ = into.write_all(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::sync::{Arc, Mutex};

    /// Reports each write to the test, and blocks in it while the test has `taken` locked.
    #[derive(Clone)]
    struct Reader {
        given: Sender<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Reader {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.given.send(());
            self.taken.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A queue, what was written, and a message for each write.
    fn queue() -> (Queue, Arc<Mutex<Vec<u8>>>, Receiver<()>) {
        let (given, is_given) = channel();
        let taken = Arc::default();
        let reader = Reader {
            given,
            taken: Arc::clone(&taken),
        };
        let queue = Queue::start(reader, |count| format!("({count} left out)\n")).unwrap();
        (queue, taken, is_given)
    }

    #[test]
    fn a_notice_stands_in_place_of_the_texts_that_were_left_out() {
        let (queue, taken, is_given) = queue();
        let write = |text: &str| queue.write(format!("{text}\n").into_bytes());
        let held_up = taken.lock().unwrap();
        write("in the writer's hands");
        is_given.recv_timeout(testkit::LIMIT).unwrap();
        (0..TEXTS_MAX).for_each(|_| write("in the queue"));
        (0..100).for_each(|_| write("too much"));

        drop(held_up);
        queue.flush();
        write("and on");
        queue.flush();

        let text = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let mut expected = vec!["in the writer's hands"];
        expected.extend(["in the queue"; TEXTS_MAX]);
        expected.extend(["(100 left out)", "and on"]);
        assert_eq!(text.lines().collect::<Vec<_>>(), expected);
    }

    /// On one thread, as a run has it.
    fn on_one_thread<T>(work: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn a_flush_with_a_limit_returns_whether_everything_is_written() {
        let (queue, taken, _is_given) = queue();
        let held_up = taken.lock().unwrap();
        queue.write(b"text".to_vec());

        assert!(!on_one_thread(queue.flush_within(Duration::from_millis(1))));
        drop(held_up);
        assert!(on_one_thread(queue.flush_within(testkit::LIMIT)));

        assert_eq!(*taken.lock().unwrap(), b"text");
    }

    /// The flush blocked the one thread of the runtime: signals were not received, and the limit of `--wait` was not kept.
    #[test]
    fn a_flush_with_a_limit_does_not_block_the_thread() {
        let (queue, taken, _is_given) = queue();
        let held_up = taken.lock().unwrap();
        queue.write(b"text".to_vec());

        on_one_thread(async {
            tokio::select! {
                biased;
                _ = queue.flush_within(testkit::LIMIT) => panic!("nothing is written"),
                () = tokio::task::yield_now() => {}
            }
        });

        drop(held_up);
    }
}
