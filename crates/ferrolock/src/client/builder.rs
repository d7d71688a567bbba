//! Settings before connecting.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use crate::coordination::Core;
use crate::engine::Engine;
#[cfg(feature = "tls")]
use crate::engine::redis::Tls;
#[cfg(feature = "redis")]
use crate::engine::redis::{Config, ConnectError, RedisEngine};
use crate::error::{Error, Result};
use crate::options::Settings;
#[cfg(feature = "redis")]
use crate::protocol::scripts;

/// Settings of a client, before it connects.
///
/// # Examples
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> ferrolock::Result<()> {
/// use std::time::Duration;
/// use ferrolock::Client;
///
/// let client = Client::builder()
///     .url("memory:")
///     .name("billing")
///     .key_prefix("shop:")
///     .watchdog_lease(Duration::from_secs(10))
///     .connect()
///     .await?;
/// assert_eq!(client.lock("orders").name(), "shop:orders");
/// # Ok(()) }
/// ```
#[derive(Clone, Default)]
#[must_use = "a builder does nothing until `connect` or `connect_lazy` is called"]
pub struct ClientBuilder {
    address: Address,
    username: Option<String>,
    password: Option<String>,
    settings: Settings,
    runtime: Option<Handle>,
    #[cfg(feature = "tls")]
    tls: Option<Tls>,
}

#[derive(Clone, Default)]
enum Address {
    #[default]
    None,
    Url(String),
    #[cfg(feature = "redis")]
    Client(::redis::Client),
}

impl ClientBuilder {
    /// Where the locks are; see [`Client::connect`].
    pub fn url(mut self, url: impl AsRef<str>) -> Self {
        self.address = Address::Url(url.as_ref().to_owned());
        self
    }

    /// Takes address, credentials, database and TLS from an existing client; the connections are ours.
    #[cfg(feature = "redis")]
    pub fn redis_client(mut self, client: ::redis::Client) -> Self {
        self.address = Address::Client(client);
        self
    }

    /// The user, over the URL's. Not for `memory:` and `file:`.
    pub fn username(mut self, user: impl Into<String>) -> Self {
        self.username = Some(user.into());
        self
    }

    /// The password, over the URL's. Not for `memory:` and `file:`.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// What the client is called in `CLIENT LIST` and, for handles without a label, in
    /// [`holders`](crate::Lock::holders).
    ///
    /// Servers take no name with a space or a character that is not ASCII: such a one is shown by `holders` only.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = Some(name.into());
        self
    }

    /// A text in front of every name. It may have one `{tag}`, whole; names that have one do not fit behind it then.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.settings.key_prefix = prefix.into();
        self
    }

    /// What a renewed hold is given each time; 30 s.
    pub fn watchdog_lease(mut self, lease: Duration) -> Self {
        self.settings.watchdog_lease = lease;
        self
    }

    /// How often a hold with the client's own lease is renewed; a third of it.
    pub fn renew_every(mut self, interval: Duration) -> Self {
        self.settings.renew_every = Some(interval);
        self
    }

    /// How long before the end of its lease a hold counts as lost; the larger of 5 % of the lease and 50 ms.
    pub fn safety_margin(mut self, margin: Duration) -> Self {
        self.settings.safety_margin = Some(margin);
        self
    }

    /// The time for one connection; 5 s.
    pub fn connect_limit(mut self, limit: Duration) -> Self {
        self.settings.connect_limit = limit;
        self
    }

    /// The time for one command; 3 s. A connection is replaced only when no byte came for twice this time although a
    /// `PING` is out.
    pub fn command_limit(mut self, limit: Duration) -> Self {
        self.settings.command_limit = limit;
        self
    }

    /// How long the drop of the last handle waits for releases that are on their way; 250 ms.
    ///
    /// An acquire that was given up before its answer came is on its way too: it may take the lock, so its release is sent
    /// until one has found something to give back, or this time is over.
    pub fn drop_limit(mut self, limit: Duration) -> Self {
        self.settings.drop_limit = limit;
        self
    }

    /// How long a call without a limit goes on without one answer from the server; 30 s.
    pub fn unreachable_after(mut self, limit: Duration) -> Self {
        self.settings.unreachable_after = limit;
        self
    }

    /// Where connections and waiting run; else the runtime current at `connect`, for lazy and memory clients at the
    /// first call. (Renewal has a thread of its own.)
    pub fn runtime(mut self, handle: Handle) -> Self {
        self.runtime = Some(handle);
        self
    }

    /// Certificates for `rediss://`.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Connects now.
    ///
    /// # Errors
    /// As for [`Client::connect`].
    pub async fn connect(mut self) -> Result<Client> {
        if self.runtime.is_none() {
            self.runtime = Handle::try_current().ok();
        }
        match self.open()? {
            #[cfg(feature = "redis")]
            (Opened::Redis(engine), builder) => {
                engine
                    .connect()
                    .await
                    .map_err(|error| connect_error(&engine, error))?;
                Ok(builder.client(engine))
            }
            #[cfg(feature = "embedded")]
            (Opened::Memory(engine), builder) => Ok(builder.client(engine)),
            #[cfg(all(feature = "embedded", target_os = "linux"))]
            (Opened::File(engine), builder) => {
                let limit = builder.settings.connect_limit;
                match tokio::time::timeout(limit, engine.open()).await {
                    Ok(opened) => opened.map_err(Error::from)?,
                    Err(_) => return Err(not_opened(&engine, limit)),
                }
                Ok(builder.client(engine))
            }
        }
    }

    /// Checks what it was given and connects at the first use; for programs that start before the server.
    ///
    /// # Errors
    /// `Invalid` for a bad address or setting.
    pub fn connect_lazy(self) -> Result<Client> {
        match self.open()? {
            #[cfg(feature = "redis")]
            (Opened::Redis(engine), builder) => Ok(builder.client(engine)),
            #[cfg(feature = "embedded")]
            (Opened::Memory(engine), builder) => Ok(builder.client(engine)),
            #[cfg(all(feature = "embedded", target_os = "linux"))]
            (Opened::File(engine), builder) => Ok(builder.client(engine)),
        }
    }

    fn client(self, engine: Arc<dyn Engine>) -> Client {
        Client::of(Core::new(engine, self.settings, self.runtime))
    }

    fn open(self) -> Result<(Opened, Self)> {
        self.settings.check()?;
        let url = match &self.address {
            Address::None => return Err(Error::invalid("no address: give the builder a url")),
            Address::Url(url) => url.clone(),
            #[cfg(feature = "redis")]
            Address::Client(client) => {
                let config = self.config_of(client).map_err(Error::invalid)?;
                return self.open_redis(config);
            }
        };
        if let Some(name) = url.strip_prefix("memory:") {
            return self.open_memory(name);
        }
        match url.strip_prefix("file:") {
            Some(path) => self.open_file(path),
            None => self.open_server(&url),
        }
    }

    #[cfg(feature = "embedded")]
    fn open_memory(self, name: &str) -> Result<(Opened, Self)> {
        use crate::engine::embedded::MemoryEngine;
        if !name.is_empty() && !MemoryEngine::is_name(name) {
            return Err(Error::invalid(format!(
                "{name:?} is no name of a memory space: letters, digits and -_./ only"
            )));
        }
        self.check_no_user("memory:")?;
        let engine = MemoryEngine::open(Some(name).filter(|name| !name.is_empty()));
        Ok((Opened::Memory(engine), self))
    }

    #[cfg(all(feature = "embedded", target_os = "linux"))]
    fn open_file(self, path: &str) -> Result<(Opened, Self)> {
        use crate::engine::embedded::{FileEngine, Place};
        let place = Place::parse(path).map_err(Error::invalid)?;
        self.check_no_user("file:")?;
        let engine = FileEngine::new(place, self.settings.command_limit);
        Ok((Opened::File(engine), self))
    }

    #[cfg(all(feature = "embedded", not(target_os = "linux")))]
    fn open_file(self, _path: &str) -> Result<(Opened, Self)> {
        Err(Error::invalid("`file:` is for Linux only so far"))
    }

    #[cfg(feature = "embedded")]
    fn check_no_user(&self, scheme: &str) -> Result<()> {
        if self.username.is_none() && self.password.is_none() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a `{scheme}` address takes no user and no password"
        )))
    }

    #[cfg(not(feature = "embedded"))]
    fn open_memory(self, _name: &str) -> Result<(Opened, Self)> {
        Err(Error::invalid(
            "`memory:` needs the feature `embedded` of ferrolock",
        ))
    }

    #[cfg(not(feature = "embedded"))]
    fn open_file(self, _path: &str) -> Result<(Opened, Self)> {
        Err(Error::invalid(
            "`file:` needs the feature `embedded` of ferrolock",
        ))
    }

    #[cfg(feature = "redis")]
    fn open_server(self, url: &str) -> Result<(Opened, Self)> {
        let config = Config::parse(url).map_err(Error::invalid)?;
        self.open_redis(config)
    }

    #[cfg(not(feature = "redis"))]
    fn open_server(self, url: &str) -> Result<(Opened, Self)> {
        let of_server = ["redis:", "rediss:", "unix:", "redis+unix:"];
        Err(Error::invalid(
            if of_server.iter().any(|scheme| url.starts_with(scheme)) {
                "a server's address needs the feature `redis` of ferrolock".to_owned()
            } else {
                crate::engine::no_address()
            },
        ))
    }

    #[cfg(feature = "redis")]
    fn open_redis(self, mut config: Config) -> Result<(Opened, Self)> {
        self.username
            .iter()
            .for_each(|user| config.set_username(user));
        self.password
            .iter()
            .for_each(|password| config.set_password(password));
        if let Some(name) = &self.settings.name {
            config.set_name(name);
            if !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                tracing::warn!(
                    name,
                    "`CLIENT LIST` will not show the client's name: servers take neither spaces nor more than ASCII"
                );
            }
        }
        config.set_connect_limit(self.settings.connect_limit);
        config.set_command_limit(self.settings.command_limit);
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            config.set_tls(tls.clone()).map_err(Error::invalid)?;
        }
        let engine = RedisEngine::new(config);
        engine.load(&scripts());
        self.runtime
            .iter()
            .for_each(|runtime| engine.start(runtime.clone()));
        Ok((Opened::Redis(engine), self))
    }

    #[cfg(feature = "redis")]
    fn config_of(&self, client: &::redis::Client) -> Result<Config, String> {
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            return Config::from_client_with_tls(client, tls.clone());
        }
        Config::from_client(client)
    }
}

/// What an address leads to.
enum Opened {
    #[cfg(feature = "redis")]
    Redis(Arc<RedisEngine>),
    #[cfg(feature = "embedded")]
    Memory(Arc<crate::engine::embedded::MemoryEngine>),
    #[cfg(all(feature = "embedded", target_os = "linux"))]
    File(Arc<crate::engine::embedded::FileEngine>),
}

#[cfg(all(feature = "embedded", target_os = "linux"))]
fn not_opened(engine: &crate::engine::embedded::FileEngine, waited: Duration) -> Error {
    let address = engine.address();
    let why = match engine.trouble() {
        Some(trouble) => trouble.to_string(),
        None => "another process is about to begin the store".to_owned(),
    };
    Error::unreachable(format!("cannot open {address} within {waited:.1?}: {why}"))
}

#[cfg(feature = "redis")]
fn connect_error(engine: &RedisEngine, error: ConnectError) -> Error {
    use crate::error::ErrorCause;
    let address = engine.address();
    match error {
        ConnectError::Refused { code, message } => {
            Error::new(ErrorCause::Refused { code, message })
        }
        ConnectError::TooOld(message) => Error::new(ErrorCause::Refused {
            code: "VERSION".to_owned(),
            message,
        }),
        ConnectError::Tls(why) => Error::new(ErrorCause::Refused {
            code: "TLS".to_owned(),
            message: why,
        }),
        ConnectError::Unreachable(why) => {
            Error::unreachable(format!("cannot connect to {address}: {why}"))
        }
        ConnectError::Closed(why) => Error::closed(why),
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
