//! A small blocking client of our own: the tests must not inspect a server through the client under test.

use crate::resp::{Reply, read_line, read_reply, write_command};
use crate::wait::LIMIT;
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// A connection whose calls block.
#[derive(Debug)]
pub struct Connection {
    stream: BufReader<Stream>,
}

impl Connection {
    /// Connects without a user name.
    pub fn open(address: &Address) -> io::Result<Self> {
        let stream = Stream::open(address)?;
        stream.limit_reads(Some(LIMIT))?;
        Ok(Self {
            stream: BufReader::new(stream),
        })
    }

    /// Sends a command and returns its reply; panics when the connection breaks or the server is silent.
    #[track_caller]
    pub fn command(&mut self, words: &[&str]) -> Reply {
        self.try_command(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Sends a command and returns its reply.
    pub fn try_command(&mut self, words: &[&str]) -> io::Result<Reply> {
        self.send(words)?;
        read_reply(&mut self.stream)
    }

    /// Sends a command without waiting for its reply.
    pub fn send(&mut self, words: &[&str]) -> io::Result<()> {
        write_command(self.stream.get_mut(), words)
    }

    /// Reads the next reply or message.
    pub fn receive(&mut self) -> io::Result<Reply> {
        read_reply(&mut self.stream)
    }

    /// Reads the next line, however long it takes to come.
    pub(crate) fn receive_line(&mut self) -> io::Result<String> {
        self.stream.get_ref().limit_reads(None)?;
        read_line(&mut self.stream)
    }

    /// A handle that can end a blocked read.
    pub(crate) fn closer(&self) -> io::Result<Closer> {
        self.stream.get_ref().try_clone().map(Closer)
    }
}

/// Ends the connection it was made from.
#[derive(Debug)]
pub(crate) struct Closer(Stream);

impl Closer {
    pub(crate) fn close(&self) {
        // A connection that the other side has closed already cannot be shut down, and need not be.
        let _ = match &self.0 {
            Stream::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Stream::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn open(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, LIMIT)?;
                stream.set_nodelay(true)?;
                Ok(Self::Tcp(stream))
            }
            Address::Unix(path) => UnixStream::connect(path).map(Self::Unix),
        }
    }

    fn limit_reads(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(limit),
            Self::Unix(stream) => stream.set_read_timeout(limit),
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(to),
            Self::Unix(stream) => stream.read(to),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
