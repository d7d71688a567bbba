//! Real servers, each in a process and a directory of its own.

use crate::certificates::Certificates;
use crate::connection::Connection;
use crate::keyspace::{self, Entry};
use crate::kind::Kind;
use crate::leash::Leash;
use crate::monitor::Monitor;
use crate::resp::Reply;
use crate::wait::eventually;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

mod builder;
mod launch;

pub use builder::Builder;
use builder::Settings;

/// A running server, ended and removed when dropped or when the test process ends in any way.
///
/// Tests inspect it through a socket in its directory, so that works with every transport, password and right. They use
/// ordinary commands, which appear in `MONITOR` and in the statistics.
pub struct Server {
    // Before the folder: fields are dropped in this order.
    process: Mutex<Option<Leash>>,
    folder: tempfile::TempDir,
    settings: Settings,
    certificates: Option<Certificates>,
    port: Option<u16>,
}

impl Server {
    /// Starts a server on a free TCP port, without a password.
    #[track_caller]
    pub fn start(kind: Kind) -> Self {
        Self::builder(kind).start()
    }

    /// A server with settings.
    pub fn builder(kind: Kind) -> Builder {
        Builder::new(kind)
    }

    /// The kind of the server.
    pub fn kind(&self) -> Kind {
        self.settings.kind
    }

    /// The URL for clients: `redis://`, `rediss://` or `unix://`, with the password, if any.
    pub fn url(&self) -> String {
        match self.port {
            Some(port) => self.url_at(port),
            None => self.settings.unix_url(&self.socket()),
        }
    }

    /// The URL for a client that goes through `port`, a proxy's for instance.
    pub fn url_at(&self, port: u16) -> String {
        self.settings.tcp_url(port)
    }

    /// The TCP port; panics for a server on a Unix socket only.
    #[track_caller]
    pub fn port(&self) -> u16 {
        self.port.expect("the server listens on no TCP port")
    }

    /// The TCP address; panics for a server on a Unix socket only.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port()))
    }

    /// The Unix socket, which every server has.
    pub fn socket(&self) -> PathBuf {
        launch::socket_in(self.folder.path())
    }

    /// The certificates; panics for a server without TLS.
    #[track_caller]
    pub fn certificates(&self) -> &Certificates {
        self.certificates
            .as_ref()
            .expect("the server was started without TLS")
    }

    /// The server's directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The server's process id; panics when it does not run.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.with_process(Leash::pid)
    }

    /// Stops the server as `SIGSTOP` does: connections stay, nothing is answered. Returns when it is stopped.
    #[track_caller]
    pub fn stop_signal(&self) {
        self.with_process(Leash::stop);
    }

    /// Lets a stopped server continue.
    #[track_caller]
    pub fn cont_signal(&self) {
        self.with_process(Leash::cont);
    }

    /// Kills the server; its port stays unanswered until [`Server::restart`].
    pub fn kill(&self) {
        drop(self.process().take());
    }

    /// Kills the server, if it runs, and starts it again, empty, on the same port.
    #[track_caller]
    pub fn restart(&self) {
        self.kill();
        *self.process() = Some(launch::again(&self.settings, self.folder.path()));
    }

    /// Whether the server's process exists, stopped or not.
    pub fn is_running(&self) -> bool {
        self.process()
            .as_mut()
            .is_some_and(|process| process.exit_status().is_none())
    }

    /// A connection with all rights.
    #[track_caller]
    pub fn connect(&self) -> Connection {
        launch::connect(&self.settings, self.folder.path())
            .unwrap_or_else(|error| panic!("no connection to {self:?}: {error}"))
    }

    /// Sends one command, with all rights, over a connection of its own.
    #[track_caller]
    pub fn command(&self, words: &[&str]) -> Reply {
        self.connect().command(words)
    }

    /// A section of `INFO`, by field.
    #[track_caller]
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        self.command(&["INFO", section])
            .text()
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(field, value)| (field.to_owned(), value.to_owned()))
            .collect()
    }

    /// How often each command was called since the start or `CONFIG RESETSTAT`, by lower-case name.
    ///
    /// Subcommands are named with a bar, `client|id`; refused calls do not count.
    #[track_caller]
    pub fn commandstats(&self) -> BTreeMap<String, u64> {
        self.info("commandstats")
            .into_iter()
            .filter_map(|(field, value)| {
                let name = field.strip_prefix("cmdstat_")?.to_owned();
                let calls = value.strip_prefix("calls=")?.split(',').next()?;
                Some((name, calls.parse().ok()?))
            })
            .collect()
    }

    /// The names of all keys, sorted.
    #[track_caller]
    pub fn keys(&self) -> Vec<String> {
        let mut keys = self.command(&["KEYS", "*"]).texts();
        keys.sort();
        keys
    }

    /// The whole keyspace at one moment, sorted by key.
    #[track_caller]
    pub fn dump(&self) -> Vec<Entry> {
        keyspace::dump(&mut self.connect())
    }

    /// Collects every command that the server receives from now on.
    #[track_caller]
    pub fn monitor(&self) -> Monitor {
        Monitor::start(self.connect())
    }

    /// Waits until `channel` has at least `subscribers`.
    #[track_caller]
    pub fn wait_for_subscribers(&self, channel: &str, subscribers: i64) {
        let mut connection = self.connect();
        let what = format!("{subscribers} subscribers of {channel}");
        eventually(crate::LIMIT, &what, || {
            let counts = connection.command(&["PUBSUB", "NUMSUB", channel]).list();
            matches!(counts.last(), Some(Reply::Int(n)) if *n >= subscribers)
        });
    }

    fn process(&self) -> MutexGuard<'_, Option<Leash>> {
        self.process
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    #[track_caller]
    fn with_process<T>(&self, act: impl FnOnce(&Leash) -> T) -> T {
        let process = self.process();
        act(process.as_ref().expect("the server was killed"))
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.kind().name(), self.url())
    }
}
