//! One open connection: the handshake that makes it, and the calls that run over it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, RedisResult,
    Value as Raw,
};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::super::address::config::Config;
use super::super::trouble::{Class, Trouble};
use super::super::wire;
use super::pulse::Pulse;
use super::scripts::Scripts;
use super::stream;
use crate::engine::{Clock, Failure};
use crate::protocol::call::{Call, Form, Value};

/// How many commands may wait to be written; a caller above that waits its turn.
const QUEUE_MAX: usize = 4096;
/// How many bytes are gathered for one write.
const WRITE_MAX: usize = 64 * 1024;

/// Takes the server's pushes, with the generation of the connection that they came over.
pub(in super::super) type OnPush = Arc<dyn Fn(u64, PushInfo) + Send + Sync>;

/// An open connection.
#[derive(Debug)]
pub(in super::super) struct Live {
    /// Counts the connections of a link.
    pub(in super::super) generation: u64,
    pub(in super::super) pulse: Arc<Pulse>,
    connection: MultiplexedConnection,
    /// Why another connection is wanted.
    retiring: OnceLock<&'static str>,
    retire: Notify,
}

/// Reads and writes a connection, in a task of its own; dropping it ends the connection and all that waits on it.
#[derive(Debug)]
pub(in super::super) struct ConnectionTask(JoinHandle<()>);

/// Opens a connection, with TLS and handshake, within the connect limit.
pub(in super::super) async fn open(
    config: &Config,
    scripts: &Scripts,
    generation: u64,
    on_push: Option<OnPush>,
) -> Result<(Live, ConnectionTask), Trouble> {
    let opening = open_now(config, scripts, generation, on_push);
    match tokio::time::timeout(config.connect_limit, opening).await {
        Ok(opened) => opened.map_err(|trouble| trouble.at(config)),
        Err(_) => Err(Trouble::silent(config.connect_limit)),
    }
}

async fn open_now(
    config: &Config,
    scripts: &Scripts,
    generation: u64,
    on_push: Option<OnPush>,
) -> Result<(Live, ConnectionTask), Trouble> {
    let pulse = Arc::new(Pulse::new());
    let stream = stream::open(config, pulse.clone()).await?;
    // The stream's own reason is more exact.
    let explain = |trouble: Trouble| match pulse.fault() {
        Some(fault) if trouble.class == Class::Other => fault.clone(),
        _ => trouble,
    };
    let settings = settings(generation, on_push);
    let (mut connection, driver) =
        MultiplexedConnection::new_with_config(&login(config), stream, settings)
            .await
            .map_err(|error| explain(Trouble::from_redis(&error)))?;
    let task = ConnectionTask(tokio::spawn(driver));
    settle(config, scripts, &mut connection)
        .await
        .map_err(explain)?;
    let live = Live {
        generation,
        pulse,
        connection,
        retiring: OnceLock::new(),
        retire: Notify::new(),
    };
    Ok((live, task))
}

fn settings(generation: u64, on_push: Option<OnPush>) -> AsyncConnectionConfig {
    let settings = AsyncConnectionConfig::new()
        // It would throw late replies away; the caller that waits sets the limit.
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(QUEUE_MAX)
        .set_write_backpressure_boundary(WRITE_MAX);
    match on_push {
        None => settings,
        Some(on_push) => settings.set_push_sender(move |push: PushInfo| {
            on_push(generation, push);
            Ok::<(), ::redis::aio::SendError>(())
        }),
    }
}

/// Only `HELLO`: a server that is full or protected answers the first command and closes, and the crate would lose
/// that answer if a second command went with it.
fn login(config: &Config) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    if let Some(username) = &config.username {
        login = login.set_username(username);
    }
    if let Some(password) = config.password() {
        login = login.set_password(password);
    }
    login
}

/// Chooses the database, sends our name and version, asks for the server's version, and loads our scripts: a call would
/// need two round trips otherwise, and the second one may be sent after its caller gave up.
async fn settle(
    config: &Config,
    scripts: &Scripts,
    connection: &mut MultiplexedConnection,
) -> Result<(), Trouble> {
    let mut pipe = ::redis::pipe();
    if config.db != 0 {
        pipe.cmd("SELECT").arg(config.db);
    }
    pipe.cmd("INFO").arg("server");
    let client = |pipe: &mut ::redis::Pipeline, verb: &[&str]| {
        pipe.cmd("CLIENT").arg(verb);
    };
    if let Some(name) = &config.name {
        client(&mut pipe, &["SETNAME", name]);
    }
    client(&mut pipe, &["SETINFO", "LIB-NAME", "ferrolock"]);
    client(
        &mut pipe,
        &["SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")],
    );
    let known = scripts.to_load();
    for script in &known {
        pipe.add_command(wire::script_load(script));
    }
    let count = pipe.len();
    let replies = connection
        .send_packed_commands(&pipe, 0, count)
        .await
        .map_err(|error| Trouble::from_redis(&error))?;
    let mut replies = replies.into_iter();
    if config.db != 0
        && let Some(Raw::ServerError(error)) = replies.next()
    {
        return Err(Trouble::from_server(&error));
    }
    check_version(replies.next())?;
    if config.name.is_some()
        && let Some(Raw::ServerError(error)) = replies.next()
    {
        tracing::debug!(%error, "the server did not take the client's name");
    }
    if !known.is_empty()
        && let Some(Raw::ServerError(error)) = replies.last()
    {
        tracing::debug!(%error, "the server did not take the scripts: they are sent when they are first called");
        scripts.refused(&wire::refused(&error));
    }
    Ok(())
}

fn check_version(reply: Option<Raw>) -> Result<(), Trouble> {
    let text = match reply {
        Some(Raw::BulkString(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Some(Raw::VerbatimString { text, .. } | Raw::SimpleString(text)) => text,
        other => {
            tracing::debug!(reply = ?other, "the server did not tell its version");
            return Ok(());
        }
    };
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    // Valkey also sends the Redis version that it is compatible with.
    match (field("valkey_version:"), field("redis_version:")) {
        (Some(version), _) if is_older(version, (7, 2)) => {
            Err(Trouble::too_old(&format!("valkey {}", version.trim())))
        }
        (None, Some(version)) if is_older(version, (7, 0)) => {
            Err(Trouble::too_old(&format!("redis {}", version.trim())))
        }
        _ => Ok(()),
    }
}

/// A version that cannot be read counts as new enough.
fn is_older(version: &str, least: (u32, u32)) -> bool {
    let mut numbers = version
        .trim()
        .split('.')
        .map_while(|part| part.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), minor) => (major, minor.unwrap_or(0)) < least,
        _ => false,
    }
}

impl Live {
    /// Runs one script call, in the form it asks for; nothing is ever sent twice.
    ///
    /// With the time it took, if that was measured and the script was known.
    pub(in super::super) async fn run(
        &self,
        call: &Call,
    ) -> (Result<Value, Failure>, Option<Duration>) {
        let mut connection = self.connection.clone();
        let waiting = self.pulse.wait(|| Clock::Boot.now());
        let first = match call.form {
            Form::Hash | Form::HashThenText => wire::evalsha(call),
            Form::Text => wire::eval(call),
        };
        let mut reply = connection.send_packed_command(&first).await;
        let unknown = wire::is_no_script(&reply);
        if unknown && call.form == Form::HashThenText {
            reply = connection.send_packed_command(&wire::eval(call)).await;
        }
        let began = waiting.answered().filter(|_| !unknown);
        let took = began.map(|began| Clock::Boot.now().since(began));
        (self.judge(reply), took)
    }

    fn judge(&self, reply: RedisResult<Raw>) -> Result<Value, Failure> {
        let value = match reply {
            Ok(raw) => wire::decode(raw),
            Err(error) => Err(self.unknown(&error)),
        };
        if let Err(Failure::Refused { code, .. }) = &value
            && matches!(code.as_str(), "READONLY" | "LOADING")
        {
            // This server is no longer, or not yet, the one that its host name should lead to.
            self.retire("the server takes no writes for now");
        }
        value
    }

    fn unknown(&self, error: &::redis::RedisError) -> Failure {
        let why = match self.pulse.fault() {
            Some(trouble) => trouble.failure.to_string(),
            None => error.to_string(),
        };
        Failure::Unknown(format!("the connection ended before the reply came: {why}"))
    }

    /// Asks for a sign of life. Any answer is one.
    pub(in super::super) async fn ping(&self) {
        let leavers = self.pulse.leavers();
        let mut connection = self.connection.clone();
        if connection
            .send_packed_command(&::redis::cmd("PING"))
            .await
            .is_ok()
        {
            self.pulse.excuse(leavers);
        }
    }

    pub(in super::super) async fn subscribe(&self, channels: &[Arc<str>]) -> Result<(), Failure> {
        let names: Vec<&str> = channels.iter().map(|name| &**name).collect();
        let done = self.connection.clone().subscribe(names).await;
        done.map_err(|error| self.refusal(error))
    }

    pub(in super::super) async fn unsubscribe(&self, channels: &[Arc<str>]) -> Result<(), Failure> {
        let names: Vec<&str> = channels.iter().map(|name| &**name).collect();
        let done = self.connection.clone().unsubscribe(names).await;
        done.map_err(|error| self.refusal(error))
    }

    fn refusal(&self, error: ::redis::RedisError) -> Failure {
        match error.clone().into_server_errors().as_deref() {
            Some([(_, error), ..]) => wire::refused(error),
            _ => self.unknown(&error),
        }
    }

    /// Whether it is known to have ended: nothing more can be sent over it.
    pub(in super::super) fn is_over(&self) -> bool {
        self.pulse.fault().is_some()
    }

    /// Asks the supervisor for another connection.
    pub(in super::super) fn retire(&self, why: &'static str) {
        let _ = self.retiring.set(why);
        self.retire.notify_one();
    }

    /// Resolves with the reason when another connection was asked for.
    pub(in super::super) async fn retired(&self) -> &'static str {
        loop {
            if let Some(why) = self.retiring.get() {
                return why;
            }
            self.retire.notified().await;
        }
    }
}

impl ConnectionTask {
    /// Resolves when the connection has ended.
    pub(in super::super) async fn ended(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        let info = |text: &str| check_version(Some(Raw::BulkString(text.into())));

        assert!(info("redis_version:7.0.0\r\n").is_ok());
        assert!(info("redis_version:10.1\r\n").is_ok());
        assert!(info("redis_version:6.2.14\r\n").is_err());
        assert!(info("redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n").is_ok());
        assert!(info("redis_version:7.2.4\r\nvalkey_version:7.1.0\r\n").is_err());
        assert!(info("redis_version:unstable\r\n").is_ok());
    }
}
