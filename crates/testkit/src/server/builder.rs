//! A server's settings.

use super::{Server, launch};
use crate::kind::Kind;
use std::path::Path;

/// A server to be started.
#[derive(Debug, Clone)]
pub struct Builder {
    settings: Settings,
}

#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) kind: Kind,
    pub(super) transport: Transport,
    pub(super) password: Option<String>,
    /// Further lines of the configuration file.
    pub(super) lines: Vec<String>,
    /// Whether the default user may have no access, so that the tests need a user of their own.
    pub(super) guarded: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Tls,
    Unix,
}

impl Builder {
    pub(super) fn new(kind: Kind) -> Self {
        Self {
            settings: Settings {
                kind,
                transport: Transport::Tcp,
                password: None,
                lines: Vec::new(),
                guarded: false,
            },
        }
    }

    /// Listens on a Unix socket only.
    pub fn unix_socket(mut self) -> Self {
        self.settings.transport = Transport::Unix;
        self
    }

    /// Speaks TLS only on its port, and asks for no client certificate. Redis only.
    pub fn tls(mut self) -> Self {
        assert_eq!(
            self.settings.kind,
            Kind::Redis,
            "only the Redis program is known to be built with TLS"
        );
        self.settings.transport = Transport::Tls;
        self
    }

    /// Requires a password, of letters and digits, of the default user.
    pub fn requirepass(mut self, password: &str) -> Self {
        self.settings.password = Some(password.to_owned());
        self.settings.guarded = true;
        self.config(&format!("requirepass {password}"))
    }

    /// Adds a user, or changes the default one: `alice on >secret ~orders* +@all`.
    pub fn acl(mut self, user: &str) -> Self {
        self.settings.guarded = true;
        self.config(&format!("user {user}"))
    }

    /// Refuses writes above this number of bytes; nothing is evicted.
    pub fn maxmemory(self, bytes: u64) -> Self {
        self.config(&format!("maxmemory {bytes}"))
    }

    /// Adds a line to the configuration file.
    pub fn config(mut self, line: &str) -> Self {
        self.settings.lines.push(line.to_owned());
        self
    }

    /// Starts the server and returns when it answers.
    ///
    /// Panics with the server's own output when it does not.
    #[track_caller]
    pub fn start(self) -> Server {
        launch::first(self.settings)
    }
}

impl Settings {
    pub(super) fn tcp_url(&self, port: u16) -> String {
        let scheme = match self.transport {
            Transport::Tls => "rediss",
            Transport::Tcp | Transport::Unix => "redis",
        };
        match &self.password {
            Some(password) => format!("{scheme}://:{password}@127.0.0.1:{port}"),
            None => format!("{scheme}://127.0.0.1:{port}"),
        }
    }

    pub(super) fn unix_url(&self, socket: &Path) -> String {
        let socket = socket.display();
        match &self.password {
            Some(password) => format!("unix://{socket}?pass={password}"),
            None => format!("unix://{socket}"),
        }
    }
}
