//! Messages between the processes of a store.
//!
//! Each process that waits has a datagram socket beside its session's file, and a thread that reads it. A process that
//! publishes sends one datagram to each process that listens, when its change is committed. A socket holds few of them (ten,
//! mostly): one that finds it full is sent again until there is room. It may still be lost, if the receiver is stopped for
//! long or the sender is killed in between: waiters look again by themselves after a while.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::super::emulator::server::Message;
use super::session::socket_name;
use crate::engine::{Failure, Listener, Signal, unpoisoned};

/// Longer than a channel, which is a name with little around it, and a payload.
const DATAGRAM_MAX: usize = 4096;

/// The longest path that an address of a socket holds.
const PATH_MAX: usize = 100;

/// Between two tries to send a datagram that found a socket full.
const AGAIN_EVERY: Duration = Duration::from_millis(1);
/// By then the waiters have looked by themselves.
const AGAIN_MAX: u32 = 2_000;
/// At most this many datagrams wait for one socket; one more is dropped.
const UNSENT_MAX: usize = 10_000;

/// The socket at which a process is woken.
pub(super) type Socket = Arc<UnixDatagram>;

/// What is sent when a change is committed and the turn is over.
#[derive(Default)]
pub(super) struct Mail {
    /// To listeners of this process.
    pub(super) near: Vec<(Arc<dyn Listener>, Signal)>,
    /// To other processes: the session, and the datagram.
    pub(super) far: Vec<(String, Datagram)>,
}

/// A message on its way to another process: the length of the channel's name, the name, the payload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Datagram(Vec<u8>);

impl Datagram {
    pub(super) fn of(message: &Message) -> Self {
        let (channel, payload) = (&message.channel, &message.payload);
        let length = u16::try_from(channel.len()).unwrap_or(u16::MAX);
        Self([&length.to_be_bytes(), channel.as_slice(), payload].concat())
    }

    /// The channel and the payload.
    fn read(datagram: &[u8]) -> Option<(&[u8], &[u8])> {
        let (length, rest) = datagram.split_first_chunk()?;
        rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))
    }
}

/// The sockets of a store.
#[derive(Debug)]
pub(super) struct Sender {
    folder: PathBuf,
    /// Open while the process lives: gives a path to the folder that is short enough for the address of a socket.
    way: std::fs::File,
    sends: UnixDatagram,
    /// By session, those whose socket was full.
    unsent: Mutex<BTreeMap<String, Unsent>>,
    comes: Condvar,
    thread: OnceLock<()>,
}

/// The datagrams that wait for one socket. Of equal ones, one is enough.
#[derive(Debug, Default)]
struct Unsent {
    datagrams: BTreeSet<Datagram>,
    /// How often it was full in a row.
    tries: u32,
}

impl Sender {
    pub(super) fn open(folder: PathBuf) -> Result<Self, Failure> {
        let told = |error: io::Error| super::directory::io_trouble("the store's sockets", &error);
        let sends = UnixDatagram::unbound().map_err(told)?;
        sends.set_nonblocking(true).map_err(told)?;
        Ok(Self {
            way: std::fs::File::open(&folder).map_err(told)?,
            folder,
            sends,
            unsent: Mutex::default(),
            comes: Condvar::new(),
            thread: OnceLock::new(),
        })
    }

    /// Sends everything; returns the sessions that no longer have a socket.
    pub(super) fn deliver(&'static self, mail: Mail) -> Vec<String> {
        let mut deaf = Vec::new();
        for (session, datagram) in mail.far {
            match self.send(&session, &datagram) {
                Ok(()) => {}
                Err(error) if is_gone(&error) => deaf.push(session),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.send_later(session, datagram);
                }
                // The waiters' safety poll makes up for it.
                Err(_) => {}
            }
        }
        for (listener, signal) in mail.near {
            listener.hear(signal);
        }
        deaf
    }

    fn send(&self, session: &str, datagram: &Datagram) -> io::Result<()> {
        let sent = self.sends.send_to(&datagram.0, self.address(session));
        sent.map(drop)
    }

    fn send_later(&'static self, session: String, datagram: Datagram) {
        let mut unsent = unpoisoned(&self.unsent);
        let waiting = unsent.entry(session).or_default();
        if waiting.datagrams.len() < UNSENT_MAX {
            waiting.datagrams.insert(datagram);
        }
        drop(unsent);
        self.comes.notify_one();
        self.thread.get_or_init(|| {
            let thread = std::thread::Builder::new().name("ferrolock-post".to_owned());
            if let Err(error) = thread.spawn(|| self.send_again()) {
                tracing::warn!(%error, "no thread for messages to busy processes: they may look for themselves");
            }
        });
    }

    fn send_again(&self) {
        let mut unsent = unpoisoned(&self.unsent);
        loop {
            unsent = if unsent.is_empty() {
                let waited = self.comes.wait(unsent);
                waited.unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.comes.wait_timeout(unsent, AGAIN_EVERY);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
            unsent.retain(|session, waiting| self.send_unsent(session, waiting));
        }
    }

    /// Sends as much as there is room for; returns whether something is left to be sent.
    fn send_unsent(&self, session: &str, waiting: &mut Unsent) -> bool {
        while let Some(datagram) = waiting.datagrams.first() {
            match self.send(session, datagram) {
                Ok(()) => {
                    waiting.datagrams.pop_first();
                    waiting.tries = 0;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    waiting.tries += 1;
                    return waiting.tries < AGAIN_MAX;
                }
                Err(_) => return false,
            }
        }
        false
    }

    /// Starts a thread that reads what is sent to that session, until the socket is shut down.
    pub(super) fn listen(
        &self,
        session: &str,
        hears: impl Fn(&[u8], &[u8]) + Send + 'static,
    ) -> io::Result<Socket> {
        let socket = Arc::new(UnixDatagram::bind(self.address(session))?);
        let theirs = socket.clone();
        let thread = std::thread::Builder::new().name("ferrolock-wakes".to_owned());
        thread.spawn(move || {
            let mut datagram = [0; DATAGRAM_MAX];
            loop {
                let got = match theirs.recv(&mut datagram) {
                    // No process sends empty datagrams: the socket was shut down.
                    Ok(0) => return,
                    Ok(length) => datagram.get(..length),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => {
                        tracing::warn!(%error, "no more messages from other processes: waiting falls back to polling");
                        return;
                    }
                };
                if let Some((channel, payload)) = got.and_then(Datagram::read) {
                    hears(channel, payload);
                }
            }
        })?;
        Ok(socket)
    }

    /// The path of a session's socket, short enough for an address.
    fn address(&self, session: &str) -> PathBuf {
        let name = socket_name(session);
        let path = self.folder.join(&name);
        if path.as_os_str().as_bytes().len() <= PATH_MAX {
            return path;
        }
        Path::new(&format!("/proc/self/fd/{}", self.way.as_raw_fd())).join(name)
    }
}

/// Whether no process reads at that address, and none ever will again.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(channel: &[u8], payload: &[u8]) -> Datagram {
        Datagram::of(&Message {
            channel: channel.to_vec(),
            payload: payload.to_vec(),
        })
    }

    #[test]
    fn a_datagram_is_read_as_it_was_written() {
        let datagram = datagram(b"channel", b"payload");

        assert_eq!(
            Datagram::read(&datagram.0),
            Some((&b"channel"[..], &b"payload"[..]))
        );
        assert_eq!(Datagram::read(b"\0"), None);
        assert_eq!(Datagram::read(b"\0\x05abc"), None);
    }

    #[test]
    fn sockets_work_in_a_folder_with_a_long_path() {
        let folder = tempfile::tempdir().unwrap();
        let deep = folder.path().join("x".repeat(200));
        std::fs::create_dir(&deep).unwrap();
        let sender: &Sender = Box::leak(Box::new(Sender::open(deep).unwrap()));
        let (heard, hears) = std::sync::mpsc::channel();

        let _socket = sender
            .listen("me", move |channel, payload| {
                heard.send((channel.to_vec(), payload.to_vec())).unwrap();
            })
            .unwrap();
        let deaf = sender.deliver(Mail {
            near: Vec::new(),
            far: vec![
                ("me".to_owned(), datagram(b"c", b"0")),
                ("nobody".to_owned(), datagram(b"c", b"0")),
            ],
        });

        let got = hears.recv_timeout(testkit::LIMIT).unwrap();
        assert_eq!(got, (b"c".to_vec(), b"0".to_vec()));
        assert_eq!(deaf, ["nobody"]);
    }

    /// A socket holds ten datagrams on most machines. Once, those that came while it was full were lost, and their waiters were
    /// served by the safety poll, a second later: one hand-off of 65 between two processes with a hundred names.
    #[test]
    fn a_datagram_that_finds_the_socket_full_is_delivered_later() {
        const COUNT: u8 = 100;
        let folder = tempfile::tempdir().unwrap();
        let sender: &Sender = Box::leak(Box::new(Sender::open(folder.path().to_owned()).unwrap()));
        let (heard, hears) = std::sync::mpsc::channel();
        let (lets_go, busy) = std::sync::mpsc::channel::<()>();
        let busy = Mutex::new(busy);
        let _socket = sender
            .listen("me", move |channel, _| {
                // Until the sender of this is dropped.
                let _ = unpoisoned(&busy).recv();
                heard.send(channel.to_vec()).unwrap();
            })
            .unwrap();

        for number in 0..COUNT {
            let far = vec![("me".to_owned(), datagram(&[number], b"0"))];
            let near = Vec::new();
            assert_eq!(sender.deliver(Mail { near, far }), [""; 0]);
        }
        drop(lets_go);

        let all: BTreeSet<_> = (0..COUNT)
            .map(|_| hears.recv_timeout(testkit::LIMIT).unwrap())
            .collect();
        assert_eq!(all.len(), usize::from(COUNT));
    }
}
