//! The bare client that ours is compared with: the same crate, the same kind of socket, nothing above it.

use crate::rounds::{median, micros_since, now};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo};
use std::net::SocketAddr;
use testkit::Server;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A runtime of one thread.
pub(crate) fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// A runtime of two threads.
pub(crate) fn two_threads() -> Runtime {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Connects as the library does.
pub(crate) async fn connect(server: &Server) -> MultiplexedConnection {
    connect_to(server.address(), settings()).await
}

/// The same, with the messages that the server pushes for subscriptions.
pub(crate) async fn connect_hearing(
    address: SocketAddr,
) -> (MultiplexedConnection, UnboundedReceiver<PushInfo>) {
    let (heard, messages) = unbounded_channel();
    let connection = connect_to(address, settings().set_push_sender(heard)).await;
    (connection, messages)
}

fn settings() -> AsyncConnectionConfig {
    AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_connection_timeout(None)
        .set_pipeline_buffer_size(4096)
        .set_write_backpressure_boundary(64 * 1024)
}

async fn connect_to(address: SocketAddr, settings: AsyncConnectionConfig) -> MultiplexedConnection {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let login = RedisConnectionInfo::default()
        .set_protocol(ProtocolVersion::RESP3)
        .set_skip_set_lib_name();
    let (connection, driver) = MultiplexedConnection::new_with_config(&login, stream, settings)
        .await
        .unwrap();
    tokio::spawn(driver);
    connection
}

/// Waits for the answer to a PING.
pub(crate) async fn ping(connection: &mut MultiplexedConnection) {
    let reply = connection.send_packed_command(&redis::cmd("PING")).await;
    assert!(matches!(reply, Ok(redis::Value::SimpleString(text)) if text == "PONG"));
}

/// How long a PING takes now, in microseconds.
pub(crate) fn ping_p50(server: &Server) -> f64 {
    one_thread().block_on(async {
        let mut connection = connect(server).await;
        median(&pings(&mut connection, 1000).await)
    })
}

/// How long each of `count` PINGs takes, in microseconds.
pub(crate) async fn pings(connection: &mut MultiplexedConnection, count: usize) -> Vec<f64> {
    let mut took = Vec::with_capacity(count);
    for _ in 0..count {
        let begun = now();
        ping(connection).await;
        took.push(micros_since(begun));
    }
    took
}
