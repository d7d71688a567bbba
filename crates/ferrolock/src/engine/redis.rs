//! One Redis or Valkey server.
//!
//! | file | what it does |
//! |---|---|
//! | `address/`: `config`, `url` | address, credentials and limits of the server |
//! | `connection/`: `stream`, `tls`, `pulse` | the byte stream, and when the last byte came |
//! | `connection/`: `live`, `scripts`; [`wire`] | one connection: handshake, calls, replies; the scripts it loads into the server |
//! | `connection/`: `link`, `report`; [`trouble`] | a connection that is kept: opened, watched, replaced; why there is none, and what is logged |
//! | `subscriptions/`: `bus`, `table` | subscriptions over one more such connection |
//!
//! The `redis` crate is used at its lowest layer only: the layers above it send commands again by themselves.

mod address;
mod connection;
mod subscriptions;
#[cfg(test)]
mod tests;
mod trouble;
mod wire;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;

pub(crate) use self::address::config::Config;
use self::connection::link::{Home, Link, LinkState, Watching};
use self::connection::scripts::Scripts;
#[cfg(feature = "tls")]
#[allow(
    unreachable_pub,
    unused_imports,
    reason = "re-exported at the root of the crate"
)]
pub use self::connection::tls::Tls;
use self::subscriptions::bus::Bus;
use self::trouble::{Class, Trouble};
use super::{Boxed, Calling, Clock, Engine, Failure, Lane, Listener, ShortestLease, Subscription};
use crate::protocol::call::{Call, Script};

/// Runs scripts on one server.
#[derive(Debug)]
pub(crate) struct RedisEngine {
    config: Arc<Config>,
    runtime: Arc<OnceLock<Handle>>,
    scripts: Arc<Scripts>,
    commands: Arc<Link>,
    keeper: Arc<Link>,
    spare: Arc<Link>,
    bus: Arc<Bus>,
}

/// Why the first connection failed: one line, no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnectError {
    /// The server's own words: password, rights, number of clients.
    Refused { code: String, message: String },
    /// The server's version.
    TooOld(String),
    /// TLS or a certificate.
    Tls(String),
    /// No answer, or no way there.
    Unreachable(String),
    /// Shut down meanwhile, or no runtime to connect in.
    Closed(String),
}

impl RedisEngine {
    /// An engine that connects when it is first needed.
    pub(crate) fn new(config: Config) -> Arc<RedisEngine> {
        let config = Arc::new(config);
        let runtime = Arc::new(OnceLock::new());
        let home = Home::Client(runtime.clone());
        let scripts: Arc<Scripts> = Arc::default();
        let link = |role, home| {
            let (config, scripts) = (config.clone(), scripts.clone());
            Link::new(role, config, scripts, home, Watching::Replies, None)
        };
        Arc::new(RedisEngine {
            commands: link("commands", home.clone()),
            keeper: link("keeper", Home::FirstUser),
            spare: link("keeper's spare", Home::FirstUser),
            bus: Bus::new(config.clone(), home),
            config,
            runtime,
            scripts,
        })
    }

    /// Sets the runtime that connections live in; else it is the one of the first use. Only the first call counts.
    pub(crate) fn start(&self, handle: Handle) {
        let _ = self.runtime.set(handle);
    }

    /// Loads these scripts into the server with each connection to come; others are sent when they are first called.
    pub(crate) fn load(&self, scripts: &[&'static Script]) {
        self.scripts.add(scripts);
    }

    /// Connects now, once: fails instead of trying again.
    pub(crate) async fn connect(&self) -> Result<(), ConnectError> {
        match self.commands.first_outcome().await {
            LinkState::Up(_) => Ok(()),
            LinkState::Down(Some(trouble)) => Err(ConnectError::from(trouble)),
            LinkState::Over(why) => Err(ConnectError::Closed(why.to_owned())),
            LinkState::Idle | LinkState::Down(None) => {
                Err(ConnectError::Unreachable("not connected yet".to_owned()))
            }
        }
    }

    fn link(&self, lane: Lane) -> &Arc<Link> {
        match lane {
            Lane::Commands => &self.commands,
            Lane::Keeper => &self.keeper,
            Lane::KeeperSpare => &self.spare,
        }
    }
}

impl Engine for RedisEngine {
    fn call(&self, lane: Lane, call: Call) -> Calling {
        let link = self.link(lane).clone();
        Box::pin(async move { link.call(&call).await })
    }

    fn ready(&self, lane: Lane) -> Boxed<()> {
        let link = self.link(lane).clone();
        Box::pin(async move { link.ready().await })
    }

    fn reconnected(&self, lane: Lane) -> Boxed<()> {
        let link = self.link(lane).clone();
        Box::pin(async move { link.reconnected().await })
    }

    fn trouble(&self) -> Option<Failure> {
        self.commands
            .trouble()
            .or_else(|| self.bus.trouble())
            .or_else(|| self.keeper.trouble())
            .or_else(|| self.spare.trouble())
    }

    fn listen(
        &self,
        channel: Arc<str>,
        listener: Arc<dyn Listener>,
    ) -> Boxed<Result<Subscription, Failure>> {
        let bus = self.bus.clone();
        Box::pin(async move { bus.listen(channel, listener).await })
    }

    fn clock(&self) -> Clock {
        Clock::Boot
    }

    fn address(&self) -> &str {
        self.config.address()
    }

    fn round_trip(&self) -> Duration {
        self.commands.round_trip()
    }

    fn hurried_by(&self, shortest_lease: ShortestLease) {
        let shortest_lease = Arc::new(shortest_lease);
        self.keeper.hurried_by(shortest_lease.clone());
        self.spare.hurried_by(shortest_lease);
    }

    fn close(&self) {
        self.commands.close();
        self.keeper.close();
        self.spare.close();
        self.bus.close();
    }
}

impl Drop for RedisEngine {
    fn drop(&mut self) {
        self.close();
    }
}

impl From<Trouble> for ConnectError {
    fn from(trouble: Trouble) -> ConnectError {
        match (trouble.class, trouble.failure) {
            (Class::Version, Failure::Refused { message, .. }) => ConnectError::TooOld(message),
            (_, Failure::Refused { code, message }) => ConnectError::Refused { code, message },
            (Class::Certificate, failure) => ConnectError::Tls(failure.to_string()),
            (_, failure) => ConnectError::Unreachable(failure.to_string()),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConnectError::Refused { code, message } => write!(f, "{code} {message}"),
            ConnectError::TooOld(text)
            | ConnectError::Tls(text)
            | ConnectError::Unreachable(text)
            | ConnectError::Closed(text) => f.write_str(text),
        }
    }
}
