//! Subscriptions: refused by the server, and ended by the client after a while.
//!
//! On servers only: the embedded engines refuse no subscription, and only a server shows who listens.

use std::fmt;
use std::sync::{Arc, Mutex};

use ferrolock::Client;
use testkit::{Kind, LIMIT, Server, eventually_async};
use tokio::time::Instant;
use tracing::field::{Field, Visit};
use tracing::span;

use crate::stage::{Party, assert_led_to, causes, channel, listens, ms, stories, unique, waits};
use crate::support::{connect, took};

on_each_server!(
    without_the_right_to_subscribe_waiters_poll_and_one_warning_is_logged,
    a_subscription_lingers_and_then_is_gone,
);

async fn without_the_right_to_subscribe_waiters_poll_and_one_warning_is_logged(kind: Kind) {
    let log = Log::default();
    let listening = log.clone();
    // The log is set for one thread: everything must happen in this one.
    let polling = tokio::task::spawn_blocking(move || {
        let _default = tracing::subscriber::set_default(listening);
        stories::one_thread().block_on(wait_without_the_right_to_subscribe(kind));
    });
    polling.await.unwrap();

    let said = log.lines.lock().unwrap().clone();
    assert_eq!(said.len(), 1, "{said:#?}");
    assert!(said[0].contains("polling"), "{said:#?}");
}

async fn wait_without_the_right_to_subscribe(kind: Kind) {
    let deaf = "deaf on >pw ~* resetchannels +@all";
    let server = Server::builder(kind).acl(deaf).start();
    let them = connect(&server).await;
    let us = Client::builder()
        .url(server.url())
        .username("deaf")
        .password("pw")
        .connect()
        .await;
    let us = Party::from(us.unwrap());
    for _ in 0..3 {
        let name = unique("a");
        let held = them.lock(&name).lock().await.unwrap();
        let waiter = waits(&us, &name);
        causes::attempted(&name, "safety_poll", 3).await;
        let begun = Instant::now();
        held.unlock().await.unwrap();
        let guard = waiter.await.unwrap();
        assert_led_to("safety_poll", &guard);
        took("by polling", kind.name(), begun, ms(1000));
        // Without the right to channels it cannot announce its own release either.
        let _ = guard.unlock().await;
    }
}

async fn a_subscription_lingers_and_then_is_gone(kind: Kind) {
    let server = Server::start(kind);
    let (us, them) = (connect(&server).await, connect(&server).await);
    let name = unique("a");
    let held = them.lock(&name).lock().await.unwrap();
    let waiter = waits(&us, &name);
    listens(&us, &name).await;
    held.unlock().await.unwrap();
    waiter.await.unwrap().unlock().await.unwrap();
    let begun = Instant::now();
    let channels = || server.command(&["PUBSUB", "CHANNELS"]).texts();

    assert_eq!(channels(), [channel(&name)]);
    eventually_async(LIMIT, "nobody listens any more", async || {
        channels().is_empty()
    })
    .await;

    assert!(begun.elapsed() >= ms(2500), "{:?}", begun.elapsed());
    took("unsubscribed", kind.name(), begun, ms(5100));
}

/// Collects warnings and errors, and passes all events on to `causes`, like the log of the other tests.
#[derive(Clone, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
}

impl tracing::Subscriber for Log {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target().starts_with("ferrolock")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn event(&self, event: &tracing::Event<'_>) {
        causes::note(event);
        if *event.metadata().level() > tracing::Level::WARN {
            return;
        }
        let mut line = Line::default();
        event.record(&mut line);
        self.lines.lock().unwrap().push(line.0);
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!("{}={value:?} ", field.name());
    }
}
