//! Opens the byte stream to a server and records when bytes come.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;

use super::super::address::config::{Config, ServerAddress};
use super::super::trouble::{Class, Trouble};
use super::pulse::Pulse;

/// Bytes in both directions.
trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// How many bytes are handed on at a time: some sixty replies.
const PART: usize = 256;

/// A stream that records the time of each arrival and the reason of its end.
///
/// Between two parts of what has come, other tasks of the runtime have their turn. Else all callers with a reply would send
/// their next calls at once, after the last of them has run: the server stands still until then, and the callers while it
/// works them off.
pub(in super::super) struct WatchedStream {
    inner: BufReader<Box<dyn Duplex>>,
    /// A part was handed on, and more has come.
    has_more: bool,
    pulse: Arc<Pulse>,
}

/// Opens a stream; the host name is resolved anew each time.
pub(in super::super) async fn open(
    config: &Config,
    pulse: Arc<Pulse>,
) -> Result<WatchedStream, Trouble> {
    let inner: Box<dyn Duplex> = match &config.place {
        ServerAddress::Tcp { host, port } => Box::new(open_tcp(config, host, *port).await?),
        ServerAddress::Tls { host, port } => open_tls(config, host, *port).await?,
        ServerAddress::Unix(path) => open_unix(path).await?,
    };
    Ok(WatchedStream {
        inner: BufReader::new(inner),
        has_more: false,
        pulse,
    })
}

async fn open_tcp(config: &Config, host: &str, port: u16) -> Result<TcpStream, Trouble> {
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|error| {
            Trouble::new(
                Class::Other,
                format!("the host name {host} cannot be resolved: {error}"),
            )
        })?
        .collect();
    let mut left = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let share = config.connect_limit / left.max(1);
    let mut trouble = Trouble::new(Class::Other, format!("the host name {host} has no address"));
    for address in found {
        left -= 1;
        let attempt = TcpStream::connect(address);
        // One address that never answers must not keep the next from being tried; the last has all the time that is left.
        let opened = if left == 0 {
            attempt.await
        } else {
            match tokio::time::timeout(share, attempt).await {
                Ok(opened) => opened,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            }
        };
        match opened {
            Ok(stream) => {
                tune(&stream, config.command_limit);
                return Ok(stream);
            }
            Err(error) => trouble = Trouble::from_io(&error),
        }
    }
    Err(trouble)
}

/// A connection without these works too, only worse.
fn tune(stream: &TcpStream, command_limit: Duration) {
    let socket = SockRef::from(stream);
    let limit = command_limit.max(Duration::from_secs(1));
    let keep_alive = TcpKeepalive::new().with_time(limit).with_interval(limit);
    let done = socket
        .set_tcp_nodelay(true)
        .and_then(|()| socket.set_tcp_keepalive(&keep_alive))
        .and_then(|()| set_user_timeout(&socket, 2 * limit));
    if let Err(error) = done {
        tracing::debug!(%error, "an option of a socket was refused");
    }
}

#[cfg(target_os = "linux")]
fn set_user_timeout(socket: &SockRef<'_>, limit: Duration) -> io::Result<()> {
    socket.set_tcp_user_timeout(Some(limit))
}

#[cfg(not(target_os = "linux"))]
fn set_user_timeout(_socket: &SockRef<'_>, _limit: Duration) -> io::Result<()> {
    Ok(())
}

#[cfg(feature = "tls")]
async fn open_tls(config: &Config, host: &str, port: u16) -> Result<Box<dyn Duplex>, Trouble> {
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;

    let certificate = |text: String| Trouble::new(Class::Certificate, text);
    let tls = config.tls.clone();
    let settings = tokio::task::spawn_blocking(move || tls.build())
        .await
        .map_err(|error| certificate(format!("tls cannot be set up: {error}")))?
        .map_err(certificate)?;
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| certificate(format!("no certificate can be for the host name {host}")))?;
    let stream = open_tcp(config, host, port).await?;
    let stream = TlsConnector::from(Arc::new(settings))
        .connect(name, stream)
        .await
        .map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                certificate("the server ended the tls handshake: does it speak tls there?".into())
            }
            _ => Trouble::from_io(&error),
        })?;
    Ok(Box::new(stream))
}

#[cfg(not(feature = "tls"))]
async fn open_tls(_config: &Config, _host: &str, _port: u16) -> Result<Box<dyn Duplex>, Trouble> {
    Err(Trouble::new(
        Class::Certificate,
        super::super::address::config::NO_TLS,
    ))
}

#[cfg(unix)]
async fn open_unix(path: &std::path::Path) -> Result<Box<dyn Duplex>, Trouble> {
    let stream = tokio::net::UnixStream::connect(path)
        .await
        .map_err(|error| Trouble::from_io(&error))?;
    Ok(Box::new(stream))
}

#[cfg(not(unix))]
async fn open_unix(_path: &std::path::Path) -> Result<Box<dyn Duplex>, Trouble> {
    Err(Trouble::new(
        Class::Other,
        "this system has no unix sockets",
    ))
}

impl AsyncRead for WatchedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if std::mem::take(&mut this.has_more) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let is_known = !this.inner.buffer().is_empty();
        let bytes = match ready!(Pin::new(&mut this.inner).poll_fill_buf(cx)) {
            Ok(bytes) => bytes,
            Err(error) => {
                this.pulse.fail(Trouble::from_io(&error));
                return Poll::Ready(Err(error));
            }
        };
        if bytes.is_empty() {
            let end = io::ErrorKind::UnexpectedEof.into();
            this.pulse.fail(Trouble::from_io(&end));
        } else if !is_known {
            this.pulse.beat();
        }
        let part = bytes.len().min(buf.remaining()).min(PART);
        buf.put_slice(bytes.get(..part).unwrap_or_default());
        Pin::new(&mut this.inner).consume(part);
        this.has_more = !this.inner.buffer().is_empty();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for WatchedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.inner).poll_write(cx, buf);
        if let Poll::Ready(Err(error)) = &done {
            self.pulse.fail(Trouble::from_io(error));
        }
        done
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
