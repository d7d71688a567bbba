//! Why there is no connection: what callers fail with, and the class that is logged once.

use std::fmt;
use std::io;
use std::time::Duration;

use ::redis::{ErrorKind, RedisError};

use super::address::config::Config;
use super::wire;
use crate::engine::Failure;

/// What a caller reads in [`Failure::Refused`] when the server is too old.
pub(super) const VERSION: &str = "VERSION";

/// What stands in the way of a connection.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) class: Class,
    /// `Refused` if the server said it, `NotSent` otherwise.
    pub(super) failure: Failure,
}

/// The kinds of trouble that an operator handles differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Password,
    MaxClients,
    Certificate,
    Refused,
    Silent,
    Version,
    Other,
}

impl Trouble {
    pub(super) fn new(class: Class, text: impl Into<String>) -> Trouble {
        Trouble {
            class,
            failure: Failure::NotSent(text.into()),
        }
    }

    pub(super) fn silent(limit: Duration) -> Trouble {
        Trouble::new(Class::Silent, format!("no answer within {limit:?}"))
    }

    pub(super) fn too_old(server: &str) -> Trouble {
        Trouble {
            class: Class::Version,
            failure: Failure::Refused {
                code: VERSION.to_owned(),
                message: format!("{server} is too old: ferrolock needs redis 7.0 or valkey 7.2"),
            },
        }
    }

    pub(super) fn from_io(error: &io::Error) -> Trouble {
        let (class, text) = match error.kind() {
            _ if is_tls(error) => (Class::Certificate, format!("tls failed: {error}")),
            io::ErrorKind::ConnectionRefused => (
                Class::Refused,
                "connection refused: is a server running there?".to_owned(),
            ),
            io::ErrorKind::NotFound => (
                Class::Refused,
                "there is no such socket: is a server running there?".to_owned(),
            ),
            io::ErrorKind::PermissionDenied => (Class::Refused, "permission denied".to_owned()),
            io::ErrorKind::TimedOut => (Class::Silent, "no answer in time".to_owned()),
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe => (Class::Other, CLOSED_BY_SERVER.to_owned()),
            _ => (Class::Other, format!("connection failed: {error}")),
        };
        Trouble::new(class, text)
    }

    /// What went wrong in the handshake; if the connection broke, the stream has the reason.
    pub(super) fn from_redis(error: &RedisError) -> Trouble {
        if error.kind() == ErrorKind::RESP3NotSupported {
            return Trouble::too_old("this server");
        }
        match error.clone().into_server_errors().as_deref() {
            Some([(_, error), ..]) => Trouble::from_server(error),
            _ if error.is_connection_dropped() => Trouble::new(Class::Other, CLOSED_BY_SERVER),
            // Not the whole error, which may repeat the command.
            _ => Trouble::new(
                Class::Other,
                format!("the handshake failed: {}", error.category()),
            ),
        }
    }

    pub(super) fn from_server(error: &::redis::ServerError) -> Trouble {
        let details = error.details().unwrap_or_default();
        let class = match error.code() {
            "WRONGPASS" | "NOAUTH" | "NOPERM" => Class::Password,
            "ERR" if details.contains("max number of clients") => Class::MaxClients,
            _ => Class::Refused,
        };
        Trouble {
            class,
            failure: wire::refused(error),
        }
    }

    /// A refusal in the handshake, with the server's address, and in our own words where the server's are unclear or could
    /// show the password.
    pub(super) fn at(mut self, config: &Config) -> Trouble {
        let address = config.address();
        if let Failure::Refused { code, message } = &mut self.failure
            && self.class != Class::Version
        {
            *message = match code.as_str() {
                "WRONGPASS" => format!("{address} refused the user or the password"),
                "NOAUTH" => format!(
                    "{address} wants a password: redis://user:password@host, or ClientBuilder::password"
                ),
                _ if self.class == Class::MaxClients => {
                    format!("{address} has reached its max number of clients")
                }
                _ if config.is_told_in(message) => {
                    format!("{address} gave a reason that repeats a part of the password")
                }
                _ => format!("{address}: {message}"),
            };
        }
        self
    }
}

const CLOSED_BY_SERVER: &str = "the server closed the connection";

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Class {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Class::Password => "password",
            Class::MaxClients => "maxclients",
            Class::Certificate => "certificate",
            Class::Refused => "refused",
            Class::Silent => "silent",
            Class::Version => "version",
            Class::Other => "other",
        }
    }
}

#[cfg(feature = "tls")]
fn is_tls(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<tokio_rustls::rustls::Error>())
}

#[cfg(not(feature = "tls"))]
fn is_tls(_error: &io::Error) -> bool {
    false
}
