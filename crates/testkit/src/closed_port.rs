//! A port on which no program listens or can listen.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::TcpSocket;

/// Connections to it are refused as long as this value lives.
///
/// It is bound and not listened on. Another test may take a port that is merely free a moment later, and a client may even
/// connect to itself through such a port.
#[derive(Debug)]
pub struct ClosedPort {
    socket: TcpSocket,
}

impl ClosedPort {
    /// One that the system chooses.
    #[track_caller]
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        socket.bind(any).expect("a free port");
        Self { socket }
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("it is bound")
    }
}

impl Default for ClosedPort {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_refused_each_time() {
        let port = ClosedPort::new();

        for _ in 0..100 {
            let refused = std::net::TcpStream::connect(port.address()).unwrap_err();
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        assert!(std::net::TcpListener::bind(port.address()).is_err());
    }
}
