//! A server that answers and fails as a test says, for what the real servers here do not do.

mod answer;

use self::answer::{first_contact, push};
use crate::resp::read_reply;
use std::collections::HashSet;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use tokio::net::TcpSocket;
use tokio::sync::watch;

pub use self::answer::Answer;

/// A scripted server on a port of its own; it remembers every command.
#[derive(Debug)]
pub struct StubServer {
    address: SocketAddr,
    /// Bound, never listening: no other program gets the port while the server is stopped.
    _port: TcpSocket,
    shared: Arc<Shared>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

/// The commands that a stub received, in order. A command is in it once its answer is decided, and before that is sent.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Every command, word by word.
    pub commands: Vec<Vec<String>>,
    /// How many clients ever connected.
    pub connections: usize,
}

type Script = dyn Fn(&[String]) -> Answer + Send + Sync;

struct Shared {
    script: Box<Script>,
    seen: watch::Sender<Seen>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_stopped: bool,
    is_frozen: bool,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    number: usize,
    stream: TcpStream,
    /// What the server has not sent yet, because it is frozen.
    held: Vec<u8>,
    channels: HashSet<String>,
}

impl StubServer {
    /// A Redis of this version that accepts connections, and knows only the commands with which a client begins.
    pub fn of_version(version: &str) -> Self {
        let version = version.to_owned();
        Self::start(move |command| first_contact(&version, command))
    }

    /// A Redis of a version before 7.
    pub fn old() -> Self {
        Self::of_version("6.2.14")
    }

    /// A server that answers every command with what `script` returns.
    #[track_caller]
    pub fn start(script: impl Fn(&[String]) -> Answer + Send + Sync + 'static) -> Self {
        let port = TcpSocket::new_v4().expect("a socket");
        port.set_reuseaddr(true).expect("it is not bound yet");
        port.bind(([127, 0, 0, 1], 0).into()).expect("a free port");
        let stub = Self {
            address: port.local_addr().expect("it is bound"),
            _port: port,
            shared: Arc::new(Shared {
                script: Box::new(script),
                seen: watch::Sender::default(),
                state: Mutex::default(),
            }),
            listener: Mutex::default(),
        };
        stub.restart();
        stub
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it received so far.
    pub fn seen(&self) -> Seen {
        self.shared.seen.borrow().clone()
    }

    /// Every command so far, in the order they came.
    pub fn commands(&self) -> Vec<Vec<String>> {
        self.seen().commands
    }

    /// How often a command came, by its first word in any case.
    pub fn count(&self, name: &str) -> usize {
        self.shared.seen.borrow().count(name)
    }

    /// Waits until `wanted` is true of what it has received.
    pub async fn until(&self, wanted: impl FnMut(&Seen) -> bool) {
        let mut seen = self.shared.seen.subscribe();
        let _ = seen.wait_for(wanted).await.expect("the sender is ours");
    }

    /// Closes all connections.
    pub fn kick(&self) {
        for client in self.shared.state().clients.drain(..) {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }

    /// Stops: accepts no new connections and closes the open ones.
    pub fn stop(&self) {
        self.shared.state().is_stopped = true;
        // Wakes the listener, which then sees that it has ended.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(listener) = lock(&self.listener).take().filter(|_| woken) {
            let _ = listener.join();
        }
        self.kick();
    }

    /// Accepts connections again, at the same address.
    #[track_caller]
    pub fn restart(&self) {
        self.shared.state().is_stopped = false;
        let listener = TcpListener::bind(self.address).expect("the port is ours");
        let shared = Arc::clone(&self.shared);
        *lock(&self.listener) = Some(std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.state().is_stopped {
                    return;
                }
                shared.accept(client);
            }
        }));
    }

    /// Stops writing, reads on; what it would have written is sent by [`StubServer::thaw`].
    pub fn freeze(&self) {
        self.shared.state().is_frozen = true;
    }

    /// Writes again.
    pub fn thaw(&self) {
        let mut state = self.shared.state();
        state.is_frozen = false;
        for client in &mut state.clients {
            let held = std::mem::take(&mut client.held);
            let _ = client.stream.write_all(&held);
        }
    }

    /// Sends a message to the subscribers of a channel; returns how many there are.
    pub fn publish(&self, channel: &str, payload: &str) -> usize {
        let message = push("message", channel, &Answer::text(payload));
        self.push_to(channel, &message)
    }

    /// Ends the subscriptions of a channel without a request of a client; returns how many there were.
    pub fn cut(&self, channel: &str) -> usize {
        let end = push("unsubscribe", channel, &Answer::Int(0));
        self.push_to(channel, &end)
    }

    fn push_to(&self, channel: &str, bytes: &str) -> usize {
        let mut state = self.shared.state();
        let is_frozen = state.is_frozen;
        let joined = |client: &&mut Client| client.channels.contains(channel);
        state
            .clients
            .iter_mut()
            .filter(joined)
            .filter_map(|client| client.send(bytes, is_frozen).ok())
            .count()
    }
}

impl Drop for StubServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Seen {
    /// How often a command came, by its first word in any case.
    pub fn count(&self, name: &str) -> usize {
        let named = |words: &&Vec<String>| {
            words
                .first()
                .is_some_and(|word| word.eq_ignore_ascii_case(name))
        };
        self.commands.iter().filter(named).count()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn accept(self: &Arc<Self>, stream: TcpStream) {
        let (Ok(()), Ok(input)) = (stream.set_nodelay(true), stream.try_clone()) else {
            return;
        };
        let number = self.seen.borrow().connections;
        self.state().clients.push(Client {
            number,
            stream,
            held: Vec::new(),
            channels: HashSet::new(),
        });
        self.seen.send_modify(|seen| seen.connections += 1);
        let shared = Arc::clone(self);
        // Ends with its client, or with an answer that closes the connection.
        std::thread::spawn(move || {
            let _ = shared.serve(number, input);
            let mut state = shared.state();
            let is_it = |client: &mut Client| client.number == number;
            for client in state.clients.extract_if(.., is_it) {
                let _ = client.stream.shutdown(Shutdown::Both);
            }
        });
    }

    fn serve(&self, number: usize, input: TcpStream) -> io::Result<()> {
        let mut input = BufReader::new(input);
        loop {
            let command = read_reply(&mut input)?.texts();
            let answer = (self.script)(&command);
            self.seen
                .send_modify(|seen| seen.commands.push(command.clone()));
            let mut state = self.state();
            let is_frozen = state.is_frozen;
            let client = state.clients.iter_mut().find(|it| it.number == number);
            match (client, answer) {
                (None, _) | (_, Answer::Close) => return Ok(()),
                (Some(client), answer) => client.reply(&command, answer, is_frozen)?,
            }
        }
    }
}

impl Client {
    fn reply(&mut self, command: &[String], answer: Answer, is_frozen: bool) -> io::Result<()> {
        let channels = command.iter().skip(1);
        let confirm = |kind| {
            let confirmation = |channel: &String| push(kind, channel, &Answer::Int(1));
            channels.clone().map(confirmation).collect::<String>()
        };
        let bytes = match answer {
            Answer::Join => {
                self.channels.extend(channels.clone().cloned());
                confirm("subscribe")
            }
            Answer::Leave => {
                self.channels.retain(|joined| !command.contains(joined));
                confirm("unsubscribe")
            }
            answer => answer.encode(),
        };
        self.send(&bytes, is_frozen)
    }

    fn send(&mut self, bytes: &str, is_frozen: bool) -> io::Result<()> {
        if is_frozen {
            self.held.write_all(bytes.as_bytes())
        } else {
            self.stream.write_all(bytes.as_bytes())
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::{Address, Connection};
    use crate::resp::Reply;

    fn connect(stub: &StubServer) -> Connection {
        Connection::open(&Address::Tcp(stub.address())).unwrap()
    }

    #[test]
    fn an_old_server_shows_its_version_in_hello_and_info() {
        let stub = StubServer::old();
        let mut client = connect(&stub);

        let hello = client.command(&["HELLO", "2"]).list();
        assert_eq!(hello[3], "6.2.14".into());
        let info = client.command(&["INFO", "server"]).text();
        assert!(info.contains("redis_version:6.2.14\r\n"), "{info}");
    }

    #[test]
    fn commands_are_counted_and_unknown_ones_refused() {
        let stub = StubServer::old();
        let mut client = connect(&stub);

        assert_eq!(client.command(&["PING"]), "PONG".into());
        let refusal = client.command(&["EVAL", "return 1", "0"]);

        assert_eq!(
            refusal,
            Reply::Error("ERR unknown command 'EVAL'".to_owned())
        );
        assert_eq!(stub.count("eval"), 1);
        assert_eq!(stub.count("SET"), 0);
        assert_eq!(stub.commands()[0], ["PING"]);
    }

    #[test]
    fn a_script_may_close_the_connection() {
        let stub = StubServer::start(|_| Answer::Close);

        assert!(connect(&stub).try_command(&["PING"]).is_err());
        assert_eq!(stub.count("PING"), 1);
    }

    #[test]
    fn a_frozen_stub_sends_its_answers_when_it_is_thawed() {
        let stub = StubServer::old();
        let mut client = connect(&stub);
        stub.freeze();

        client.send(&["PING"]).unwrap();
        crate::eventually(crate::LIMIT, "it was read", || stub.count("PING") == 1);
        stub.thaw();

        assert_eq!(client.receive().unwrap(), "PONG".into());
    }

    #[test]
    fn a_stopped_stub_comes_back_at_its_address() {
        let stub = StubServer::old();
        let mut client = connect(&stub);
        client.command(&["PING"]);

        stub.stop();

        assert!(client.try_command(&["PING"]).is_err());
        assert!(Connection::open(&Address::Tcp(stub.address())).is_err());
        stub.restart();
        assert_eq!(connect(&stub).command(&["PING"]), "PONG".into());
        assert_eq!(stub.seen().connections, 2);
    }

    /// Does not check whether the port is free: another test may have it by then.
    #[test]
    fn a_dropped_stub_answers_no_client() {
        let stub = StubServer::old();
        let mut client = connect(&stub);
        client.command(&["PING"]);

        drop(stub);

        assert!(client.try_command(&["PING"]).is_err());
    }
}
