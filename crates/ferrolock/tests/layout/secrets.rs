//! A password is shown nowhere: in no error, no log line, and no `Debug` output.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use ferrolock::{Client, Error, ErrorKind};
use testkit::{Server, servers};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::runtime;

/// Occurs nowhere else, in no spelling.
const PASSWORD: &str = "hunter2swordfish";

/// Every event and span of this process, of all levels and all crates.
struct Log(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut log = self.0.lock().unwrap();
        log.push_str(span.metadata().name());
        span.record(&mut Line(&mut log));
        log.push('\n');
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut log = self.0.lock().unwrap();
        values.record(&mut Line(&mut log));
        log.push('\n');
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut log = self.0.lock().unwrap();
        let _ = write!(
            log,
            "{} {}",
            event.metadata().level(),
            event.metadata().target()
        );
        event.record(&mut Line(&mut log));
        log.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The log of the whole process: the keeper and the engine write from threads of their own.
pub(crate) fn log() -> Arc<Mutex<String>> {
    static LOG: OnceLock<Arc<Mutex<String>>> = OnceLock::new();
    let log = LOG.get_or_init(|| {
        let log = Arc::new(Mutex::new(String::new()));
        tracing::subscriber::set_global_default(Log(log.clone())).unwrap();
        log
    });
    log.clone()
}

#[track_caller]
fn assert_clean(what: &str, text: &str) {
    assert!(
        !text.contains("hunter2") && !text.contains("swordfish"),
        "{what}: {text}"
    );
}

#[track_caller]
fn assert_clean_debug(thing: &impl Debug) {
    assert_clean("debug", &format!("{thing:?} {thing:#?}"));
}

#[track_caller]
fn assert_clean_error(error: &Error) {
    assert_clean_debug(error);
    assert_clean("display", &format!("{error} {error:#}"));
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        assert_clean("source", &format!("{error} {error:?}"));
        source = error.source();
    }
}

#[test]
fn a_password_is_in_no_error_no_log_line_and_no_debug_output() {
    let log = log();
    for kind in servers() {
        let server = Server::builder(kind).requirepass(PASSWORD).start();
        runtime().block_on(async {
            the_right_password(&server).await;
            the_wrong_password(&server).await;
            the_server_is_gone(&server).await;
        });
    }
    runtime().block_on(no_server_is_there());
    #[cfg(feature = "tls")]
    private_keys();
    let log = log.lock().unwrap();
    assert!(log.contains("ferrolock"), "nothing was captured: {log}");
    assert_clean("log", &log);
}

async fn the_right_password(server: &Server) {
    let builder = Client::builder().url(server.url());
    assert_clean_debug(&builder);
    let at = format!("redis://127.0.0.1:{}", server.port());
    let by_setting = Client::builder()
        .url(&at)
        .username("default")
        .password(PASSWORD);
    assert_clean_debug(&by_setting);
    let existing = redis::Client::open(server.url()).unwrap();
    let by_client = Client::builder().redis_client(existing);
    assert_clean_debug(&by_client);
    for builder in [builder, by_setting, by_client] {
        let client = builder.connect().await.unwrap();
        assert_clean_debug(&client);
        let lock = client.lock("orders");
        assert_clean_debug(&lock);
        let guard = lock.lock().await.unwrap();
        assert_clean_debug(&guard);
        assert_clean_debug(&lock.holders().await.unwrap());
        guard.unlock().await.unwrap();
    }
}

async fn the_wrong_password(server: &Server) {
    let wrong = format!("wrong{PASSWORD}");
    let url = format!("redis://:{wrong}@127.0.0.1:{}", server.port());
    let error = Client::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_clean_error(&error);
    let lazy = Client::builder()
        .url(&url)
        .command_limit(Duration::from_millis(300))
        .connect_lazy()
        .unwrap();
    assert_clean_debug(&lazy);
    let error = lazy.lock("orders").try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert_clean_error(&error);
}

/// The connection breaks while a lock is held; then every kind of call is made.
async fn the_server_is_gone(server: &Server) {
    let client = Client::builder()
        .url(server.url())
        .command_limit(Duration::from_millis(200))
        .connect_limit(Duration::from_millis(200))
        .unreachable_after(Duration::from_millis(400))
        .watchdog_lease(Duration::from_millis(600))
        .connect()
        .await
        .unwrap();
    let guard = client.lock("orders").lock().await.unwrap();
    server.kill();
    assert_clean_error(&client.lock("other").lock().await.unwrap_err());
    assert_clean_error(&client.ping().await.unwrap_err());
    guard.lost().await;
    assert_clean_debug(&guard);
    assert_clean_error(&guard.ensure_held().unwrap_err());
    assert_clean_error(&guard.unlock().await.unwrap_err());
    assert_clean_debug(&client);
}

async fn no_server_is_there() {
    for url in [
        format!("redis://u:{PASSWORD}@127.0.0.1:1"),
        format!("unix:/nowhere/redis.sock?pass={PASSWORD}"),
        format!("redis://:{PASSWORD}@no-such-host.invalid"),
    ] {
        let builder = Client::builder()
            .url(&url)
            .connect_limit(Duration::from_millis(500));
        let error = builder.connect().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unreachable, "{error}");
        assert_clean_error(&error);
    }
}

#[cfg(feature = "tls")]
fn private_keys() {
    let tls = ferrolock::Tls::new()
        .client_pem(PASSWORD, PASSWORD)
        .ca_pem(PASSWORD);
    assert_clean_debug(&tls);
    assert_clean_debug(&Client::builder().url("rediss://host").tls(tls));
}
