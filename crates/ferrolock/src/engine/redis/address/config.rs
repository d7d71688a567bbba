//! Address, credentials and limits of the server.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

#[cfg(feature = "tls")]
use super::super::connection::tls::Tls;
use super::url;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
const COMMAND_LIMIT: Duration = Duration::from_secs(3);
/// A text that has this many bytes of the password in a row is not shown.
const TELLING_PART: usize = 4;
/// Below this a limit would only be a busy loop.
const LIMIT_MIN: Duration = Duration::from_millis(1);

pub(in super::super) const NO_TLS: &str =
    "a rediss:// address needs the feature `tls` of ferrolock, which this build does not have";

/// All that is needed to open a connection.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(in super::super) place: ServerAddress,
    pub(in super::super) username: Option<String>,
    pub(in super::super) password: Option<Secret>,
    pub(in super::super) db: i64,
    pub(in super::super) name: Option<String>,
    pub(in super::super) connect_limit: Duration,
    pub(in super::super) command_limit: Duration,
    #[cfg(feature = "tls")]
    pub(in super::super) tls: Tls,
    /// Without credentials.
    address: String,
}

/// The far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum ServerAddress {
    Tcp { host: String, port: u16 },
    Tls { host: String, port: u16 },
    Unix(PathBuf),
}

/// A password, which no text ever shows.
#[derive(Clone, PartialEq, Eq)]
pub(in super::super) struct Secret(String);

impl Config {
    /// Reads a URL: `redis://`, `rediss://`, `unix:` or `redis+unix:`. The error is one line and shows no part of
    /// the URL that might belong to a password.
    pub(crate) fn parse(url: &str) -> Result<Config, String> {
        let parts = url::parse(url)?;
        let mut config = Config::new(parts.place, parts.db);
        config.username = parts.username;
        config.password = parts.password.map(Secret);
        Ok(config)
    }

    /// Takes address, credentials and database of a client of the `redis` crate.
    pub(crate) fn from_client(client: &::redis::Client) -> Result<Config, String> {
        if let ::redis::ConnectionAddr::TcpTls {
            tls_params: Some(_),
            ..
        } = client.get_connection_info().addr()
        {
            return Err(
                "the certificates of a redis client cannot be read from it: \
                        give them again with `tls`"
                    .to_owned(),
            );
        }
        Config::from_address_of(client)
    }

    /// The same for a client whose own certificates `tls` replaces.
    #[cfg(feature = "tls")]
    pub(crate) fn from_client_with_tls(
        client: &::redis::Client,
        tls: Tls,
    ) -> Result<Config, String> {
        let mut config = Config::from_address_of(client)?;
        config.set_tls(tls)?;
        Ok(config)
    }

    fn from_address_of(client: &::redis::Client) -> Result<Config, String> {
        let info = client.get_connection_info();
        let place = match info.addr() {
            ::redis::ConnectionAddr::Tcp(host, port) => ServerAddress::Tcp {
                host: host.clone(),
                port: *port,
            },
            ::redis::ConnectionAddr::TcpTls { insecure: true, .. } => {
                return Err("this redis client does not check certificates; \
                            ferrolock connects only where they are checked"
                    .to_owned());
            }
            ::redis::ConnectionAddr::TcpTls { .. } if cfg!(not(feature = "tls")) => {
                return Err(NO_TLS.to_owned());
            }
            ::redis::ConnectionAddr::TcpTls { host, port, .. } => ServerAddress::Tls {
                host: host.clone(),
                port: *port,
            },
            ::redis::ConnectionAddr::Unix(path) => ServerAddress::Unix(path.clone()),
            _ => return Err("this redis client has an address of an unknown kind".to_owned()),
        };
        let settings = info.redis_settings();
        let mut config = Config::new(place, settings.db());
        config.username = settings.username().map(str::to_owned);
        config.password = settings.password().map(|text| Secret(text.to_owned()));
        Ok(config)
    }

    fn new(place: ServerAddress, db: i64) -> Config {
        Config {
            address: address_text(&place, db),
            place,
            username: None,
            password: None,
            db,
            name: None,
            connect_limit: CONNECT_LIMIT,
            command_limit: COMMAND_LIMIT,
            #[cfg(feature = "tls")]
            tls: Tls::new(),
        }
    }

    pub(crate) fn set_username(&mut self, username: impl Into<String>) {
        self.username = Some(username.into());
    }

    pub(crate) fn set_password(&mut self, password: impl Into<String>) {
        self.password = Some(Secret(password.into()));
    }

    /// What `CLIENT LIST` shows.
    pub(crate) fn set_name(&mut self, name: impl Into<String>) {
        self.name = Some(name.into());
    }

    /// How long opening a connection may take, with TLS and handshake.
    pub(crate) fn set_connect_limit(&mut self, limit: Duration) {
        self.connect_limit = limit.max(LIMIT_MIN);
    }

    /// After this time of silence the server is asked for a sign of life; after twice of it the connection is
    /// replaced.
    pub(crate) fn set_command_limit(&mut self, limit: Duration) {
        self.command_limit = limit.max(LIMIT_MIN);
    }

    /// Certificates; refused for an address without TLS, where they would silently protect nothing.
    #[cfg(feature = "tls")]
    pub(crate) fn set_tls(&mut self, tls: Tls) -> Result<(), String> {
        if !matches!(self.place, ServerAddress::Tls { .. }) {
            return Err(format!(
                "tls settings need a rediss:// address, not {}",
                self.address
            ));
        }
        self.tls = tls;
        Ok(())
    }

    /// The address without credentials.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(in super::super) fn password(&self) -> Option<&str> {
        self.password.as_ref().map(|secret| secret.0.as_str())
    }

    /// Whether a server's text has a part of the password: old servers and proxies repeat a command that they did not
    /// understand, and cut it somewhere. Such a text is not shown at all: a gap in it would show the password too.
    pub(in super::super) fn is_told_in(&self, text: &str) -> bool {
        let password = self.password().unwrap_or_default().as_bytes();
        let part = password.len().clamp(1, TELLING_PART);
        let mut parts = password.windows(part);
        parts.any(|part| {
            text.as_bytes()
                .windows(part.len())
                .any(|found| found == part)
        })
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

fn address_text(place: &ServerAddress, db: i64) -> String {
    let (base, mark) = match place {
        ServerAddress::Tcp { host, port } => (format!("redis://{}:{port}", bracketed(host)), "/"),
        ServerAddress::Tls { host, port } => (format!("rediss://{}:{port}", bracketed(host)), "/"),
        ServerAddress::Unix(path) => (format!("unix:{}", path.display()), "?db="),
    };
    if db == 0 {
        base
    } else {
        format!("{base}{mark}{db}")
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_found_in_a_text_whole_or_cut() {
        let with = |password: &str| {
            let mut config = Config::parse("redis://host").unwrap();
            config.set_password(password);
            config
        };

        assert!(with("pass").is_told_in("invalid username-password pair"));
        assert!(with("s3cr3t-and-long").is_told_in("unknown: 'AUTH' 'default' 's3cr3t"));
        assert!(with("ab").is_told_in("cab"));
        assert!(!with("s3cr3t").is_told_in("DB index is out of range"));
        assert!(!with("").is_told_in("DB index is out of range"));
        assert!(!Config::parse("redis://host").unwrap().is_told_in("x"));
    }
}
