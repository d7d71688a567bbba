//! Code of others that panics, or uses what it should not, inside ours.
#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure ends the test"
)]

use std::fmt::Debug;
use std::sync::{Arc, mpsc};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::coordination::waiting::slot::Slot;
use crate::testing::scenes::{Pair, insider, ms, pair};

/// Panics when it is used.
struct PanickingWaker;

impl Wake for PanickingWaker {
    fn wake(self: Arc<Self>) {
        panic!("this waker panics");
    }
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_harms_no_other_waiter() {
    let (client, _, _) = insider();
    let held = client.lock("x").lock().await.unwrap();
    let mut bad = Box::pin(client.lock("x").lock());
    let waker = Waker::from(Arc::new(PanickingWaker));
    assert!(
        bad.as_mut()
            .poll(&mut Context::from_waker(&waker))
            .is_pending()
    );
    let lock = client.lock("x");
    let other = tokio::spawn(async move { lock.lock().await });
    tokio::time::sleep(ms(50)).await;

    held.unlock().await.unwrap();

    // The offer to the first waiter is withdrawn after a second: it never polls again.
    assert!(other.await.unwrap().is_ok());
}

/// A log that panics at one message.
struct PanicsAt(&'static str);

struct Finds<'a>(&'a str, bool);

impl Visit for Finds<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.1 |= field.name() == "message" && format!("{value:?}") == self.0;
    }
}

impl Subscriber for PanicsAt {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let mut finds = Finds(self.0, false);
        event.record(&mut finds);
        assert!(!finds.1, "this log panics");
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[tokio::test(start_paused = true)]
async fn a_log_that_panics_at_a_grant_takes_no_lock_from_its_caller() {
    let Pair { us, them, .. } = pair("panicking_log");
    let held = them.lock("y").lock().await.unwrap();
    let waits = us.lock("y").lock();
    let log = tracing::subscriber::set_default(PanicsAt("granted"));

    let first = us.lock("x").lock().await.unwrap();
    let waiter = tokio::spawn(waits);
    tokio::time::sleep(ms(50)).await;
    held.unlock().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    drop(log);

    assert!(first.is_held() && second.is_held());
    first.unlock().await.unwrap();
    second.unlock().await.unwrap();
    assert!(!them.lock("x").is_locked().await.unwrap());
}

/// Its drop asks another thread to use the slot.
struct UsesSlot(Arc<Slot>, mpsc::Sender<bool>);

impl Wake for UsesSlot {
    fn wake(self: Arc<Self>) {}
}

impl Drop for UsesSlot {
    fn drop(&mut self) {
        let slot = self.0.clone();
        let (done, is_done) = mpsc::channel();
        std::thread::spawn(move || {
            slot.is_waiting();
            let _ = done.send(());
        });
        let _ = self
            .1
            .send(is_done.recv_timeout(Duration::from_secs(60)).is_ok());
    }
}

#[test]
fn a_waker_is_dropped_while_no_lock_of_ours_is_held() {
    let slot = Arc::new(Slot::new());
    let (says, said) = mpsc::channel();
    let first = Waker::from(Arc::new(UsesSlot(slot.clone(), says)));
    assert!(slot.poll(&mut Context::from_waker(&first)).is_pending());
    drop(first);

    let _ = slot.poll(&mut Context::from_waker(Waker::noop()));

    assert!(said.recv().unwrap(), "the slot was locked");
}
